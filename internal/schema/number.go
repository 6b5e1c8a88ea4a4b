package schema

import (
	"encoding/json"
	"strconv"
	"strings"
)

// maxDigits is how many digits a number may have when it is written out, before
// and behind the point. Numbers are compared as fractions, and a few bytes such
// as 1e999999 would cost megabytes.
const maxDigits = 1000

// unbounded returns where in v a number has too many digits.
func unbounded(v any, at []string) (where []string, found bool) {
	switch v := v.(type) {
	case json.Number:
		return at, tooLong(string(v))
	case []any:
		for i, item := range v {
			if where, found = unbounded(item, append(at, strconv.Itoa(i))); found {
				return where, true
			}
		}
	case map[string]any:
		for name, member := range v {
			if where, found = unbounded(member, append(at, name)); found {
				return where, true
			}
		}
	}
	return nil, false
}

func tooLong(number string) bool {
	if len(number) > maxDigits {
		return true
	}
	i := strings.IndexAny(number, "eE")
	if i < 0 {
		return false
	}
	n, err := strconv.Atoi(strings.TrimPrefix(number[i+1:], "+"))
	return err != nil || n > maxDigits || n < -maxDigits
}
