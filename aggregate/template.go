package aggregate

import (
	"regexp"
	"strings"
)

// A pattern tells which URIs a URI template (RFC 6570) may make.
type pattern struct {
	template string
	strict   *regexp.Regexp // as the template says; nil if it cannot be read
	loose    *regexp.Regexp // any text for each expression, as some servers have it
}

// maxTemplate is how long a template may be that is looked at, in bytes. Longer ones
// match nothing.
const maxTemplate = 4096

// compile returns the pattern of a template.
func compile(template string) *pattern {
	p := &pattern{template: template}
	if len(template) > maxTemplate {
		return p
	}
	var strict, loose strings.Builder
	strict.WriteString(`^`)
	loose.WriteString(`^`)
	for rest := template; rest != ""; {
		text, after, found := strings.Cut(rest, "{")
		strict.WriteString(regexp.QuoteMeta(text))
		loose.WriteString(regexp.QuoteMeta(text))
		if !found {
			break
		}
		expression, tail, closed := strings.Cut(after, "}")
		if !closed || expression == "" {
			return p
		}
		strict.WriteString(expressionPattern(expression))
		loose.WriteString(`.*`)
		rest = tail
	}
	strict.WriteString(`$`)
	loose.WriteString(`$`)
	// What is quoted cannot fail; (?s) lets . stand for line ends too.
	p.strict, _ = regexp.Compile(`(?s)` + strict.String())
	p.loose, _ = regexp.Compile(`(?s)` + loose.String())
	return p
}

// expressionPattern returns what an expression may become. The names of variables
// are not looked at, except that they stand in queries.
func expressionPattern(expression string) string {
	switch expression[0] {
	case '+':
		return `.+`
	case '#':
		return `(?:#.*)?`
	case '/':
		return `(?:/[^/?#]*)*`
	case '.':
		return `(?:\.[^/?#]*)?`
	case ';':
		return `(?:;[^/?#]*)*`
	case '?':
		return `(?:\?[^#]*)?`
	case '&':
		return `(?:&[^#]*)?`
	}
	return `[^/?#]+`
}

// scheme returns how the URIs of a template, or a URI, begin; "" if there is no
// telling.
func scheme(uri string) string {
	s, _, ok := strings.Cut(uri, ":")
	if !ok || strings.ContainsAny(s, "{}/?#") {
		return ""
	}
	return strings.ToLower(s)
}

func (p *pattern) matches(uri string) bool  { return p.strict != nil && p.strict.MatchString(uri) }
func (p *pattern) mayMatch(uri string) bool { return p.loose != nil && p.loose.MatchString(uri) }
