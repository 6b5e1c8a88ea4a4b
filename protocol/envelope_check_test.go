package protocol_test

import (
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestEnvelopesThatCannotBeServedAreRefused(t *testing.T) {
	const rest = `,"io.modelcontextprotocol/clientCapabilities":{}`
	for _, test := range []struct {
		meta, data string
		code       int
	}{
		{`"io.modelcontextprotocol/protocolVersion":"2026-07-28"` + rest, "", 0},
		{`"io.modelcontextprotocol/protocolVersion":"2026-07-28"`, "", protocol.CodeInvalidParams},
		{`"x":1`, "", protocol.CodeInvalidParams},
		{`"io.modelcontextprotocol/protocolVersion":"2099-01-01"` + rest, `{"supported":["2026-07-28"],"requested":"2099-01-01"}`, protocol.CodeUnsupported},
		{`"io.modelcontextprotocol/protocolVersion":"2025-11-25"` + rest, `{"supported":["2026-07-28"],"requested":"2025-11-25"}`, protocol.CodeUnsupported},
	} {
		req, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{` + test.meta + `}}}`))
		if err != nil {
			t.Fatal(err)
		}
		switch e := protocol.CheckEnvelope(req); {
		case e == nil && test.code != 0:
			t.Errorf("%s is accepted", test.meta)
		case e != nil && (e.Code != test.code || string(e.Data) != test.data):
			t.Errorf("%s: %v %s", test.meta, e, e.Data)
		}
	}
}

func TestVersionOfIsWhatInitializeOrItsAnswerNames(t *testing.T) {
	for text, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18"}}`: "2025-06-18",
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"of\u0020tomorrow"}}`:                 "of tomorrow",
		`{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":20250618}}`:                           "",
		`{"jsonrpc":"2.0","id":1,"result":{}}`:                                                     "",
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"no","protocolVersion":"x"}}`:         "",
	} {
		m, err := dragoman.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := protocol.VersionOf(m); got != want {
			t.Errorf("%s names %q, want %q", text, got, want)
		}
	}
}
