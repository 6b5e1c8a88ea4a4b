package walk

import (
	"bytes"
	"encoding/json"
)

// With returns an object in which a member has a new value, or is there if it was
// not. Every other byte is as it was.
func With(obj []byte, name string, value []byte) []byte {
	out := make([]byte, 0, len(obj)+len(name)+len(value)+4)
	at, last, found := 0, 1, false
	for n, f := range Members(obj) {
		if last = f.End; string(n) != name {
			continue
		}
		out = append(append(out, obj[at:f.Start]...), value...)
		at, found = f.End, true
	}
	if found {
		return append(out, obj[at:]...)
	}
	out = append(out, obj[:last]...)
	if last > 1 {
		out = append(out, ',')
	}
	out = append(append(append(out, Quote(name)...), ':'), value...)
	return append(out, obj[last:]...)
}

// Quote returns s as JSON text.
func Quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return bytes.TrimSpace(b.Bytes())
}
