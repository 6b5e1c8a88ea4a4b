package gateway

import (
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

// CheckPath returns a refusal if a proxy in front of the gateway may read the path of a URL in another
// way than the gateway does: rules that the proxy applies to paths would not apply then. The name
// of a tool, the last segment behind CallPath, may hold encoded slashes and backslashes.
func CheckPath(u *url.URL) *httpserver.Refusal {
	switch path := u.Path; {
	case strings.ContainsFunc(path, unicode.IsControl):
		return httpserver.Refuse(http.StatusBadRequest, "the path has a control character; remove it")
	case hasDotSegment(path):
		return httpserver.Refuse(http.StatusBadRequest, "the path has a segment . or ..; send the path that it leads to")
	case separators(path, u.RawPath) && !namesTool(u):
		return httpserver.Refuse(http.StatusBadRequest, "the path has a backslash or an encoded slash (%%2F, %%5C); separate segments by / as it is")
	}
	return nil
}

// hasDotSegment reports whether a path, decoded, has a segment that stands for another one.
func hasDotSegment(path string) bool {
	if !strings.Contains(path, "/.") && !strings.Contains(path, `\.`) {
		return false
	}
	for segment := range strings.FieldsFuncSeq(path, func(c rune) bool { return c == '/' || c == '\\' }) {
		if segment == "." || segment == ".." {
			return true
		}
	}
	return false
}

// separators reports whether a path has what some readers take for a slash. raw is the path as
// it was sent, or empty if that is how the path is always encoded.
func separators(path, raw string) bool {
	return strings.Contains(path, `\`) || strings.Contains(raw, "%2f") || strings.Contains(raw, "%2F")
}

// namesTool reports whether only the name of a tool has encoded separators.
func namesTool(u *url.URL) bool {
	sent := u.EscapedPath()
	dir := sent[:strings.LastIndexByte(sent, '/')+1]
	return strings.HasSuffix(dir, CallPath+"/") && !separators("", dir) && !strings.Contains(strings.ToLower(dir), "%5c")
}
