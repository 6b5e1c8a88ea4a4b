package dragoman_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman"
)

// The reference reads messages by the same rules as Parse, slowly: with
// encoding/json, in many passes, and without a line of Parse. The fuzz targets
// hold the two against each other.

// A refMember is one member of an object: its name without escapes, and where
// its value lies.
type refMember struct {
	name       string
	value      string
	start, end int
}

// refObject returns the members of a JSON object in their order. Offsets count
// from the start of text.
func refObject(text string) []refMember {
	d := json.NewDecoder(strings.NewReader(text))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		panic("not an object: " + text)
	}
	var list []refMember
	for d.More() {
		name, err := d.Token()
		if err != nil {
			panic(err)
		}
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			panic(err)
		}
		end := int(d.InputOffset())
		list = append(list, refMember{name.(string), string(v), end - len(v), end})
	}
	return list
}

func refFind(list []refMember, name string) (refMember, bool) {
	i := slices.IndexFunc(list, func(m refMember) bool { return m.name == name })
	if i < 0 {
		return refMember{}, false
	}
	return list[i], true
}

func refDuplicates(list []refMember) bool {
	seen := map[string]bool{}
	for _, m := range list {
		if seen[m.name] {
			return true
		}
		seen[m.name] = true
	}
	return false
}

// refDepth returns how deep brackets nest outside of strings, also in text that
// is not JSON.
func refDepth(text []byte) int {
	depth, deepest, inside := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case inside && c == '\\':
			i++
		case c == '"':
			inside = !inside
		case inside:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}

// refHalfPair reports whether a JSON string has an escape that is half a
// surrogate pair.
func refHalfPair(text string) bool {
	var units []rune
	for i := 1; i < len(text)-1; {
		switch {
		case text[i] == '\\' && text[i+1] == 'u':
			n, err := strconv.ParseUint(text[i+2:i+6], 16, 16)
			if err != nil {
				panic(err)
			}
			units = append(units, rune(n))
			i += 6
		case text[i] == '\\':
			units = append(units, ' ')
			i += 2
		default:
			units = append(units, ' ')
			i++
		}
	}
	for i := 0; i < len(units); i++ {
		if !utf16.IsSurrogate(units[i]) {
			continue
		}
		if i+1 == len(units) || utf16.DecodeRune(units[i], units[i+1]) == unicode.ReplacementChar {
			return true
		}
		i++
	}
	return false
}

// refFold returns a name as the most careless reader takes it.
func refFold(name string) string {
	return strings.Map(func(r rune) rune {
		least := r
		for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
			least = min(least, f)
		}
		if r == 0 {
			return -1
		}
		return least
	}, name)
}

func refMistakable(list []refMember, reserved ...string) bool {
	for _, m := range list {
		for _, r := range reserved {
			if m.name != r && refFold(m.name) == refFold(r) {
				return true
			}
		}
	}
	return false
}

// refNoted are the members of a result that must not stand twice.
var refNoted = []string{
	"name", "uri", "arguments", "_meta", "progressToken", "requestId", "resultType", "ttlMs", "cacheScope", "inputResponses", "requestState",
}

// A refMessage is what the reference makes of a message.
type refMessage struct {
	code     int // 0 if the message is right
	kind     dragoman.Kind
	failed   bool
	id       string // JSON text
	method   string
	body     refMember   // params, result or error
	envelope []refMember // all members
	members  []refMember // of the body, if it is an object
	meta     []refMember
}

func refParse(data []byte) (m refMessage) {
	if !json.Valid(data) || !utf8.Valid(data) {
		m.code = -32700
		return m
	}
	if !m.read(string(data)) {
		m.code = -32600
	}
	return m
}

// read reports whether the message is right.
func (m *refMessage) read(text string) bool {
	if refDepth([]byte(text)) > dragoman.MaxDepth || strings.TrimLeft(text, " \t\r\n")[0] != '{' {
		return false
	}
	m.envelope = refObject(text)
	if refDuplicates(m.envelope) || refMistakable(m.envelope, "jsonrpc", "id", "method", "params", "result", "error") {
		return false
	}
	version, _ := refFind(m.envelope, "jsonrpc")
	if s, ok := refText(version.value); !ok || s != "2.0" {
		return false
	}
	id, hasID := refFind(m.envelope, "id")
	if hasID && id.value != "null" && !refID(id.value) {
		return false
	}
	m.id = id.value
	method, hasMethod := refFind(m.envelope, "method")
	params, hasParams := refFind(m.envelope, "params")
	result, hasResult := refFind(m.envelope, "result")
	failure, hasFailure := refFind(m.envelope, "error")
	switch {
	case hasMethod:
		var ok bool
		if m.method, ok = refText(method.value); !ok || m.method == "" || refHalfPair(method.value) {
			return false
		}
		if hasResult || hasFailure || id.value == "null" {
			return false
		}
		m.kind = dragoman.Notification
		if hasID {
			m.kind = dragoman.Request
		}
		m.body = params
		return !hasParams || m.readParams()
	case hasParams:
		return false
	case hasResult && !hasFailure:
		m.kind, m.body = dragoman.Response, result
		return hasID && id.value != "null" && m.readResult()
	case hasFailure && !hasResult:
		m.kind, m.body, m.failed = dragoman.Response, failure, true
		return failure.value[0] == '{'
	}
	return false
}

