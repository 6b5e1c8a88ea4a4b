package dragoman_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/dragoman-mcp/dragoman"
)

func decodeAny(t *testing.T, data []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%q is no JSON text: %v", data, err)
	}
	return v
}

// FuzzWalk compares the walks with encoding/json on valid text, and shows that
// they end on any other.
func FuzzWalk(f *testing.F) {
	for _, s := range []string{
		`{"a":1,"b":[true,null,"x\\\""],"c":{"d":{}}}`, `[1, {"a":[]} ,-2.5e3]`, `{"\u0061":"\ud83d\ude00","":""}`,
		`{"a":1,"a":2}`, `{"a":`, `["`, `{"a" 1}`, `}`, ``, `{"a":}`, `[,]`,
	} {
		f.Add([]byte(s), "a")
	}
	f.Fuzz(func(t *testing.T, data []byte, name string) {
		data = bytes.TrimSpace(data)
		found, members, elements := dragoman.Member(data, name), 0, [][]byte(nil)
		for range dragoman.Members(data) {
			members++
		}
		for at, item := range dragoman.Items(data) {
			if !bytes.HasPrefix(data[at:], item) {
				t.Fatalf("%q: %q does not lie at %d", data, item, at)
			}
			elements = append(elements, item)
		}
		if !json.Valid(data) {
			return
		}
		switch v := decodeAny(t, data).(type) {
		case map[string]any:
			want, there := v[name]
			if (found != nil) != there || there && !reflect.DeepEqual(decodeAny(t, found), want) {
				t.Errorf("%q: %q is %q", data, name, found)
			}
			if members < len(v) || elements != nil {
				t.Errorf("%q: %d members, elements %q", data, members, elements)
			}
			if s, ok := dragoman.Text(found); ok && s != want {
				t.Errorf("%q: %q says %q", data, name, s)
			}
		case []any:
			if members != 0 || len(elements) != len(v) {
				t.Fatalf("%q: %d members, elements %q", data, members, elements)
			}
			for i, e := range elements {
				if !reflect.DeepEqual(decodeAny(t, e), v[i]) {
					t.Errorf("%q: element %d is %q", data, i, e)
				}
			}
		default:
			if members != 0 || elements != nil || found != nil {
				t.Errorf("%q has members or elements", data)
			}
		}
	})
}

func TestWithMemberChangesOneMemberAndNothingElse(t *testing.T) {
	for _, c := range []struct{ obj, name, want string }{
		{`{"a":1, "b" : 12345678901234567890 }`, "a", `{"a":"x", "b" : 12345678901234567890 }`},
		{`{"a":1, "b" : 2 }`, "b", `{"a":1, "b" : "x" }`},
		{`{"a":1}`, "c", `{"a":1,"c":"x"}`},
		{`{}`, "c", `{"c":"x"}`},
		{`{ }`, "c", `{"c":"x" }`},
		{`{"a":1,"\u0061":2}`, "a", `{"a":"x","\u0061":"x"}`},
	} {
		if got := string(dragoman.WithMember([]byte(c.obj), c.name, dragoman.Quote("x"))); got != c.want {
			t.Errorf("WithMember(%s, %s): got %s, want %s", c.obj, c.name, got, c.want)
		}
	}
}
