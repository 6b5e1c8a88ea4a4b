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

func TestJSONGrammar(t *testing.T) {
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

func TestJSONTextEndsAnywhere(t *testing.T) {
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

// refused lists messages that are JSON and no message. The id is the one that
// the error response must carry.
var refused = []struct {
	name, text, id, reason string
}{
	// Members that two readers could read differently.
	{"method twice", `{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call"}`, "1", "duplicate member of the envelope"},
	{"id twice", `{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, "null", "duplicate member of the envelope"},
	{"params twice", `{"jsonrpc":"2.0","id":1,"method":"m","params":{},"params":{}}`, "1", "duplicate member of the envelope"},
	{"escaped method twice", `{"jsonrpc":"2.0","id":1,"method":"a","m\u0065thod":"b"}`, "1", "duplicate member of the envelope"},
	{"unknown member twice", `{"jsonrpc":"2.0","id":1,"method":"a","x":1,"x":1}`, "1", "duplicate member of the envelope"},
	{"Method", `{"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"tools/call","params":{"name":"count","Name":"crash"}}`, "1", `member name can be mistaken for "method"`},
	{"METHOD instead of method", `{"jsonrpc":"2.0","id":1,"METHOD":"tools/list"}`, "1", `member name can be mistaken for "method"`},
	{"ID", `{"jsonrpc":"2.0","id":1,"ID":2,"method":"ping"}`, "1", `member name can be mistaken for "id"`},
	{"JsonRPC", `{"jsonrpc":"2.0","JsonRPC":"1.0","id":1,"method":"ping"}`, "1", `member name can be mistaken for "jsonrpc"`},
	{"Result", `{"jsonrpc":"2.0","id":1,"result":{},"Result":{}}`, "null", `member name can be mistaken for "result"`},
	{"ERROR", `{"jsonrpc":"2.0","id":1,"result":{},"ERROR":{}}`, "null", `member name can be mistaken for "error"`},
	{"long s", `{"jsonrpc":"2.0","id":1,"method":"m","params":{},"paramſ":{}}`, "1", `member name can be mistaken for "params"`},
	{"escaped long s", `{"jsonrpc":"2.0","id":1,"method":"m","param\u017F":{}}`, "1", `member name can be mistaken for "params"`},
	{"long s twice", `{"jsonrpc":"2.0","j\u017fonrpc":"1.0","id":1,"method":"m"}`, "1", `member name can be mistaken for "jsonrpc"`},
	{"NUL behind method", `{"jsonrpc":"2.0","id":1,"method":"a","method\u0000":"b"}`, "1", `member name can be mistaken for "method"`},
	{"NULs around method", `{"jsonrpc":"2.0","id":1,"\u0000met\u0000hod` + strings.Repeat(`\u0000`, 100) + `":"b"}`, "1", `member name can be mistaken for "method"`},
	{"NUL and case", `{"jsonrpc":"2.0","id":1,"METHOD\u0000":"b"}`, "1", `member name can be mistaken for "method"`},
	{"name twice", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"a","name":"b"}}`, "1", "duplicate member name"},
	{"escaped name twice", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"a","nam\u0065":"b"}}`, "1", "duplicate member name"},
	{"unknown param twice", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"cursor":"a","x":0,"cursor":"b"}}`, "1", "duplicate member of params"},
	{"escaped unknown param twice", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"\u0063ursor":"a","cursor":"b"}}`, "1", "duplicate member of params"},
	{"Name", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"count","Name":"crash"}}`, "1", `member name can be mistaken for "name"`},
	{"NAME alone", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"NAME":"crash"}}`, "1", `member name can be mistaken for "name"`},
	{"Uri", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"Uri":"x"}}`, "1", `member name can be mistaken for "uri"`},
	{"Arguments", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{},"Arguments":{}}}`, "1", `member name can be mistaken for "arguments"`},
	{"_META", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_META":{}}}`, "1", `member name can be mistaken for "_meta"`},
	{"argumentſ", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"argumentſ":{}}}`, "1", `member name can be mistaken for "arguments"`},
	{"NUL behind name", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"name\u0000":"x"}}`, "1", `member name can be mistaken for "name"`},
	{"_meta twice", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{},"_meta":{}}}`, "1", "duplicate member _meta"},
	{"member of _meta twice", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"a":1,"a":2}}}`, "1", "duplicate member of _meta"},
	{"escaped progress token twice", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":1,"progress\u0054oken":2}}}`, "1", "duplicate member of _meta"},
	{"_meta of a result twice", `{"jsonrpc":"2.0","id":1,"result":{"_meta":{},"_meta":{}}}`, "null", "duplicate member _meta"},
	{"member of a result's _meta twice", `{"jsonrpc":"2.0","id":1,"result":{"_meta":{"a":1,"a":2}}}`, "null", "duplicate member of _meta"},
	{"resultType twice", `{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","resultType":"input_required"}}`, "null", "duplicate member resultType"},

	// Half a surrogate pair where something is decided.
	{"half a pair in method", `{"jsonrpc":"2.0","id":1,"method":"\ud800"}`, "1", "method holds half a surrogate pair"},
	{"half a pair in id", `{"jsonrpc":"2.0","id":"\udc00","method":"m"}`, "null", "id holds half a surrogate pair"},
	{"half a pair in name", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"x\ud83dy"}}`, "1", "name holds half a surrogate pair"},
	{"half a pair in uri", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"uri":"\ude00\ud83d"}}`, "1", "uri holds half a surrogate pair"},
	{"half a pair and a letter", `{"jsonrpc":"2.0","id":1,"method":"\ud83d\u0041"}`, "1", "method holds half a surrogate pair"},
	{"two high halves", `{"jsonrpc":"2.0","id":1,"method":"\ud83d\ud83d\ude00"}`, "1", "method holds half a surrogate pair"},

	// The shape of the envelope.
	{"array", `[]`, "null", "a batch is not one message"},
	{"batch", `[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]`, "null", "a batch is not one message"},
	{"string", `"ping"`, "null", "a message must be an object"},
	{"number", `1`, "null", "a message must be an object"},
	{"null", `null`, "null", "a message must be an object"},
	{"empty object", `{}`, "null", `jsonrpc must be "2.0"`},
	{"no jsonrpc", `{"id":1,"method":"ping"}`, "1", `jsonrpc must be "2.0"`},
	{"jsonrpc 1.0", `{"jsonrpc":"1.0","id":1,"method":"ping"}`, "1", `jsonrpc must be "2.0"`},
	{"jsonrpc number", `{"jsonrpc":2.0,"id":1,"method":"ping"}`, "1", `jsonrpc must be "2.0"`},
	{"method number", `{"jsonrpc":"2.0","id":1,"method":1}`, "1", "method must be a string that is not empty"},
	{"method null", `{"jsonrpc":"2.0","id":1,"method":null}`, "1", "method must be a string that is not empty"},
	{"method empty", `{"jsonrpc":"2.0","id":1,"method":""}`, "1", "method must be a string that is not empty"},
	{"params array", `{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}`, "1", "params must be an object"},
	{"params string", `{"jsonrpc":"2.0","id":1,"method":"m","params":"x"}`, "1", "params must be an object"},
	{"params null", `{"jsonrpc":"2.0","id":1,"method":"m","params":null}`, "1", "params must be an object"},
	{"params of a response", `{"jsonrpc":"2.0","id":1,"params":{},"result":{}}`, "null", "params without a method"},
	{"_meta array", `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":[]}}`, "1", "_meta must be an object"},
	{"_meta string", `{"jsonrpc":"2.0","id":1,"result":{"_meta":"x"}}`, "null", "_meta must be an object"},
	{"id null", `{"jsonrpc":"2.0","id":null,"method":"m"}`, "null", "the id of a request must not be null"},
	{"id true", `{"jsonrpc":"2.0","id":true,"method":"m"}`, "null", "id must be a string or an integer"},
	{"id object", `{"jsonrpc":"2.0","id":{},"method":"m"}`, "null", "id must be a string or an integer"},
	{"id array", `{"jsonrpc":"2.0","id":[1],"method":"m"}`, "null", "id must be a string or an integer"},
	{"id fraction", `{"jsonrpc":"2.0","id":1.5,"method":"m"}`, "null", "id must be a string or an integer, not a fraction"},
	{"id exponent", `{"jsonrpc":"2.0","id":1e3,"method":"m"}`, "null", "id must be a string or an integer, not a fraction"},
	{"id only", `{"jsonrpc":"2.0","id":"a"}`, `"a"`, "neither a method nor a result nor an error"},
	{"version only", `{"jsonrpc":"2.0"}`, "null", "neither a method nor a result nor an error"},
	{"method and result", `{"jsonrpc":"2.0","id":1,"method":"m","result":{}}`, "null", "a message has a method or an answer, not both"},
	{"method and error", `{"jsonrpc":"2.0","id":1,"method":"m","error":{"code":1,"message":"x"}}`, "null", "a message has a method or an answer, not both"},
	{"result and error", `{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":"x"}}`, "null", "a response has a result or an error, not both"},
	{"result without id", `{"jsonrpc":"2.0","result":{}}`, "null", "a result must have the id of its request"},
	{"result with id null", `{"jsonrpc":"2.0","id":null,"result":{}}`, "null", "a result must have the id of its request"},
	{"error string", `{"jsonrpc":"2.0","id":1,"error":"no"}`, "null", "error must be an object"},
	{"error null", `{"jsonrpc":"2.0","id":1,"error":null}`, "null", "error must be an object"},

	// Bombs.
	{"129 levels", nested(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":`, 127, `}}`), "1", "nested deeper than 128 levels"},
	{"129 levels in _meta", nested(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"x":`, 126, `}}}`), "1", "nested deeper than 128 levels"},
	{"129 levels in a result", nested(`{"jsonrpc":"2.0","id":1,"result":`, 128, `}`), "null", "nested deeper than 128 levels"},
	{"129 levels in an unknown member", nested(`{"jsonrpc":"2.0","x":`, 128, `}`), "null", "nested deeper than 128 levels"},
	{"100,000 arrays", nested(``, 100000, ``), "null", "nested deeper than 128 levels"},
	{"100,000 objects", strings.Repeat(`{"a":`, 100000), "null", "nested deeper than 128 levels"},
}

func nested(head string, levels int, tail string) string {
	return head + strings.Repeat("[", levels) + strings.Repeat("]", levels) + tail
}

func TestRefusedMessages(t *testing.T) {
	for _, c := range refused {
		t.Run(c.name, func(t *testing.T) {
			m, err := dragoman.Parse([]byte(c.text))
			var p *dragoman.ParseError
			if !errors.As(err, &p) {
				t.Fatalf("Parse gave %v, %v; want a ParseError", m, err)
			}
			if m != nil || p.Code != -32600 || p.Reason != c.reason {
				t.Errorf("code %d: %s; want -32600: %s", p.Code, p.Reason, c.reason)
			}
			resp := p.Response()
			if resp.ID().String() != c.id || resp.RPCError().Code != -32600 || !strings.Contains(resp.RPCError().Message, c.reason) {
				t.Errorf("the sender is told %s, want the id %s", resp, c.id)
			}
			if len(c.text) < 1<<10 { // encoding/json has a limit of its own
				want := refParse([]byte(c.text))
				want.compare(t, []byte(c.text), m, err)
			}
		})
	}
}

func TestRefusedResponseKeepsItsIDForWhoeverWaits(t *testing.T) {
	_, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":7,"result":{},"error":{}}`))
	var p *dragoman.ParseError
	if !errors.As(err, &p) || p.Kind != dragoman.Response || p.ID != dragoman.IntID(7) {
		t.Errorf("error is %+v, want a response with id 7", p)
	}
	for text, kind := range map[string]dragoman.Kind{
		`{"jsonrpc":"2.0","id":7,"method":1}`: dragoman.Request,
		`{"jsonrpc":"2.0","method":1}`:        dragoman.Notification,
		`{"jsonrpc":"2.0"}`:                   dragoman.Invalid,
		`[]`:                                  dragoman.Invalid,
		`{"id":7,"method":"m"`:                dragoman.Invalid,
	} {
		if _, err := dragoman.Parse([]byte(text)); !errors.As(err, &p) || p.Kind != kind {
			t.Errorf("%s set out to be a %v, want %v", text, p.Kind, kind)
		}
	}
}

