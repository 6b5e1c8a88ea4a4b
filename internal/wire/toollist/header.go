package toollist

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/dragoman-mcp/dragoman/protocol"

	"github.com/dragoman-mcp/dragoman"
)

// A ParamHeader is an argument of a tool that an HTTP header repeats, because
// the tool's inputSchema says so by an x-mcp-header.
type ParamHeader struct {
	Name string   // what the schema calls it, such as "Region"
	Path []string // the members that lead to the argument
	Type string   // "string", "integer" or "boolean"
}

// Header returns the name of the HTTP header.
func (p ParamHeader) Header() string { return protocol.HeaderParamPrefix + p.Name }

// Value returns the argument's text, not encoded: what a string says, an integer
// in decimal, true or false. It is not present if it is absent or null. It is an
// error if the argument, or one on the way to it, is there twice, and if it
// cannot be repeated in a header: an array, an object, a fraction.
func (p ParamHeader) Value(arguments []byte) (value string, present bool, err error) {
	if arguments = bytes.TrimSpace(arguments); len(arguments) == 0 {
		return "", false, nil
	}
	if !json.Valid(arguments) {
		return "", false, p.wrong("the arguments are not valid JSON")
	}
	raw, err := p.find(arguments)
	if err != nil || raw == nil {
		return "", false, err
	}
	switch raw[0] {
	case 'n':
		return "", false, nil
	case 't', 'f':
		return string(raw), true, nil
	case '"':
		err = json.Unmarshal(raw, &value)
	case '{', '[':
		err = errors.New("an array or object cannot stand in a header")
	default:
		value, err = integerText(string(raw))
	}
	if err != nil {
		return "", false, p.wrong(err.Error())
	}
	return value, true, nil
}

// ErrTwice means that readers disagree about the value of an argument.
var ErrTwice = errors.New("is there twice")

// find returns the argument at the end of the path, or nil.
func (p ParamHeader) find(value []byte) ([]byte, error) {
	for _, step := range p.Path {
		var next []byte
		for name, member := range dragoman.Members(value) {
			switch {
			case name != step:
			case next != nil:
				return nil, fmt.Errorf("argument %s for %s %w", strings.Join(p.Path, "."), p.Header(), ErrTwice)
			default:
				next = member
			}
		}
		if next == nil {
			return nil, nil
		}
		value = next
	}
	return value, nil
}

func (p ParamHeader) wrong(reason string) error {
	return fmt.Errorf("argument %s for %s: %s", strings.Join(p.Path, "."), p.Header(), reason)
}

// Equal reports whether a header, decoded, says the same as the body. Integers are
// compared as numbers: 42.0 is 42.
func Equal(header, bodyValue, typ string) bool {
	if header == bodyValue {
		return true
	}
	if typ != "integer" {
		return false
	}
	h, herr := integerText(header)
	b, berr := integerText(bodyValue)
	return herr == nil && berr == nil && h == b
}

// maxSafe is the largest integer that every reader of JSON can hold.
const maxSafe = 1<<53 - 1

var (
	errNoInteger = errors.New("not an integer")
	errUnsafe    = errors.New("an integer beyond ±(2^53−1)")
)

// integerText returns a JSON number that is an integer, however it is spelt, in
// plain decimal. It works on the digits: a float would round, and an exponent
// may ask for more zeros than there is memory.
func integerText(s string) (string, error) {
	if !isNumber(s) {
		return "", errNoInteger
	}
	rest, negative := strings.CutPrefix(s, "-")
	mantissa, exponent := rest, 0
	if i := strings.IndexAny(rest, "eE"); i >= 0 {
		mantissa = rest[:i]
		var err error
		if exponent, err = strconv.Atoi(rest[i+1:]); err != nil {
			exponent = 0
			if strings.Trim(mantissa, "0.") != "" {
				return "", errUnsafe
			}
		}
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimRight(whole+fraction, "0")
	exponent += len(whole) - len(digits) // zeros behind digits
	digits = strings.TrimLeft(digits, "0")
	switch {
	case digits == "":
		return "0", nil
	case exponent < 0:
		return "", errNoInteger
	case exponent > 16 || len(digits) > 16:
		return "", errUnsafe
	}
	n, err := strconv.ParseInt(digits+strings.Repeat("0", exponent), 10, 64)
	if err != nil || n > maxSafe {
		return "", errUnsafe
	}
	if negative {
		n = -n
	}
	return strconv.FormatInt(n, 10), nil
}

// isNumber reports whether s is a number of JSON and nothing else.
func isNumber(s string) bool {
	if s == "" || strings.TrimRight(s, " \t\r\n") != s {
		return false
	}
	return (s[0] == '-' || s[0] >= '0' && s[0] <= '9') && json.Valid([]byte(s))
}
