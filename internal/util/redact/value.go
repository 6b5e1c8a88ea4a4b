package redact

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Value returns a JSON value with its secrets replaced: whatever stands behind a name of
// a secret, however that is spelled and of whatever kind it is, and in strings what
// [JSON] finds. White space is left out. At most about limit bytes are returned; "…" ends a value that is
// cut. A value that is no JSON is returned as far as it is.
func Value(value []byte, limit int) string {
	w := &valueWriter{in: json.NewDecoder(bytes.NewReader(value)), limit: limit}
	w.in.UseNumber()
	if !w.value(false) {
		return clip(w.out.String(), limit) + "…"
	}
	return w.out.String()
}

// A valueWriter writes a value as it reads it.
type valueWriter struct {
	in    *json.Decoder
	out   strings.Builder
	limit int
}

// value writes the next value, or a mark if it is secret. It returns false if there is no
// more to write.
func (w *valueWriter) value(secret bool) bool {
	if secret {
		w.text(mark)
		var skipped json.RawMessage
		return w.in.Decode(&skipped) == nil && w.out.Len() <= w.limit
	}
	token, err := w.in.Token()
	if err != nil {
		return false
	}
	switch t := token.(type) {
	case json.Delim:
		return w.list(byte(t))
	case string:
		shown := clip(t, w.limit)
		end := ""
		if len(shown) < len(t) {
			end = "…"
		}
		if strings.Contains(t, `"`) { // or it is no JSON
			w.text(maskJSON(shown) + end)
		} else {
			w.text(Text(shown) + end)
		}
	case json.Number:
		w.out.WriteString(t.String())
	case bool:
		w.out.WriteString(map[bool]string{true: "true", false: "false"}[t])
	default:
		w.out.WriteString("null")
	}
	return w.out.Len() <= w.limit
}

// list writes what is in an array or an object that has begun.
func (w *valueWriter) list(open byte) bool {
	w.out.WriteByte(open)
	for first := true; w.in.More(); first = false {
		if !first {
			w.out.WriteByte(',')
		}
		secret := false
		if open == '{' {
			token, err := w.in.Token()
			name, ok := token.(string)
			if err != nil || !ok {
				return false
			}
			w.text(name)
			w.out.WriteByte(':')
			secret = SecretName(name)
		}
		if !w.value(secret) {
			return false
		}
	}
	end, err := w.in.Token()
	if err != nil {
		return false
	}
	w.out.WriteByte(byte(end.(json.Delim)))
	return w.out.Len() <= w.limit
}

func (w *valueWriter) text(s string) { w.out.WriteString(quote(s)) }

// clip returns the beginning of s, up to the end of a character, as [hideCut] returns it.
func clip(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return hideCut(s[:limit])
}
