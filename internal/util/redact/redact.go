// Package redact removes secrets from text before it is logged, and control characters that
// could be mistaken for something else where the log is read.
package redact

import (
	"encoding/json"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
)

// limit is how much of a text is kept.
const limit = 2048

// shortest is how long the shortest text is that bearer and known find something in.
const shortest = len("basic 12345678")

// mark stands where a secret was.
const mark = "[redacted]"

// quoted is a string of JSON as an expression. The end of the text may cut it.
const quoted = `"(?:[^"\\]|\\.)*(?:"|\\?$)`

var (
	// member finds members with a string or a number as the value.
	member = lazy.Regexp(`(?s)(` + quoted + `)(\s*:\s*)(?:` + quoted + `|-?[0-9][0-9.eE+-]*)`)

	// anyString finds strings.
	anyString = lazy.Regexp(`(?s)` + quoted)

	// bearer finds tokens by what stands before them.
	bearer = lazy.Regexp(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}`)

	// known finds tokens by their shape: of GitHub, OpenAI, Slack, AWS, and JWTs.
	known = lazy.Regexp(`\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|sk-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`)

	// page finds pages of ours on which one caller signs in to a server: who knows the
	// address could do so for them.
	page = lazy.Regexp(`https?://[^\s"\\]+/sign-in\?id=[^\s"\\]*`)
)

// JSON returns the beginning of a JSON text with its secrets replaced. A string in it may be
// JSON itself.
func JSON(text []byte) string {
	if len(text) > limit {
		return maskJSON(hideCut(string(text[:limit]))) + "…"
	}
	return maskJSON(string(text))
}

// maskJSON returns a JSON text, which may be cut, with its secrets replaced.
func maskJSON(text string) string { return Text(members(text)) }

// members returns a JSON text, or the beginning of one, without the values of members whose
// names say that they are secrets.
func members(s string) string {
	s = member().ReplaceAllStringFunc(s, func(m string) string {
		parts := member().FindStringSubmatch(m)
		name, ok := unquote(parts[1])
		if !ok {
			name = parts[1]
		}
		if !SecretName(name) {
			return m
		}
		return parts[1] + parts[2] + `"` + mark + `"`
	})
	return anyString().ReplaceAllStringFunc(s, func(m string) string {
		inside, ok := unquote(m)
		if !ok {
			return m
		}
		clean := inside
		if strings.Contains(inside, `"`) {
			clean = members(inside) // which is shorter
		}
		if clean = urls(clean, parameter); clean == inside {
			return m
		}
		return quote(clean)
	})
}

// unquote returns what a string of JSON says, as far as it goes.
func unquote(s string) (inside string, ok bool) {
	if json.Unmarshal([]byte(s), &inside) == nil {
		return inside, true
	}
	// What is cut may end in a part of an escape or of two.
	for n := len(s); n > 0 && n > len(s)-len(`\ud83d\udd11`); n-- {
		if json.Unmarshal([]byte(s[:n]+`"`), &inside) == nil {
			return inside, true
		}
	}
	return "", false
}

func quote(s string) string {
	b, _ := json.Marshal(s) // strings always encode
	return string(b)
}

// Text returns s with whatever looks like a credential replaced, and its URLs as [URI] returns them.
func Text(s string) string {
	s = urls(s, parameter)
	if len(s) < shortest {
		return s
	}
	s = bearer().ReplaceAllString(s, "${1} "+mark)
	s = known().ReplaceAllString(s, mark)
	if strings.Contains(s, "/sign-in?id=") {
		s = page().ReplaceAllString(s, mark)
	}
	return s
}
