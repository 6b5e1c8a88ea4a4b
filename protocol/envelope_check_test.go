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
		{`"io.modelcontextprotocol/protocolVersion":"2099-01-01"` + rest, `{"requested":"2099-01-01","supported":["2026-07-28"]}`, protocol.CodeUnsupported},
		{`"io.modelcontextprotocol/protocolVersion":"2025-11-25"` + rest, `{"requested":"2025-11-25","supported":["2026-07-28"]}`, protocol.CodeUnsupported},
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
