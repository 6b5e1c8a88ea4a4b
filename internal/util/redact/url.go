package redact

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
)

var (
	// parameter finds the parameters of URLs in a text, and uriParameter those of a text that is a URI.
	parameter    = lazy.Regexp(`[?&;#]([^=&;#?\s"'<>]+)=([^&;#\s"<>]+)`)
	uriParameter = lazy.Regexp(`[?&;#]([^=&;#?]+)=([^&;#]+)`)

	// user finds the user and the password of URLs.
	user = lazy.Regexp(`://[^/?#\s"<>]+@`)

	// unfinished finds a URL at the end of a text whose user may have been cut.
	unfinished = lazy.Regexp(`(:(?:\\?/){2})[^/?#\s"<>]*$`)
)

// URI returns a URI without its user and password, and without the values of parameters whose names
// say that they are secrets.
func URI(uri string) string { return urls(uri, uriParameter) }

// urls returns a text whose URLs are as [URI] returns them. What is hidden by asterisks stays.
func urls(text string, parameter func() *regexp.Regexp) string {
	if strings.Contains(text, "://") && strings.Contains(text, "@") {
		text = user().ReplaceAllStringFunc(text, func(m string) string {
			if strings.Trim(m, ":/*@") == "" {
				return m
			}
			return "://" + mark + "@"
		})
	}
	if !strings.Contains(text, "=") || !strings.ContainsAny(text, "?&;#") {
		return text
	}
	var b strings.Builder
	at := 0
	for _, m := range parameter().FindAllStringSubmatchIndex(text, -1) {
		name, value := text[m[2]:m[3]], text[m[4]:m[5]]
		if plain, err := url.QueryUnescape(name); err == nil {
			name = plain
		}
		shorter := strings.TrimRight(value, "'`.,:)]}") // what is cut off belongs to the text around it
		if strings.HasPrefix(value, mark) || strings.Trim(shorter, "*") == "" || !SecretParameter(name) {
			continue
		}
		b.WriteString(text[at:m[4]])
		b.WriteString(mark)
		at = m[4] + len(shorter)
	}
	b.WriteString(text[at:])
	return b.String()
}

// hideCut returns a text that was cut, without the part of a user or password at its end.
func hideCut(text string) string {
	if !strings.Contains(text, ":") {
		return text
	}
	return unfinished().ReplaceAllString(text, "${1}"+mark)
}
