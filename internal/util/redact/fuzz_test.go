package redact_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

// spelled returns a string as JSON, with those characters as escapes whose bit is set.
func spelled(s string, escapes uint64) string {
	var b strings.Builder
	b.WriteByte('"')
	for i, r := range []rune(s) {
		if escapes>>(i%64)&1 == 0 {
			quoted, _ := json.Marshal(string(r)) // strings always encode
			b.Write(quoted[1 : len(quoted)-1])
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			format := `\u%04x`
			if i%2 == 0 {
				format = `\u%04X`
			}
			fmt.Fprintf(&b, format, unit)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// FuzzNamesAreReadAsJSONReadsThem spells the name and the value of a secret in many ways, by
// themselves and in JSON that is itself a string.
func FuzzNamesAreReadAsJSONReadsThem(f *testing.F) {
	f.Add("", "password", "", "x", uint64(1<<4), uint64(0))
	f.Add("my", "Api_Key", "\"2\\", `a"b\`, uint64(0), uint64(2))
	f.Add("\U0001f511", "SECRET", "\n", "\\", ^uint64(0), ^uint64(0))
	words := regexp.MustCompile(`^(?i:password|passwd|passphrase|secret|token|api[_-]?key|access[_-]?key|private[_-]?key|authorization|credential|cookie|session[_-]?id)$`)
	f.Fuzz(func(t *testing.T, before, word, behind, value string, nameEscapes, valueEscapes uint64) {
		if !words.MatchString(word) || len(before+behind+value) > 100 || before+word+behind == "progressToken" {
			return // it is not what this is about
		}
		const secret = "hunter2hunter2"
		object := `{"first" : 1, ` + spelled(before+word+behind, nameEscapes) + `:` + spelled(value+secret+value, valueEscapes&^(1<<len([]rune(value)))) + `,"last":"seen"}`
		if !json.Valid([]byte(object)) {
			t.Fatalf("%s is no JSON", object)
		}
		inner, _ := json.Marshal(object) // strings always encode
		for _, text := range []string{object, `{"text":` + string(inner) + `}`, `{"text":` + spelled(object, nameEscapes&^0b11) + `}`} {
			got := redact.JSON([]byte(text))
			if strings.Contains(text, secret) && strings.Contains(got, secret) {
				t.Errorf("%s\nis shown as\n%s", text, got)
			}
			if strings.Contains(text, `"last"`) && !strings.Contains(got, `seen`) {
				t.Errorf("%s\nis shown as\n%s\nwhich hides more", text, got)
			}
		}
	})
}