func (m *refMessage) readParams() bool {
	if m.body.value[0] != '{' {
		return false
	}
	m.members = refObject(m.body.value)
	if refDuplicates(m.members) || refMistakable(m.members, "name", "uri", "arguments", "_meta") {
		return false
	}
	for _, name := range []string{"name", "uri"} {
		if v, ok := refFind(m.members, name); ok && v.value[0] == '"' && refHalfPair(v.value) {
			return false
		}
	}
	return m.readMeta()
}

func (m *refMessage) readResult() bool {
	if m.body.value[0] != '{' {
		return true
	}
	m.members = refObject(m.body.value)
	if refDuplicates(slices.DeleteFunc(slices.Clone(m.members), func(v refMember) bool { return !slices.Contains(refNoted, v.name) })) {
		return false
	}
	return m.readMeta()
}

func (m *refMessage) readMeta() bool {
	v, ok := refFind(m.members, "_meta")
	if !ok || v.value == "null" {
		return true
	}
	if v.value[0] != '{' {
		return false
	}
	m.meta = refObject(v.value)
	return !refDuplicates(m.meta)
}

// text returns what a member of the body says that is a string.
func (m *refMessage) text(name string) string {
	v, _ := refFind(m.members, name)
	s, _ := refText(v.value)
	return s
}

func refText(value string) (s string, ok bool) {
	if value == "" || value[0] != '"' {
		return "", false
	}
	return s, json.Unmarshal([]byte(value), &s) == nil
}

func refID(value string) bool {
	if value[0] == '"' {
		return !refHalfPair(value)
	}
	return strings.Trim(value, "-0123456789") == ""
}

// compare holds what Parse made of data against the reference.
func (m *refMessage) compare(t *testing.T, data []byte, got *dragoman.Message, err error) {
	t.Helper()
	if err != nil {
		var p *dragoman.ParseError
		switch {
		case !errors.As(err, &p):
			t.Fatalf("%q: error %v is no ParseError", data, err)
		case m.code == 0:
			t.Fatalf("%q: refused: %v", data, err)
		case refDepth(data) <= dragoman.MaxDepth && p.Code != m.code:
			t.Fatalf("%q: code %d, want %d: %v", data, p.Code, m.code, err)
		case p.Offset < 0 || p.Offset > len(data):
			t.Fatalf("%q: offset %d of %d bytes", data, p.Offset, len(data))
		}
		if again, err := dragoman.Parse(p.Response().Bytes()); err != nil || !again.IsError() {
			t.Fatalf("%q: response %s: %v", data, p.Response(), err)
		}
		return
	}
	if m.code != 0 {
		t.Fatalf("%q: accepted, want code %d", data, m.code)
	}
	same := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Fatalf("%q: %s is %q, want %q", data, what, got, want)
		}
	}
	same("kind", got.Kind().String(), m.kind.String())
	same("id", got.ID().String(), m.id)
	same("method", got.Method(), m.method)
	same("bytes", string(got.Bytes()), string(bytes.Trim(data, " \t\r\n")))
	same("name", got.Name(), m.text("name"))
	same("uri", got.URI(), m.text("uri"))
	if got.IsError() != m.failed {
		t.Fatalf("%q: IsError is %t", data, got.IsError())
	}
	params, result := m.body.value, ""
	switch {
	case m.failed:
		params = ""
	case m.kind == dragoman.Response:
		params, result = "", m.body.value
	}
	same("params", string(got.Params()), params)
	same("result", string(got.Result()), result)
	for _, v := range m.members {
		var last refMember
		for _, o := range m.members {
			if o.name == v.name {
				last = o
			}
		}
		same("member "+v.name, string(got.Get(v.name)), last.value)
	}
	for _, v := range m.meta {
		same("_meta member "+v.name, string(got.Meta(v.name)), v.value)
	}
	for _, name := range []string{"name", "_meta", "x", "absent", ""} {
		if _, ok := refFind(m.members, name); !ok && got.Get(name) != nil {
			t.Fatalf("%q: found member %q", data, name)
		}
		if _, ok := refFind(m.meta, name); !ok && got.Meta(name) != nil {
			t.Fatalf("%q: found member %q of _meta", data, name)
		}
	}
}
