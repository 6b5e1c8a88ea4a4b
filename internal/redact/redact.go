// Package redact takes secrets out of text before it is logged, and what could be taken
// for something else where the log is read.
package redact

import (
	"bytes"
	"regexp"
)

// limit is how much of a text is kept.
const limit = 2048

// shortest is how long the shortest text is that bearer and known find something in.
const shortest = len("basic 12345678")

// mark stands where a secret was.
const mark = "[redacted]"

// words are those that say of a name that a secret is behind it, as an expression.
const words = `password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|authorization|credential|cookie|session[_-]?id`

var (
	// member finds members whose names say that they hold a secret, with a
	// string or a number as the value. A string that the end of the text cuts
	// counts too.
	member = regexp.MustCompile(`(?i)("[^"\\]*(?:` + words + `)[^"\\]*"\s*:\s*)("(?:[^"\\]|\\.)*(?:"|$)|-?[0-9][0-9.eE+-]*)`)

	// escaped is member inside a string that holds JSON itself.
	escaped = regexp.MustCompile(`(?i)(\\"[^"\\]*(?:` + words + `)[^"\\]*\\"\s*:\s*\\")([^"\\]*)`)

	// bearer finds tokens by what stands before them.
	bearer = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[a-z0-9._~+/=-]{8,}`)

	// known finds tokens by their shape: of GitHub, OpenAI, Slack, AWS, and JWTs.
	known = regexp.MustCompile(`\b(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|sk-[A-Za-z0-9_-]{16,}|xox[abprs]-[A-Za-z0-9-]{10,}|AKIA[0-9A-Z]{16}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`)

	// progress finds the one token that is no secret.
	progress = regexp.MustCompile(`^"progressToken"`)
)

// JSON returns the beginning of a JSON text with its secrets replaced.
func JSON(text []byte) string {
	cut := len(text) > limit
	if cut {
		text = text[:limit]
	}
	text = member.ReplaceAllFunc(text, func(m []byte) []byte {
		if progress.Match(m) {
			return m
		}
		parts := member.FindSubmatch(m)
		return append(bytes.Clone(parts[1]), `"`+mark+`"`...)
	})
	text = escaped.ReplaceAll(text, []byte("${1}"+mark))
	s := Text(string(text))
	if cut {
		s += "…"
	}
	return s
}

// Text returns s with whatever looks like a credential replaced.
func Text(s string) string {
	if len(s) < shortest {
		return s
	}
	s = bearer.ReplaceAllString(s, "${1} "+mark)
	return known.ReplaceAllString(s, mark)
}
