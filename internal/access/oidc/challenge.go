package oidc

import (
	"net/http"
	"strings"
)

// A Challenge is what a server says in WWW-Authenticate about the bearer token that it wants.
type Challenge struct {
	ResourceMetadata, Scope, Error, ErrorDescription, Realm string
}

// maxChallenge is how much of the headers is looked at.
const maxChallenge = 32 << 10

// ParseChallenge returns the challenge of a 401 or 403, or nil if there is none for bearer
// tokens. Of several, it is the first that names the resource's metadata, or else the first.
func ParseChallenge(h http.Header) *Challenge {
	var found *Challenge
	left := maxChallenge
	for _, line := range h.Values("WWW-Authenticate") {
		if left -= len(line); left < 0 {
			break
		}
		for _, c := range parseChallenges(line) {
			if found == nil || found.ResourceMetadata == "" && c.ResourceMetadata != "" {
				found = c
			}
		}
	}
	return found
}

// parseChallenges reads one header (RFC 9110, section 11.6.1) and returns the bearer challenges.
// A word with "=" behind it is a parameter of the last scheme. One without is a scheme, unless
// it follows a scheme with nothing but spaces between: those are a scheme's token68.
func parseChallenges(line string) (bearer []*Challenge) {
	var current *Challenge // nil if the scheme is another one
	afterScheme := false
	s := challengeScanner{rest: line}
	for s.rest != "" {
		switch {
		case s.skip(" \t"):
			continue
		case s.skip(","):
			afterScheme = false
			continue
		}
		word := s.word()
		if !s.assigned() {
			switch {
			case word == "": // garbage: a quoted string, or "=" with nothing before it
				s.value()
			case afterScheme:
				afterScheme = false
			default:
				current, afterScheme = nil, true
				if strings.EqualFold(word, "Bearer") {
					current = &Challenge{}
					bearer = append(bearer, current)
				}
			}
			continue
		}
		afterScheme = false
		if value, ok := s.value(); ok && current != nil {
			current.set(word, value)
		}
	}
	return bearer
}

// set keeps the first value of a parameter.
func (c *Challenge) set(name, value string) {
	to := map[string]*string{
		"resource_metadata": &c.ResourceMetadata,
		"scope":             &c.Scope,
		"error":             &c.Error,
		"error_description": &c.ErrorDescription,
		"realm":             &c.Realm,
	}[strings.ToLower(name)]
	if to != nil && *to == "" && len(value) <= maxString && !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		*to = value
	}
}

// endsValue reports whether what follows a quote can follow a quoted string: the end, a comma,
// or a parameter or another string without one.
func endsValue(rest string) bool {
	after := strings.TrimLeft(rest, " \t")
	if after == "" || after[0] == ',' {
		return true
	}
	next := challengeScanner{rest: after}
	return len(after) < len(rest) && (after[0] == '"' || next.assigned() || next.word() != "" && next.assigned())
}

type challengeScanner struct{ rest string }

// skip goes past characters of the set and reports whether there were any.
func (s *challengeScanner) skip(set string) bool {
	before := len(s.rest)
	s.rest = strings.TrimLeft(s.rest, set)
	return len(s.rest) < before
}

// word returns what stands before a space, a comma, "=" or a quote.
func (s *challengeScanner) word() string {
	end := strings.IndexAny(s.rest, " \t,=\"")
	if end < 0 {
		end = len(s.rest)
	}
	word := s.rest[:end]
	s.rest = s.rest[end:]
	return word
}

// assigned goes past "=" and spaces around it, and reports whether it is there.
func (s *challengeScanner) assigned() bool {
	after, ok := strings.CutPrefix(strings.TrimLeft(s.rest, " \t"), "=")
	if ok {
		s.rest = strings.TrimLeft(after, " \t")
	}
	return ok
}

// value returns a quoted string, or what stands before a space or a comma. A quoted string
// without an end is none. Quotes within it that are not escaped, as in texts that a server has put
// there as they are, are part of it: it ends where another parameter or nothing follows.
func (s *challengeScanner) value() (string, bool) {
	quoted, ok := strings.CutPrefix(s.rest, `"`)
	if !ok {
		end := strings.IndexAny(s.rest, " \t,")
		if end < 0 {
			end = len(s.rest)
		}
		value := s.rest[:end]
		s.rest = s.rest[end:]
		return value, true
	}
	var value strings.Builder
	for i := 0; i < len(quoted); i++ {
		switch b := quoted[i]; {
		case b == '"' && endsValue(quoted[i+1:]):
			s.rest = quoted[i+1:]
			return value.String(), true
		case b == '\\' && i+1 < len(quoted):
			i++
			value.WriteByte(quoted[i])
		default:
			value.WriteByte(b)
		}
	}
	s.rest = ""
	return "", false
}
