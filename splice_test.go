package dragoman_test

import (
	"reflect"
	"testing"

	"github.com/dragoman-mcp/dragoman"
)

// spliceNames and spliceValues are what FuzzSplice changes messages by: members
// whose places are noted, others, names that look like reserved ones, and values
// that must not stand where they are put.
var (
	spliceNames = []string{
		"name", "uri", "arguments", "_meta", "progressToken", "requestId", "resultType", "ttlMs", "cacheScope", "inputResponses", "requestState",
		"x", "y", "task", "content", "", "Name", "URI", "na\x00me", "_META", "é", "\xff", `a"\b`, "n\\u0061me", "io.modelcontextprotocol/serverInfo",
		"io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities", "io.modelcontextprotocol/clientInfo", "io.modelcontextprotocol/logLevel",
	}
	spliceValues = []string{
		"", "", "1", `"new"`, "{}", `{"progressToken":"t"}`, `{"a":1,"progressToken":2}`, `{"io.modelcontextprotocol/clientInfo":{},"progressToken":2}`, `{"a":1,"a":2}`, `{"io.modelcontextprotocol/logLevel":"info","\u0069o.modelcontextprotocol/logLevel":1}`, ` { "a" : [ ] } `, "null",
		`"\ud800"`, `"\u0061"`, "[1,2]", "true ", " 5", "01", `1,"z":2`, "-0.5e3",
	}
)

// FuzzSplice applies random changes. The places in the message that comes out,
// which are moved and not looked for, must be those that Parse finds.
func FuzzSplice(f *testing.F) {
	for i, m := range messages {
		for name := range spliceNames {
			f.Add([]byte(m), byte(0), []byte{0, byte(name), 0})
			f.Add([]byte(m), byte(0), []byte{0, byte(name), 4})
			f.Add([]byte(m), byte(i), []byte{0, byte(name), 0, 1, byte(name), 2})
			f.Add([]byte(m), byte(0), []byte{1, byte(name), 3, 0, 11, byte(name)})
			f.Add([]byte(m), byte(1), []byte{0, byte(name), 5, 0, 12, 0, 0, 0, byte(name)})
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, newID byte, script []byte) {
		m, err := dragoman.Parse(data)
		if err != nil {
			return
		}
		switch newID % 4 {
		case 1:
			m = m.WithID(dragoman.IntID(int64(newID) * 1000))
		case 2:
			m = m.WithID(dragoman.StringID("\"" + string(rune(newID))))
		case 3:
			m = m.WithID(dragoman.NullID)
		}
		var steps []editStep
		for ; len(script) >= 3 && len(steps) < 12; script = script[3:] {
			steps = append(steps, editStep{
				meta: script[0]%2 == 1, name: spliceNames[int(script[1])%len(spliceNames)], value: spliceValues[int(script[2])%len(spliceValues)],
			})
		}
		e := m.Edit()
		got, err := applySteps(e, steps)
		if err != nil {
			return // FuzzEdit knows whether it should be
		}
		if again, err := e.Message(); err != nil || again.String() != got.String() {
			t.Fatalf("%s: edit %+v gives %s, then %s, %v", data, steps, got, again, err)
		}
		if got == m {
			return // with an id that is not written yet
		}
		want, err := dragoman.Parse(got.Bytes())
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: edit %+v gives %s:\n%+v\nParse has %v\n%+v", data, steps, got, got, err, want)
		}
	})
}
