package redact

import (
	"slices"
	"strings"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
)

// secretWords are words that mark a name as that of a secret, as [normalize] returns them.
var secretWords = []string{
	"password", "passwd", "passphrase", "pwd", "secret", "token", "apikey", "accesskey", "privatekey", "authorization", "credential", "cookie", "sessionid",
}

var (
	// shortKey and capitalKey find names that end in the word key.
	shortKey   = lazy.Regexp(`(?:^|[^A-Za-z])(?i:key)$|[a-z]Key$`)
	capitalKey = lazy.Regexp(`\b[A-Z0-9_]+_KEY$`)

	// addition finds what may follow the word that makes a normalized name that of a secret.
	addition = lazy.Regexp(`(?:v?[0-9]+|value|base|id|key)$`)
)

// progressToken is the name of the one token that is not secret.
const progressToken = "progressToken"

// SecretName reports whether the value of a member, a header, a parameter or a flag is a secret, by its
// name. Case and the characters between words do not count: pass_word, apiKey and API-KEY are such names.
func SecretName(name string) bool {
	if name == progressToken {
		return false
	}
	name = normalize(name)
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}

// SecretParameter is [SecretName] for what URLs and flags name more briefly: key, code, sig, auth.
func SecretParameter(name string) bool {
	short := normalize(name)
	switch short {
	case "key", "code", "sig", "auth", "pass":
		return true
	}
	return SecretName(name) || strings.HasSuffix(short, "signature") || shortKey().MatchString(name)
}

// secretLabel is [SecretName] for text written for people. The word must end the name, but for a number
// and the like: SECRET_KEY_BASE is one, and max_tokens counts some.
func secretLabel(name string) bool {
	if name == progressToken || strings.Contains(strings.ToLower(name), "public") {
		return false
	}
	if capitalKey().MatchString(name) {
		return true
	}
	name = normalize(name)
	for range 3 {
		if strings.HasSuffix(name, "credentials") || slices.ContainsFunc(secretWords, func(word string) bool { return strings.HasSuffix(name, word) }) {
			return true
		}
		rest := addition().ReplaceAllString(name, "")
		if rest == name {
			break
		}
		name = rest
	}
	return false
}

// normalize returns the letters and digits of a name, in lower case.
func normalize(name string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return -1
		}
		return unicode.ToLower(unicode.ToUpper(r)) // some letters have two lower cases
	}, name)
}
