package protocol_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestEnvelopeComesBackAsItWasPut(t *testing.T) {
	t.Parallel()
	req, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":7,"io.modelcontextprotocol/logLevel":"debug"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	put := protocol.Envelope{Version: protocol.Latest.String(), Client: []byte(`{"name":"n","version":"1"}`)}
	dressed, err := put.Put(req)
	if err != nil {
		t.Fatal(err)
	}
	got, err := protocol.ReadEnvelope(dressed)
	if err != nil {
		t.Fatal(err)
	}
	if got.Version != put.Version || string(got.Capabilities) != "{}" || string(got.Client) != string(put.Client) || got.LogLevel != nil {
		t.Errorf("got %+v", got)
	}
	if string(dressed.Meta("progressToken")) != "7" {
		t.Errorf("the token is gone: %s", dressed.Bytes())
	}
}

func TestEnvelopeThatIsIncompleteIsRefusedWithItsPlace(t *testing.T) {
	t.Parallel()
	const v, caps, info, level = `"io.modelcontextprotocol/protocolVersion"`, `"io.modelcontextprotocol/clientCapabilities"`,
		`"io.modelcontextprotocol/clientInfo"`, `"io.modelcontextprotocol/logLevel"`
	for meta, want := range map[string]string{
		``:                         "lacks io.modelcontextprotocol/protocolVersion",
		v + `:1`:                   "protocolVersion must be a string",
		v + `:"x"`:                 "lacks io.modelcontextprotocol/clientCapabilities",
		v + `:"x",` + caps + `:[]`: "clientCapabilities must be an object",
		v + `:"x",` + caps + `:{},` + info + `:{"name":"n"}`: "clientInfo must be an object with a name and a version",
		v + `:"x",` + caps + `:{},` + info + `:"me"`:         "clientInfo must be an object with a name and a version",
		v + `:"x",` + caps + `:{},` + level + `:3`:           "logLevel must be a string",
	} {
		req, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{` + meta + `}}}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := protocol.ReadEnvelope(req); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("{%s}: got %v, want %q", meta, err, want)
		}
	}
}
