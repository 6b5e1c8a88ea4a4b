package dragoman_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman"
)

// grammar lists values of JSON, and what only looks like one, by the classes of
// mistakes that parsers make.
var grammar = []struct {
	name  string
	value string
	ok    bool
}{
	// Numbers.
	{"integer", `42`, true},
	{"zero", `0`, true},
	{"negative", `-7`, true},
	{"negative zero", `-0`, true},
	{"fraction", `3.25`, true},
	{"exponent", `1e9`, true},
	{"exponent with a plus", `1E+9`, true},
	{"exponent with a minus", `1.5e-9`, true},
	{"exponent zero", `0e0`, true},
	{"exponent with zeros", `1e007`, true},
	{"too large for a float", `1e400`, true},
	{"too small for a float", `-1e-99999`, true},
	{"20 digits", `12345678901234567890`, true},
	{"10,000 digits", strings.Repeat("9", 10000), true},
	{"leading zero", `012`, false},
	{"leading zero behind the minus", `-012`, false},
	{"two zeros", `00`, false},
	{"plus", `+1`, false},
	{"minus alone", `-`, false},
	{"two minuses", `--1`, false},
	{"space behind the minus", `- 1`, false},
	{"dot first", `.5`, false},
	{"minus, dot", `-.5`, false},
	{"dot last", `5.`, false},
	{"dot, exponent", `5.e1`, false},
	{"two dots", `1.2.3`, false},
	{"exponent without digits", `1e`, false},
	{"exponent sign without digits", `1e+`, false},
	{"fraction of an exponent", `1e1.5`, false},
	{"two exponents", `1e1e1`, false},
	{"hexadecimal", `0x1F`, false},
	{"underscore", `1_000`, false},
	{"letter behind", `1a`, false},
	{"NaN", `NaN`, false},
	{"Infinity", `Infinity`, false},
	{"minus Infinity", `-Infinity`, false},
	{"fullwidth digit", `１`, false},
	{"number with a NUL", "1\x002", false},

	// Literals.
	{"true", `true`, true},
	{"false", `false`, true},
	{"null", `null`, true},
	{"True", `True`, false},
	{"cut true", `tru`, false},
	{"cut false", `fals`, false},
	{"cut null", `nul`, false},
	{"misspelt true", `trve`, false},
	{"true and more", `truefalse`, false},
	{"word", `undefined`, false},

	// Strings.
	{"empty string", `""`, true},
	{"all short escapes", `"\"\\\/\b\f\n\r\t"`, true},
	{"escape of four hex digits", `"\u00e9\uABCD\uabcd"`, true},
	{"escaped NUL", `"a\u0000b"`, true},
	{"surrogate pair", `"\ud83d\ude00"`, true},
	{"high surrogate alone", `"\ud83d"`, true},
	{"low surrogate alone", `"\ude00"`, true},
	{"surrogates the wrong way round", `"\ude00\ud83d"`, true},
	{"DEL", "\"\x7f\"", true},
	{"U+2028 and U+2029", "\"\u2028\u2029\"", true},
	{"noncharacter", "\"\U0010FFFF\uFFFE\"", true},
	{"BOM inside", "\"\uFEFF\"", true},
	{"two bytes", `"é"`, true},
	{"three bytes", `"€"`, true},
	{"four bytes", `"😀"`, true},
	{"long text", `"` + strings.Repeat("lorem ipsum ", 100) + `"`, true},
	{"long text that is not ASCII", `"` + strings.Repeat("漢字かな", 100) + `"`, true},
	{"no closing quote", `"abc`, false},
	{"single quotes", `'abc'`, false},
	{"no quotes", `abc`, false},
	{"unknown escape", `"\a"`, false},
	{"escaped single quote", `"\'"`, false},
	{"hex escape", `"\x41"`, false},
	{"octal escape", `"\101"`, false},
	{"capital U", `"\U0041"`, false},
	{"three hex digits", `"\u12"`, false},
	{"a last hex digit that is none", `"\u123g"`, false},
	{"no hex digits", `"\uzzzz"`, false},
	{"hex digit cut by the quote", `"\u123"`, false},
	{"braces", `"\u{41}"`, false},
	{"backslash last", `"\"`, false},
	{"escaped line end", "\"\\\n\"", false},
	{"raw line end", "\"a\nb\"", false},
	{"raw carriage return", "\"a\rb\"", false},
	{"raw tab", "\"a\tb\"", false},
	{"raw NUL", "\"a\x00b\"", false},
	{"raw control character", "\"a\x1fb\"", false},
	{"raw control character behind long text", `"` + strings.Repeat("x", 100) + "\x1f\"", false},

	// UTF-8.
	{"lone continuation", "\"\x80\"", false},
	{"FF FE", "\"\xff\xfe\"", false},
	{"overlong two bytes", "\"\xc0\xaf\"", false},
	{"overlong NUL", "\"\xc0\x80\"", false},
	{"overlong two bytes, C1", "\"\xc1\xbf\"", false},
	{"overlong three bytes", "\"\xe0\x80\xaf\"", false},
	{"overlong four bytes", "\"\xf0\x80\x80\xaf\"", false},
	{"encoded surrogate", "\"\xed\xa0\x80\"", false},
	{"beyond U+10FFFF", "\"\xf4\x90\x80\x80\"", false},
	{"five bytes", "\"\xf8\x88\x80\x80\x80\"", false},
	{"cut after one of two", "\"\xc3\"", false},
	{"cut after two of three", "\"\xe2\x82\"", false},
	{"cut after three of four", "\"\xf0\x9f\x98\"", false},
	{"two bytes with an ASCII second", "\"\xc3(\"", false},
	{"two bytes with a lead second", "\"\xc3\xc3\"", false},
	{"Latin-1", "\"caf\xe9\"", false},
	{"not UTF-8 behind long text", `"` + strings.Repeat("x", 100) + "\xff\"", false},

	// Arrays.
	{"empty array", `[]`, true},
	{"array with spaces", "[ \t\r\n]", true},
	{"array of arrays", `[[],[[]],[1]]`, true},
	{"arrays behind objects", `[{"a":[1]},[[1],2],{"b":{"c":[{}]},"d":1}]`, true},
	{"mixed array", `[null,1,"1",{},[],true]`, true},
	{"comma last", `[1,]`, false},
	{"comma first", `[,1]`, false},
	{"comma alone", `[,]`, false},
	{"two commas", `[1,,2]`, false},
	{"no comma", `[1 2]`, false},
	{"colon", `[1:2]`, false},
	{"open array", `[1`, false},
	{"open array behind a comma", `[1,`, false},
	{"closed with a brace", `[1}`, false},
	{"closed twice", `[1]]`, false},
	{"star", `[*]`, false},

	// Objects.
	{"empty object", `{}`, true},
	{"object with spaces", "{ \"a\" :\t1 ,\r\n\"b\" : 2 }", true},
	{"nested objects", `{"a":{"b":{"c":{}}}}`, true},
	{"empty name", `{"":1}`, true},
	{"escaped name", `{"\u0061\n":1}`, true},
	{"duplicate name", `{"a":1,"a":1}`, true},
	{"case variants", `{"name":1,"Name":2,"NAME":3}`, true},
	{"object, comma last", `{"a":1,}`, false},
	{"object, comma first", `{,"a":1}`, false},
	{"object, two commas", `{"a":1,,"b":2}`, false},
	{"object, no comma", `{"a":1 "b":2}`, false},
	{"object, no colon", `{"a" 1}`, false},
	{"object, two colons", `{"a"::1}`, false},
	{"object, comma for colon", `{"a",1}`, false},
	{"object, no value", `{"a":}`, false},
	{"object, no name", `{:1}`, false},
	{"object, name only", `{"a"}`, false},
	{"object, name without quotes", `{a:1}`, false},
	{"object, name in single quotes", `{'a':1}`, false},
	{"object, number as a name", `{1:1}`, false},
	{"object, null as a name", `{null:1}`, false},
	{"object, bad escape in a name", `{"\q":1}`, false},
	{"object, bad UTF-8 in a name", "{\"\xff\":1}", false},
	{"object, closed with a bracket", `{"a":1]`, false},
	{"open object", `{"a":1`, false},
	{"open object behind a colon", `{"a":`, false},
	{"closed object twice", `{"a":1}}`, false},

	// Between values.
	{"nothing", ``, false},
	{"line comment", "1 // one\n", false},
	{"block comment", `/* one */ 1`, false},
	{"form feed", "\f1", false},
	{"vertical tab", "\v1", false},
	{"no-break space", "\u00a01", false},
	{"BOM", "\ufeff1", false},
	{"NUL", "\x001", false},
	{"raw byte", "\xff", false},
	{"semicolon", `1;`, false},
	{"ellipsis", `…`, false},
}