// What is odd and right must pass.
func TestOddMessagesPass(t *testing.T) {
	cases := map[string]string{
		"128 levels":                             nested(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":`, 126, `}}`),
		"128 levels in a result":                 nested(`{"jsonrpc":"2.0","id":1,"result":`, 127, `}`),
		"duplicates deep in the arguments":       `{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{"a":{"b":1,"b":2},"name":1,"Name":2}}}`,
		"duplicates in a result":                 `{"jsonrpc":"2.0","id":1,"result":{"x":1,"x":2}}`,
		"case variants in a result":              `{"jsonrpc":"2.0","id":1,"result":{"name":1,"Name":2}}`,
		"case variants of what is not reserved":  `{"jsonrpc":"2.0","id":1,"method":"m","params":{"cursor":1,"Cursor":2}}`,
		"envelope's names in params":             `{"jsonrpc":"2.0","id":1,"method":"m","params":{"Method":1,"ID":2,"jsonrpc":3}}`,
		"params' names in the envelope":          `{"jsonrpc":"2.0","id":1,"method":"m","Name":1,"_META":2}`,
		"Kelvin sign in what is not reserved":    `{"jsonrpc":"2.0","id":1,"method":"m","params":{"toKen":1}}`,
		"dotless i":                              `{"jsonrpc":"2.0","ıd":1,"method":"m","params":{"urı":1}}`,
		"names that only begin with reserved":    `{"jsonrpc":"2.0","id":1,"method":"m","methods":1,"params":{"names":1,"nam":2}}`,
		"escaped names":                          `{"json\u0072pc":"2.0","\u0069d":1,"metho\u0064":"m","p\u0061rams":{"n\u0061me":"x"}}`,
		"escaped version":                        `{"jsonrpc":"2\u002e0","id":1,"method":"m"}`,
		"half a pair in the arguments":           `{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{"name":"\ud800"}}}`,
		"half a pair in a result's name":         `{"jsonrpc":"2.0","id":1,"result":{"name":"\ud800"}}`,
		"half a pair in a member name":           `{"jsonrpc":"2.0","id":1,"method":"m","params":{"\ud800":1}}`,
		"surrogate pair in a name":               `{"jsonrpc":"2.0","id":"\ud83d\ude00","method":"\ud83d\ude00","params":{"name":"\uD83D\uDE00"}}`,
		"NUL in the arguments":                   `{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{"a\u0000":"\u0000"}}}`,
		"name that is no string":                 `{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":7,"uri":null}}`,
		"error response without an id":           `{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}`,
		"error response with id null":            `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}`,
		"empty error":                            `{"jsonrpc":"2.0","id":1,"error":{}}`,
		"result null":                            `{"jsonrpc":"2.0","id":1,"result":null}`,
		"result number":                          `{"jsonrpc":"2.0","id":1,"result":7}`,
		"_meta null":                             `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":null}}`,
		"_meta null in a result":                 `{"jsonrpc":"2.0","id":1,"result":{"_meta":null}}`,
		"members in any order":                   `{"params":{"_meta":{},"name":"x"},"method":"m","id":1,"jsonrpc":"2.0"}`,
		"white space everywhere":                 "\r\n\t { \"jsonrpc\" : \"2.0\" ,\n\"id\"\t: 1 , \"method\" : \"m\" , \"params\" : { \"_meta\" : { } } } \n",
		"unknown members":                        `{"jsonrpc":"2.0","id":1,"method":"m","x":[1,{"y":null}],"":0}`,
		"20 names in params":                     `{"jsonrpc":"2.0","id":1,"method":"m","params":{` + numbered(20) + `}}`,
		"20 names in _meta":                      `{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{` + numbered(20) + `}}}`,
		"20 unknown names in the envelope":       `{"jsonrpc":"2.0","id":1,"method":"m",` + numbered(20) + `}`,
		"long strings that end at the last byte": `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("m", 4096) + `"}`,
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			want := refParse([]byte(text))
			got, err := dragoman.Parse([]byte(text))
			if err != nil {
				t.Fatal(err)
			}
			want.compare(t, []byte(text), got, err)
		})
	}
}

