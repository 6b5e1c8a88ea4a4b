package audit

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

// FuzzRecord holds a line against what encoding/json makes of the struct that it is read
// into, and against what is read.
func FuzzRecord(f *testing.F) {
	f.Add(uint64(1), int64(1), 1, "text")
	f.Add(uint64(0), int64(-1), -32602, hostile)
	f.Add(uint64(99), int64(0), 0, "<&>\\\"")
	f.Fuzz(func(t *testing.T, seq uint64, took int64, n int, text string) {
		if seq >= 1<<62 {
			return
		}
		at := time.UnixMicro(1_700_000_000_000_000 + int64(seq%1_000_000)).UTC()
		e := Event{
			Time: at, Kind: "k" + text, Request: text, Caller: Caller{text, text, text, text, text, text}, Server: text, Method: text, Name: text,
			Outcome: text, Code: n, Rule: text, Reason: text, Duration: time.Duration(took) / 1000 * 1000, In: n, Out: n, Arguments: text,
			Count: seq, Digest: text, Oldest: seq,
		}
		c := chain{Seq: seq}
		line := bytes.TrimSuffix(c.append(nil, &e), []byte("\n"))
		r, err := parse(line)
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		again, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := redact.AppendEscaped(nil, again); !bytes.Equal(got, line) && utf8.ValidString(text) {
			t.Errorf("it is\n%s, and encoding/json makes\n%s", line, got)
		}
		if !r.Time.Equal(at) || r.Seq != seq+1 || r.Duration != e.Duration || r.Code != n || r.Count != seq {
			t.Errorf("it reads as %+v", r)
		}
	})
}

// All members of an event are written.
func TestEveryMemberIsWritten(t *testing.T) {
	var e Event
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		for i := range v.NumField() {
			switch f := v.Field(i); f.Kind() {
			case reflect.String:
				f.SetString("x")
			case reflect.Int, reflect.Int64:
				f.SetInt(1000)
			case reflect.Uint64:
				f.SetUint(1)
			case reflect.Struct:
				if f.Type() != reflect.TypeFor[time.Time]() {
					fill(f)
				}
			}
		}
	}
	fill(reflect.ValueOf(&e).Elem())
	line := new(chain).append(nil, &e)
	r, err := parse(bytes.TrimSuffix(line, []byte("\n")))
	if err != nil {
		t.Fatal(err)
	}
	r.Event.Time = e.Time
	if r.Event != e {
		t.Errorf("got %+v, want %+v", r.Event, e)
	}
}