func TestS01_S03_JSONGrammar(t *testing.T) {
	for _, c := range grammar {
		t.Run(c.name, func(t *testing.T) {
			if valid := json.Valid([]byte(c.value)) && utf8.ValidString(c.value); valid != c.ok {
				t.Fatalf("the case is wrong: encoding/json says %t", valid)
			}
			for _, frame := range []string{
				`{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":%s}}`,
				`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"x":%s}}}`,
				`{"jsonrpc":"2.0","id":1,"result":{"content":[0,%s]}}`,
				`{"jsonrpc":"2.0","x":%s,"method":"m"}`,
			} {
				data := fmt.Appendf(nil, frame, c.value)
				want := refParse(data)
				if want.code == 0 != c.ok {
					t.Fatalf("the reference says %d of %q", want.code, data)
				}
				got, err := dragoman.Parse(data)
				want.compare(t, data, got, err)
			}
		})
	}
}

func TestS01_JSONTextEndsAnywhere(t *testing.T) {
	for _, m := range messages {
		m = strings.TrimSpace(m)
		for i := range m {
			_, err := dragoman.Parse([]byte(m[:i]))
			var p *dragoman.ParseError
			if !errors.As(err, &p) || p.Code != -32700 {
				t.Fatalf("%q: %v, want a ParseError with code -32700", m[:i], err)
			}
		}
	}
}

