package dragoman_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
)

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

func TestS02_S03_S06_RefusedMessages(t *testing.T) {
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
