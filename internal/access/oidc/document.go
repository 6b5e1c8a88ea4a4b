package oidc

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A document is a JSON object that a server has sent. Its members are looked at one by one:
// those that nobody asks for may be anything. The first that is not what it should be is
// remembered, so that who reads it asks for the error once, at the end.
type document struct {
	members map[string]json.RawMessage
	hide    secrets // not to be quoted
	err     error
}

func parseDocument(text []byte) (*document, error) {
	d := &document{}
	if err := json.Unmarshal(text, &d.members); err != nil || d.members == nil {
		return nil, errors.New("the answer is no JSON object")
	}
	return d, nil
}

// read decodes a member and reports whether it is there.
func (d *document) read(name, kind string, to any) bool {
	text, ok := d.members[name]
	if !ok || string(text) == "null" {
		return false
	}
	if err := json.Unmarshal(text, to); err != nil {
		d.fail(name, "is not "+kind)
		return false
	}
	return true
}

func (d *document) fail(name, problem string) {
	if d.err == nil {
		d.err = fmt.Errorf("member %q %s", name, problem)
	}
}

func (d *document) text(name string) string { return d.textUpTo(name, maxString) }

func (d *document) textUpTo(name string, limit int) string {
	var s string
	if d.read(name, "a string", &s) && len(s) > limit {
		d.fail(name, fmt.Sprintf("has more than %d bytes", limit))
		return ""
	}
	return s
}

func (d *document) flag(name string) (is bool) {
	d.read(name, "true or false", &is)
	return is
}

func (d *document) list(name string) []string {
	var list []string
	if !d.read(name, "a list of strings", &list) {
		return nil
	}
	for _, s := range list {
		if len(s) > maxString {
			d.fail(name, fmt.Sprintf("has a string of more than %d bytes", maxString))
			return nil
		}
	}
	return list
}

// url returns a member that CheckURL accepts, or nothing.
func (d *document) url(name string) string {
	s := d.text(name)
	if s == "" {
		return ""
	}
	if _, err := ParseURL(s); err != nil {
		d.fail(name, fmt.Sprintf("is %q, which %v", short(d.hide.hide(printable(s))), err))
		return ""
	}
	return s
}

// visible returns a member of ASCII characters without spaces: what may stand in a header.
func (d *document) visible(name string, limit int) string {
	s := d.textUpTo(name, limit)
	if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		d.fail(name, "has characters that it must not have")
		return ""
	}
	return s
}

// maxSeconds keeps a time.Duration from overflowing: ten years.
const maxSeconds = 10 * 365 * 24 * 3600

// seconds returns a member that is a number, or a string that is one; 0 if it is not there.
func (d *document) seconds(name string) time.Duration {
	return time.Duration(min(d.number(name), maxSeconds) * float64(time.Second))
}

func (d *document) number(name string) float64 {
	var v any
	if !d.read(name, "a number", &v) {
		return 0
	}
	n, ok := v.(float64)
	if s, isText := v.(string); isText {
		var err error
		n, err = strconv.ParseFloat(strings.TrimSpace(s), 64)
		ok = s == "" || err == nil && !math.IsNaN(n)
	}
	if !ok {
		d.fail(name, "is not a number")
		return 0
	}
	return max(n, 0)
}
