package jsonschema

import (
	"cmp"
	"encoding/json"
	"maps"
	"math/big"
	"math/bits"
	"slices"
	"strconv"
	"strings"
)

// kinds are types of values.
type kinds uint8

// kindNames are in the order of their bits, which is that of lists of them.
var kindNames = [...]string{"null", "boolean", "number", "integer", "string", "array", "object"}

const (
	isNull kinds = 1 << iota
	isBoolean
	isNumber
	isInteger
	isString
	isArray
	isObject
)

// kindNamed returns the type of that name, or 0.
func kindNamed(name string) kinds {
	if i := slices.Index(kindNames[:], name); i >= 0 {
		return 1 << i
	}
	return 0
}

// kindOf returns the type of v, which is number for integers, too.
func kindOf(v any) kinds {
	switch v.(type) {
	case nil:
		return isNull
	case bool:
		return isBoolean
	case string:
		return isString
	case []any:
		return isArray
	case map[string]any:
		return isObject
	}
	return isNumber
}

// String names the types with their articles, such as "a string or array".
func (k kinds) String() string {
	var names []string
	for ; k != 0; k &= k - 1 {
		names = append(names, kindNames[bits.TrailingZeros8(uint8(k))])
	}
	switch names[0] {
	case "null":
		return strings.Join(names, " or ")
	case "array", "object", "integer":
		return "an " + strings.Join(names, " or ")
	}
	return "a " + strings.Join(names, " or ")
}

// maxDigits is how many digits a number may have when it is written out, before
// and behind the point. Numbers are compared as fractions, and a few bytes such
// as 1e999999 would cost megabytes.
const maxDigits = 1000

const tooManyDigits = "is a number with more digits than can be checked"

// unbounded returns where in v a number has too many digits.
func unbounded(v any) (where string, found bool) {
	switch v := v.(type) {
	case json.Number:
		return "", tooLong(string(v))
	case []any:
		for i, item := range v {
			if where, found = unbounded(item); found {
				return indexStep(i) + where, true
			}
		}
	case map[string]any:
		for name, member := range v {
			if inside, bad := unbounded(member); bad && (!found || nameStep(name)+inside < where) {
				where, found = nameStep(name)+inside, true
			}
		}
	}
	return where, found
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

// A number is exact. Most are small integers, which need no fraction.
type number struct {
	small int64
	rat   *big.Rat // instead, if it is no small integer
}

// small reports whether a number is written as an integer of at most 18 digits.
func small(text json.Number) bool {
	return len(text) <= 18 && !strings.ContainsAny(string(text), ".eE")
}

// numberOf reads a number, which has no more than [maxDigits].
func numberOf(text json.Number) number {
	if small(text) {
		n, _ := strconv.ParseInt(string(text), 10, 64) // it is JSON, and it fits
		return number{small: n}
	}
	rat, _ := new(big.Rat).SetString(string(text)) // it is JSON
	return number{rat: rat}
}

func (n *number) ratio() *big.Rat {
	if n.rat != nil {
		return n.rat
	}
	return new(big.Rat).SetInt64(n.small)
}

func (n *number) isInt() bool { return n.rat == nil || n.rat.IsInt() }

func (n *number) cmp(m *number) int {
	if n.rat == nil && m.rat == nil {
		return cmp.Compare(n.small, m.small)
	}
	return n.ratio().Cmp(m.ratio())
}

// isMultiple reports whether n is a multiple of m, which is not 0.
func (n *number) isMultiple(m *number) bool {
	if n.rat == nil && m.rat == nil {
		return n.small%m.small == 0
	}
	return new(big.Rat).Quo(n.ratio(), m.ratio()).IsInt()
}

// String returns a number as a person would write it.
func (n *number) String() string {
	rat := n.ratio()
	if rat.IsInt() {
		return clip(rat.Num().String())
	}
	f, _ := rat.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// isOf reports whether v is of one of several types.
func (r *run) isOf(types kinds, v any) bool {
	if text, ok := v.(json.Number); ok && types&(isNumber|isInteger) == isInteger {
		n := r.numberOf(text)
		return n.isInt()
	}
	return types&kindOf(v) != 0
}

// numberOf reads a number, at the price of that.
func (r *run) numberOf(text json.Number) number {
	n := numberOf(text)
	if n.rat != nil {
		r.left -= fraction
	}
	return n
}

// equal reports whether two values are the same. Numbers are compared as such, however they
// are written.
func (r *run) equal(a, b any) bool {
	if r.left--; r.left < 0 {
		return true
	}
	switch a := a.(type) {
	case json.Number:
		b, ok := b.(json.Number)
		if !ok || a == b {
			return ok
		}
		m, n := r.numberOf(a), r.numberOf(b)
		return m.cmp(&n) == 0
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, r.equal)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, r.equal)
	}
	return kindOf(a) == kindOf(b) && a == b
}

// twice returns the first two places in a list that have the same value, or -1 twice.
func (r *run) twice(list []any) (i, j int) {
	if len(list) < 2 {
		return -1, -1
	}
	places := make(map[string]int, len(list))
	var b []byte
	for j, v := range list {
		b = r.appendKey(b[:0], v)
		if r.left < 0 {
			break
		}
		if i, ok := places[string(b)]; ok {
			return i, j
		}
		places[string(b)] = j
	}
	return -1, -1
}

// appendKey appends a text that only equal values have.
func (r *run) appendKey(b []byte, v any) []byte {
	if r.left--; r.left < 0 {
		return b
	}
	switch v := v.(type) {
	case nil:
		b = append(b, 'z')
	case bool:
		b = strconv.AppendBool(b, v)
	case json.Number:
		n := r.numberOf(v)
		b = append(b, n.ratio().RatString()...)
	case string:
		b = r.appendText(b, v)
	case []any:
		b = append(b, '[')
		for _, item := range v {
			b = append(r.appendKey(b, item), ',')
		}
		b = append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for _, name := range slices.Sorted(maps.Keys(v)) {
			b = append(r.appendKey(r.appendText(b, name), v[name]), ',')
		}
		b = append(b, '}')
	}
	return b
}

// appendText appends a string so that what follows is not taken for a part of it.
func (r *run) appendText(b []byte, text string) []byte {
	r.left -= len(text) / scanned
	b = strconv.AppendInt(b, int64(len(text)), 10)
	return append(append(b, '"'), text...)
}
