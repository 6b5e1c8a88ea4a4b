package oidc

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

const (
	maxShort = 80  // bytes of what a server has sent, quoted in an error
	maxText  = 300 // of what it has to say to the user
)

// An Error is what a server answered in place of what was wanted (RFC 6749, section 5.2). Its
// texts are shortened, and hold neither control characters nor what was sent in secret.
type Error struct {
	Endpoint          string // "token", "registration", "device authorization", "revocation"
	Status            int    // the HTTP status, also if it is 200
	Code, Description string // empty if the server did not say
}

func (e *Error) Error() string {
	text := fmt.Sprintf("the %s endpoint answered %d", e.Endpoint, e.Status)
	if e.Code != "" {
		text += " " + e.Code
	} else if name := http.StatusText(e.Status); name != "" && e.Description == "" {
		text += " " + name
	}
	if e.Description != "" {
		text += ": " + e.Description
	}
	return text
}

// Temporary reports whether the same request may succeed later.
func (e *Error) Temporary() bool {
	return e.Status >= 500 || e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout ||
		e.Code == "temporarily_unavailable" || e.Code == "server_error"
}

// ErrNoAnswer is what errors are that say that nobody answered, or not to the end: the same
// request may succeed later. That the server is not the one that it should be is none.
var ErrNoAnswer = errors.New("no answer")

type noAnswer struct{ error }

// Is implements what errors.Is asks for.
func (noAnswer) Is(target error) bool { return target == ErrNoAnswer } //nolint:errorlint // it is the target itself

func (e noAnswer) Unwrap() error { return e.error }

// secrets are texts that no error may repeat.
type secrets []string

// secretMembers are the members of a form that are secret.
var secretMembers = []string{"code", "code_verifier", "refresh_token", "client_secret", "client_assertion", "assertion",
	"subject_token", "actor_token", "token", "device_code", "password"}

func secretsOf(form url.Values, who *Credentials, header http.Header) secrets {
	var s secrets
	add := func(text string) {
		if text == "" {
			return
		}
		quoted := strconv.Quote(text) // as in errors of net/http
		s = append(s, text, quoted[1:len(quoted)-1], url.QueryEscape(text), url.PathEscape(text), base64.StdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text)))
	}
	for _, name := range secretMembers {
		for _, text := range form[name] {
			add(text)
		}
	}
	if who != nil {
		add(who.Secret)
	}
	if _, basic, ok := strings.Cut(header.Get("Authorization"), " "); ok {
		s = append(s, basic)
	}
	// The longest first: one may be a part of another.
	slices.SortFunc(s, func(a, b string) int { return len(b) - len(a) })
	return slices.Compact(s)
}

// clean returns text for an error: printable, without the secrets, shortened.
func (s secrets) clean(text string) string { return cut(s.hide(printable(text)), maxText) }

// code is clean for an error code. One that everybody knows holds no secret, though it may
// contain a short one.
func (s secrets) code(text string) string {
	if slices.Contains(knownCodes, text) {
		return text
	}
	return s.clean(text)
}

// knownCodes are those of RFC 6749, 7009, 7591, 8628 and 8707.
var knownCodes = []string{"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
	"access_denied", "server_error", "temporarily_unavailable", "unsupported_token_type", "invalid_redirect_uri", "invalid_client_metadata",
	"authorization_pending", "slow_down", "expired_token", "invalid_target"}

const hidden = "[redacted]"

func (s secrets) hide(text string) string {
	for _, secret := range s {
		switch {
		case !strings.Contains(text, secret):
		case len(secret) < 8: // it may be a part of any word
			return hidden
		default:
			text = strings.ReplaceAll(text, secret, hidden)
		}
	}
	return redact.Text(text)
}

// printable puts a space where text has something that is not shown.
func printable(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text))
}

// cut shortens text to max bytes and a sign that it was longer.
func cut(text string, max int) string {
	if len(text) <= max {
		return text
	}
	for max > 0 && !utf8.RuneStart(text[max]) {
		max--
	}
	return text[:max] + "…"
}

// short returns what an error quotes of a text that a server has sent.
func short(text string) string { return cut(printable(cut(text, 4*maxShort)), maxShort) }
