package httpserver

import (
	"crypto/rand"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// NewID returns a new session id: 130 random bits in visible ASCII.
func NewID() string { return rand.Text() }

// Single returns the value of a header that may be there once, without the white
// space around it. An empty value is present. The error is a sentence for the client:
// of a header that is there twice, others may read the other value.
func Single(r *http.Request, header string) (value string, present bool, err error) {
	if header == protocol.HeaderVersion {
		header = versionHeader // every request has it
	}
	switch values := r.Header.Values(header); len(values) {
	case 0:
		return "", false, nil
	case 1:
		return strings.Trim(values[0], " \t"), true, nil
	}
	return "", true, errors.New("the header " + header + " is there more than once")
}

// versionHeader is the spelling that net/http would otherwise make each time.
var versionHeader = http.CanonicalHeaderKey(protocol.HeaderVersion)

// Accepts reports whether the request's Accept accepts all of these media types.
// Of several ranges that fit a type the most specific decides. A request without
// Accept accepts none: MCP requires the types to be named.
func Accepts(r *http.Request, types ...string) bool {
	values := r.Header["Accept"]
	if len(values) == 1 && isExactList(values[0], types) {
		return true
	}
	for _, t := range types {
		major, _, _ := strings.Cut(t, "/")
		if !accepts(values, t, major+"/*", "*/*") {
			return false
		}
	}
	return true
}

// isExactList reports whether line is these names and nothing else, as most clients write
// it.
func isExactList(line string, names []string) bool {
	for i, name := range names {
		if i > 0 {
			if !strings.HasPrefix(line, ", ") {
				return false
			}
			line = line[len(", "):]
		}
		if !strings.HasPrefix(line, name) {
			return false
		}
		line = line[len(name):]
	}
	return line == ""
}

// accepts reports whether a list with weights, such as that of Accept, accepts
// something that has several names, the most specific first.
func accepts(values []string, names ...string) bool {
	best, accepted := len(names), false
	for _, line := range values {
		for element := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(element, ";")
			name = strings.TrimSpace(name)
			for i, want := range names[:min(best+1, len(names))] {
				if !strings.EqualFold(name, want) {
					continue
				}
				// Named twice, it is accepted if either says so.
				ok := hasWeight(params)
				if i < best {
					best, accepted = i, ok
				} else {
					accepted = accepted || ok
				}
				break
			}
		}
	}
	return accepted
}

// hasWeight reports whether the weight of an element is above zero.
func hasWeight(params string) bool {
	for p := range strings.SplitSeq(params, ";") {
		name, value, _ := strings.Cut(p, "=")
		if strings.EqualFold(strings.TrimSpace(name), "q") {
			q, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return err == nil && q > 0
		}
	}
	return true
}
