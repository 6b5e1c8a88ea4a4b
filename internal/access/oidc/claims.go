package oidc

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	// maxLevels is how deep the JSON of claims and keys may be.
	maxLevels = 16

	// MaxValues is how many values a claim may have that is read. A token with more is refused:
	// a list that is cut might lack the group that is denied.
	MaxValues = 256

	// MaxValue is how many bytes each value may have.
	MaxValue = 512

	// DefaultLeeway is how far clocks may be apart.
	DefaultLeeway = time.Minute
)

// An InvalidError says why a token is refused, in words that its sender may read.
type InvalidError struct{ reason string }

// Error implements error.
func (e *InvalidError) Error() string { return e.reason }

// Invalid returns an *InvalidError.
func Invalid(format string, args ...any) error {
	return &InvalidError{fmt.Sprintf(format, args...)}
}

// An UnavailableError says that a token cannot be verified now.
type UnavailableError struct{ Err error }

// Error implements error.
func (e *UnavailableError) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *UnavailableError) Unwrap() error { return e.Err }

// Claims are a JSON object of an issuer, as in a token. Numbers in it are json.Number.
type Claims map[string]any

var errNotObject = errors.New("not a JSON object, or one that has a name twice")

// ParseClaims reads a JSON object. One that has a name twice is refused, at any depth: readers
// do not agree which of the two counts.
func ParseClaims(text []byte) (Claims, error) {
	if !utf8.Valid(text) || !json.Valid(text) {
		return nil, errNotObject
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := decodeValue(d, maxLevels)
	set, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil, errNotObject
	}
	return set, nil
}

func decodeValue(d *json.Decoder, levels int) (any, error) {
	t, err := d.Token()
	kind, nested := t.(json.Delim)
	if err != nil || !nested {
		return t, err
	}
	if levels == 0 {
		return nil, errNotObject
	}
	if kind == '[' {
		list := []any{}
		for d.More() {
			v, err := decodeValue(d, levels-1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, err
	}
	set := make(map[string]any)
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, err
		}
		name, _ := t.(string) // the decoder has checked it
		if _, twice := set[name]; twice {
			return nil, errNotObject
		}
		if set[name], err = decodeValue(d, levels-1); err != nil {
			return nil, err
		}
	}
	_, err = d.Token()
	return set, err
}

// At returns the claim at a path, in which a.b is b in a, or nil. A claim whose own name has dots
// goes first.
func (c Claims) At(path string) any {
	if v, ok := c[path]; ok {
		return v
	}
	var v any = map[string]any(c)
	for name := range strings.SplitSeq(path, ".") {
		inner, _ := v.(map[string]any)
		v = inner[name]
	}
	return v
}

// Texts returns the values of a claim that is a string, a number, true or false, or a list of
// those.
func (c Claims) Texts(path string) ([]string, error) {
	v := c.At(path)
	if v == nil {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if len(list) > MaxValues {
		return nil, Invalid("the token has more than %d values of %s", MaxValues, path)
	}
	texts := make([]string, len(list))
	for i, v := range list {
		switch v := v.(type) {
		case string:
			texts[i] = v
		case json.Number, bool:
			texts[i] = fmt.Sprint(v)
		default:
			return nil, Invalid("the values of %s in the token are not texts", path)
		}
		if len(texts[i]) > MaxValue {
			return nil, Invalid("the token has a value of %s with more than %d bytes", path, MaxValue)
		}
	}
	return texts, nil
}

// maxTime is the end of the year 9999, in seconds.
const maxTime = 253402300799

// time returns a claim that is a time, or zero if it is not there.
func (c Claims) time(name string) (time.Time, error) {
	v, ok := c[name]
	if !ok {
		return time.Time{}, nil
	}
	number, _ := v.(json.Number)
	seconds, err := number.Float64()
	if err != nil || seconds < 1 || seconds > maxTime {
		return time.Time{}, Invalid("%s in the token is not a time", name)
	}
	whole := int64(seconds)
	return time.Unix(whole, int64((seconds-float64(whole))*1e9)), nil
}

// Text returns the text at a path, or "".
func (c Claims) Text(path string) string {
	text, _ := c.At(path).(string)
	return text
}

// SetTexts sets a claim that is a list.
func (c Claims) SetTexts(name string, values []string) {
	list := make([]any, len(values))
	for i, v := range values {
		list[i] = v
	}
	c[name] = list
}

// Expires checks the times, and returns when the token is not accepted any more: never, which is
// zero, if it does not say and need not.
func (c Claims) Expires(now time.Time, leeway time.Duration, required bool) (end time.Time, err error) {
	exp, err := c.time("exp")
	if err != nil {
		return end, err
	}
	nbf, err := c.time("nbf")
	if err != nil {
		return end, err
	}
	iat, err := c.time("iat")
	if err != nil {
		return end, err
	}
	if !exp.IsZero() {
		end = exp.Add(leeway)
	}
	switch later := now.Add(leeway); {
	case exp.IsZero() && required:
		return end, Invalid("the token does not say when it expires (exp)")
	case !exp.IsZero() && !now.Before(end):
		return end, Invalid("the token has expired")
	case later.Before(nbf):
		return end, Invalid("the token is not valid yet (nbf)")
	case later.Before(iat), !exp.IsZero() && exp.Before(iat):
		return end, Invalid("the token was issued in the future (iat): compare the clocks")
	}
	return end, nil
}

// decode64 decodes base64url in its canonical spelling.
func decode64(text string) ([]byte, error) {
	if strings.ContainsAny(text, "\r\n") { // which the decoder leaves out
		return nil, errors.New("not base64url")
	}
	return base64.RawURLEncoding.Strict().DecodeString(text)
}
