package adapt

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
)

func TestMembersComeAndGoWithTheirCommas(t *testing.T) {
	t.Parallel()
	const more = `"n":1`
	for _, c := range []struct{ in, drop, want, withMore string }{
		{`{}`, "", `{}`, `{"n":1}`},
		{`{ }`, "", `{ }`, `{"n":1 }`},
		{`{"a":1}`, "a", `{}`, `{"n":1}`},
		{`{ "a" : 1 }`, "a", `{  }`, `{ "n":1 }`},
		{`{"a":1,"b":2,"c":3}`, "a", `{"b":2,"c":3}`, `{"b":2,"c":3,"n":1}`},
		{`{"a":1, "b":2 ,"c":3}`, "b", `{"a":1 ,"c":3}`, `{"a":1 ,"c":3,"n":1}`},
		{`{"a":1,"b":2,"c":3}`, "c", `{"a":1,"b":2}`, `{"a":1,"b":2,"n":1}`},
		{`{"a":1,"b":2,"c":3}`, "ab", `{"c":3}`, `{"c":3,"n":1}`},
		{`{"a":1,"b":2,"c":3}`, "bc", `{"a":1}`, `{"a":1,"n":1}`},
		{`{"a":1,"b":2,"c":3}`, "abc", `{}`, `{"n":1}`},
		{`{"a":1,"b":2,"a":3}`, "a", `{"b":2}`, `{"b":2,"n":1}`},
		{`{"\u0061":"}\"","b":[{"a":"\\"}]}`, "a", `{"b":[{"a":"\\"}]}`, `{"b":[{"a":"\\"}],"n":1}`},
		{`{"a":{"a":1},"b":-1.5e+3}`, "b", `{"a":{"a":1}}`, `{"a":{"a":1},"n":1}`},
		{`[1]`, "a", `[1]`, `[1]`},
		{`7`, "a", `7`, `7`},
	} {
		drop := func(name string, value []byte) []byte {
			if strings.Contains(c.drop, name) {
				return nil
			}
			return value
		}
		if got := edited([]byte(c.in), drop, nil); string(got) != c.want {
			t.Errorf("%s without %s: %s, want %s", c.in, c.drop, got, c.want)
		}
		if got := edited([]byte(c.in), drop, []byte(more)); string(got) != c.withMore {
			t.Errorf("%s without %s and with %s: %s, want %s", c.in, c.drop, more, got, c.withMore)
		}
	}
}

func TestArrayGetsOneMore(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{``: `[7]`, `null`: `[7]`, `[]`: `[7]`, `[ ]`: `[7]`, `[1]`: `[1,7]`, `[ [1] , "]" ]`: `[ [1] , "]",7 ]`} {
		if got := appended([]byte(in), []byte("7")); string(got) != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// FuzzEdited compares the edits with encoding/json on valid text, and shows that
// they end on any other.
func FuzzEdited(f *testing.F) {
	for _, s := range []string{`{"a":1,"b":[true,null,"x\\\""],"c":{"d":{}}}`, `[1, {"a":[]} ,-2.5e3]`, `{"\u0061":"\ud83d\ude00","":""}`, `{"a":`, `["`, `{"a" 1}`, `}`, ``, `{"a":}`, `[,]`} {
		f.Add([]byte(s), "a")
	}
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		data = bytes.TrimSpace(data)
		keep := func(_ string, value []byte) []byte { return value }
		out := edited(data, keep, nil)
		list := mapped(data, func(value []byte) []byte { return value })
		dropped := edited(data, func(n string, value []byte) []byte {
			if n == name {
				return nil
			}
			return value
		}, nil)
		if !json.Valid(data) || dragoman.Span(data) != len(data) { // not an object or array, or not UTF-8
			return
		}
		if !same(out, data) || !same(list, data) {
			t.Fatalf("%q: changed", data)
		}
		switch v := decoded(data).(type) {
		case map[string]any:
			if raw := dragoman.Member(data, name); (raw != nil) != has(v, name) || raw != nil && !reflect.DeepEqual(decoded(raw), v[name]) {
				t.Fatalf("%q: %q is %q", data, name, raw)
			}
			delete(v, name)
			if got := decoded(dropped); !reflect.DeepEqual(got, v) {
				t.Fatalf("%q without %q: %q", data, name, dropped)
			}
		case []any:
			n := 0
			for _, item := range dragoman.Items(data) {
				if n >= len(v) || !reflect.DeepEqual(decoded(item), v[n]) {
					t.Fatalf("%q: element %d is %q", data, n, item)
				}
				n++
			}
			if n != len(v) {
				t.Fatalf("%q: %d elements", data, n)
			}
		}
	})
}

func has(m map[string]any, name string) bool { _, ok := m[name]; return ok }