// numbered returns n members.
func numbered(n int) string {
	var s strings.Builder
	for i := range n {
		if i > 0 {
			s.WriteByte(',')
		}
		fmt.Fprintf(&s, `"k%d":%d`, i, i)
	}
	return s.String()
}

func TestManyMembers(t *testing.T) {
	many := numbered(200000)
	for _, frame := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{%s}}`,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{%s}}}`,
		`{"jsonrpc":"2.0","id":1,"method":"m",%s}`,
	} {
		if _, err := dragoman.Parse(fmt.Appendf(nil, frame, many)); err != nil {
			t.Errorf(frame+": %v", "...", err)
		}
		if _, err := dragoman.Parse(fmt.Appendf(nil, frame, many+`,"k\u0031":0`)); err == nil {
			t.Errorf(frame+": a name may stand twice among many", "...")
		}
		for n := 1; n < 40; n++ { // the last few are where a map takes over
			for again := range n {
				text := fmt.Sprintf(`%s,"k%d":0`, numbered(n), again)
				if _, err := dragoman.Parse(fmt.Appendf(nil, frame, text)); err == nil {
					t.Errorf(frame+" may be accepted", text)
				}
			}
		}
	}
	result := fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"result":{%s}}`, many)
	m, err := dragoman.Parse(result)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(m.Get("k199999")); got != "199999" {
		t.Errorf("the last member is %s", got)
	}
}

func TestLargeArray(t *testing.T) {
	data := []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"arguments":{"a":[1` + strings.Repeat(",1", 2<<20) + `]}}}`)
	if _, err := dragoman.Parse(data); err != nil {
		t.Error(err)
	}
}

