package redact

import "github.com/dragoman-mcp/dragoman/internal/util/lazy"

var (
	// suspicious finds names of variables that may hold secrets. A keyring is none.
	suspicious = lazy.Regexp(`(?i)token|pass|_pwd|secret|cred|cookie|auth|key(?:[^r]|$|r[^i])`)

	// certain finds further names of variables that hold secrets and nothing else.
	certain = lazy.Regexp(`(?i)(?:^|_)(?:key|pass|pwd|auth)[0-9]*$`)

	// signedIn finds a URL with who signs in by it.
	signedIn = lazy.Regexp(`://[^/?#\s@]+@`)
)

// MayBeSecret reports whether a variable may hold a secret, so that it is nobody else's.
func MayBeSecret(name, value string) bool {
	return suspicious().MatchString(name) || signedIn().MatchString(value)
}

// IsSecret reports whether the value of a variable is to be taken out of texts, by [Values]. A short one
// is if its name leaves no doubt: AUTH_MODE does.
func IsSecret(name, value string) bool {
	return MayBeSecret(name, value) && (len(value) >= longValue || SecretName(name) || certain().MatchString(name))
}
