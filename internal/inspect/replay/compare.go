package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// A Difference is a place where an answer is not as it was. A side that has nothing there
// is nil.
type Difference struct {
	Path string          `json:"path"` // such as result.content[0].text
	Want json.RawMessage `json:"want,omitempty"`
	Got  json.RawMessage `json:"got,omitempty"`
}

// maxDifferences is how many are found in one answer.
const maxDifferences = 1000

// compare returns where two outcomes differ.
func compare(want, got *Outcome) []Difference {
	var c comparison
	c.values("result", decode(want.Result), decode(got.Result))
	c.values("error", decode(want.Error), decode(got.Error))
	return c.found
}

// nothing is what is not there.
type nothing struct{}

func decode(text json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if len(text) == 0 || d.Decode(&v) != nil {
		return nothing{}
	}
	return v
}

func encode(v any) json.RawMessage {
	if v == (nothing{}) {
		return nil
	}
	text, _ := json.Marshal(v) // it was decoded
	return text
}

type comparison struct{ found []Difference }

// values compares two values that stand at a path.
func (c *comparison) values(path string, want, got any) {
	switch w := want.(type) {
	case map[string]any:
		if g, ok := got.(map[string]any); ok {
			c.objects(path, w, g)
			return
		}
	case []any:
		if g, ok := got.([]any); ok {
			for i := range max(len(w), len(g)) {
				c.values(fmt.Sprintf("%s[%d]", path, i), item(w, i), item(g, i))
			}
			return
		}
	case string:
		if g, ok := got.(string); ok && (w == g || matchesMasked(w, g)) {
			return
		}
		if w == mask && got != (nothing{}) { // a secret may have been anything
			return
		}
	case json.Number:
		if g, ok := got.(json.Number); ok && sameNumber(w, g) {
			return
		}
	default:
		if want == got {
			return
		}
	}
	if len(c.found) < maxDifferences {
		c.found = append(c.found, Difference{path, encode(want), encode(got)})
	}
}

func (c *comparison) objects(path string, want, got map[string]any) {
	names := slices.Sorted(maps.Keys(want))
	for name := range got {
		if _, ok := want[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		below := path + "." + name
		w, ok := want[name]
		if !ok {
			w = nothing{}
		}
		g, ok := got[name]
		if !ok {
			g = nothing{}
		}
		c.values(below, w, g)
	}
}

func item(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nothing{}
}

// matchesMasked reports whether a text may be one in which secrets were masked.
func matchesMasked(masked, text string) bool {
	parts := strings.Split(masked, mask)
	if len(parts) == 1 || !strings.HasPrefix(text, parts[0]) || !strings.HasSuffix(text, parts[len(parts)-1]) {
		return false
	}
	for _, part := range parts {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return true
}

// maxExponent is how large a number may be to be compared by its value.
const maxExponent = 64

// sameNumber reports whether two numbers are the same, however they are written.
func sameNumber(a, b json.Number) bool {
	if a == b {
		return true
	}
	if len(a) > maxExponent || len(b) > maxExponent || strings.ContainsAny(string(a+b), "eE") {
		return false
	}
	x, ok := new(big.Rat).SetString(string(a))
	y, fine := new(big.Rat).SetString(string(b))
	return ok && fine && x.Cmp(y) == 0
}