func TestSizeLimit(t *testing.T) {
	data := []byte(`{"jsonrpc":"2.0","method":"m"}`)
	for _, c := range []struct {
		limit int
		ok    bool
	}{{len(data), true}, {len(data) - 1, false}, {1, false}, {0, true}, {-1, true}} {
		m, err := dragoman.Limits{MaxMessage: c.limit}.Parse(data)
		if c.ok && err != nil {
			t.Errorf("limit %d: %v", c.limit, err)
		}
		if !c.ok && (m != nil || !errors.Is(err, dragoman.ErrTooLarge)) {
			t.Errorf("limit %d: %v, %v; want ErrTooLarge", c.limit, m, err)
		}
	}
	for limit, want := range map[int]int{0: dragoman.DefaultMaxMessage, 5: 5, -1: 1<<31 - 1} {
		if got := (dragoman.Limits{MaxMessage: limit}).Message(); got != want {
			t.Errorf("limit %d is %d in force, want %d", limit, got, want)
		}
	}
	big := make([]byte, dragoman.DefaultMaxMessage+1)
	if _, err := dragoman.Parse(big); !errors.Is(err, dragoman.ErrTooLarge) {
		t.Errorf("17 MB: %v", err)
	}
}

func TestParseIntoLeavesNothingBehind(t *testing.T) {
	var m dragoman.Message
	first := []byte(`{"jsonrpc":"2.0","id":1,"method":"m","params":{"name":"x","uri":"y","_meta":{"progressToken":1}}}`)
	for _, second := range []string{`{"jsonrpc":"2.0","method":"n"}`, `{"jsonrpc":"2.0"}`, `{`, ``} {
		if err := (dragoman.Limits{}).ParseInto(&m, first); err != nil {
			t.Fatal(err)
		}
		err := dragoman.Limits{}.ParseInto(&m, []byte(second))
		if m.Name() != "" || m.URI() != "" || m.Meta("progressToken") != nil || !m.ID().IsZero() || err != nil && (m.Kind() != dragoman.Invalid || m.Len() != 0) {
			t.Errorf("after %q there is %v %s", second, m.Kind(), &m)
		}
	}
}