func TestFaultIsNamedWithItsPlace(t *testing.T) {
	cases := []struct {
		name, text string
		offset     int
		reason     string
	}{
		{"nothing", "", 0, "empty message"},
		{"only white space", " \r\n", 3, "empty message"},
		{"byte order mark", "\ufeff{}", 0, "byte order mark"},
		{"UTF-16", "\xff\xfe{\x00", 0, "unexpected character"},
		{"control character", "{\"a\x01\":1}", 3, "control character in a string"},
		{"UTF-8", "{\"a\":\"\xff\"}", 6, "invalid UTF-8"},
		{"escape", `{"a":"\q"}`, 6, "bad escape in a string"},
		{"hex digits", `{"a":"\u00g0"}`, 6, `bad \u escape in a string`},
		{"cut escape", `{"a":"\u00`, 10, "unexpected end"},
		{"number", `{"a":-x}`, 6, "bad number"},
		{"literal", `{"a":trux}`, 8, "unexpected character"},
		{"cut literal", `{"a":tru`, 8, "unexpected end"},
		{"no name", `{1:1}`, 1, "expected a member name"},
		{"no colon", `{"a"1}`, 4, "expected ':'"},
		{"no comma", `{"a":1 2}`, 7, "expected ',' or '}'"},
		{"no comma in an array", `{"a":[1 2]}`, 8, "expected ',' or ']'"},
		{"more behind it", `  {} {}`, 5, "more text behind the message"},
		{"leading white space counts", "\n\n{\"a\":?}", 7, "unexpected character"},
		{"shape", ` {"jsonrpc":"2.0","id":1,"method":7}`, 34, "method must be a string that is not empty"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := dragoman.Parse([]byte(c.text))
			var p *dragoman.ParseError
			if !errors.As(err, &p) {
				t.Fatalf("error is %v", err)
			}
			if p.Offset != c.offset || p.Reason != c.reason {
				t.Errorf("fault at byte %d: %s; want %d: %s", p.Offset, p.Reason, c.offset, c.reason)
			}
			if want := fmt.Sprintf("dragoman: bad message at byte %d: %s", c.offset, c.reason); p.Error() != want {
				t.Errorf("error says %q, want %q", p.Error(), want)
			}
		})
	}
}

// Every byte at every place of a word, because strings are read by words.
func TestS03_EveryByteInAString(t *testing.T) {
	for c := range 256 {
		for before := range 17 {
			for _, behind := range []string{"", "abcdefgh", "\"\\\x01\xff"} {
				value := `"` + strings.Repeat("x", before) + string([]byte{byte(c)}) + behind + `"`
				data := []byte(`{"jsonrpc":"2.0","id":1,"result":` + value + `}`)
				want := refParse(data)
				got, err := dragoman.Parse(data)
				want.compare(t, data, got, err)
			}
		}
	}
}
