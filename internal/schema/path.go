package schema

import "strings"

// root is what the value as a whole is called.
const root = "arguments"

// pathOf spells a place in v: names behind dots, indices and strange names in
// brackets. The last name may be one that is not there.
func pathOf(v any, at []string) string {
	var b strings.Builder
	b.WriteString(root)
	for _, step := range at {
		switch inside := v.(type) {
		case []any:
			b.WriteString("[" + step + "]")
			v = nil
			if i := index(step); i < len(inside) {
				v = inside[i]
			}
		default:
			if plain(step) {
				b.WriteString("." + step)
			} else {
				b.WriteString("[" + values([]any{step}) + "]")
			}
			m, _ := inside.(map[string]any)
			v = m[step]
		}
	}
	return b.String()
}

// index reads the digits of an index.
func index(step string) int {
	n := 0
	for _, c := range step {
		n = 10*n + int(c-'0')
	}
	return n
}

// plain reports whether a name can stand behind a dot.
func plain(name string) bool {
	for _, c := range name {
		if c != '_' && c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c < 0x80 {
			return false
		}
	}
	return name != "" && len(name) <= 100
}