// What a bridge does not understand it must not touch.
func TestBytesStayAsTheyWere(t *testing.T) {
	text := `{"x-unknown": {"b":1,"a":2},  "params":{"arguments":{"big":123456789012345678901234567890,"f":1.0,"e":1E+2,"z":-0,"s":"\u00e9é\/","a":1,"A":2},"zeta":[ ],"alpha":{}},"method":"m","id":9007199254740993,"jsonrpc":"2.0"}`
	m, err := dragoman.Parse([]byte("\n" + text + " \n"))
	if err != nil {
		t.Fatal(err)
	}
	if m.String() != text {
		t.Errorf("got  %s\nwant %s", m, text)
	}
}

func TestParsingDoesNotAllocate(t *testing.T) {
	for _, text := range messages {
		if strings.Contains(text, `n\u0061me`) {
			continue // names with escapes are decoded
		}
		data := []byte(text)
		var m dragoman.Message
		if n := testing.AllocsPerRun(100, func() { _ = dragoman.Limits{}.ParseInto(&m, data) }); n != 0 {
			t.Errorf("%s: ParseInto allocates %v times", text, n)
		}
		kinds := 0
		if n := testing.AllocsPerRun(100, func() {
			m, err := dragoman.Parse(data)
			if err == nil {
				kinds += int(m.Kind())
			}
		}); n != 0 {
			t.Errorf("%s: Parse allocates %v times", text, n)
		}
	}
}

func TestReadingDoesNotAllocate(t *testing.T) {
	m, err := dragoman.Parse([]byte(messages[0]))
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 0, 1024)
	id := dragoman.IntID(99)
	n := testing.AllocsPerRun(100, func() {
		if m.Name() != "echo" || m.Method() != "tools/call" || len(m.Get("arguments")) == 0 || m.Get("absent") != nil ||
			len(m.Meta("progressToken")) == 0 || m.Meta("absent") != nil || m.ID().Key() != m.ID() {
			t.Error("not as it was")
		}
		buf = m.AppendWithID(buf[:0], id)
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { m = m.WithID(id) }); n > 1 {
		t.Errorf("WithID allocates %v times", n)
	}
}

// Every byte at every place of a word, because strings are read by words.
func TestEveryByteInAString(t *testing.T) {
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
