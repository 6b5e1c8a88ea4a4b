package schema

import (
	"cmp"
	"encoding/json"
	"math/big"
	"strconv"
	"strings"
)

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
