package walk_test

import (
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/walk"
)

func TestWithChangesOneMemberAndNothingElse(t *testing.T) {
	for _, c := range []struct{ obj, name, want string }{
		{`{"a":1, "b" : 12345678901234567890 }`, "a", `{"a":"x", "b" : 12345678901234567890 }`},
		{`{"a":1, "b" : 2 }`, "b", `{"a":1, "b" : "x" }`},
		{`{"a":1}`, "c", `{"a":1,"c":"x"}`},
		{`{}`, "c", `{"c":"x"}`},
		{`{ }`, "c", `{"c":"x" }`},
		{`{"a":1,"\u0061":2}`, "a", `{"a":"x","\u0061":"x"}`},
	} {
		if got := string(walk.With([]byte(c.obj), c.name, walk.Quote("x"))); got != c.want {
			t.Errorf("With(%s, %s): got %s, want %s", c.obj, c.name, got, c.want)
		}
	}
}
