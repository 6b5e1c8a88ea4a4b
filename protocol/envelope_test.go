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

// However the text is written, the envelope is what a walk for each member finds.
func TestEnvelopeIsTheSameInAnySpelling(t *testing.T) {
	t.Parallel()
	const prefix = "io.modelcontextprotocol/"
	for name, meta := range map[string]string{
		"plain":   `{"` + prefix + `protocolVersion":"2026-07-28","` + prefix + `clientCapabilities":{"a":{"b":[1,"]}"]}},"` + prefix + `clientInfo":{"name":"n","version":"1"},"` + prefix + `logLevel":"info"}`,
		"spaced":  "\n{ \t\"" + prefix + `protocolVersion" : "2026-07-28" , "x":-1.5e3 ,"y" : null,"` + prefix + `clientCapabilities": { "a" : "\\\\" , "b":"\"}" } ,"` + prefix + "logLevel\" :\"info\"\r\n}",
		"escaped": `{"io.modelcontextprotocol\/protocolVersion":"2026\u002d07-28","` + prefix + `clientCapabilities":{},"\u0069o.modelcontextprotocol/clientInfo":{"n\u0061me":"n","version":"1"}}`,
		"another": `{"` + prefix + `protocolVersion":"2099-01-01","` + prefix + `clientCapabilities":{},"":{},"z":[[{}],"\""]}`,
	} {
		req, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":` + meta + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		got, err := protocol.ReadEnvelope(req)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want := protocol.Envelope{
			Version:      req.MetaText(protocol.MetaProtocolVersion),
			Capabilities: req.Meta(protocol.MetaClientCapabilities),
			Client:       req.Meta(protocol.MetaClientInfo),
			LogLevel:     req.Meta(protocol.MetaLogLevel),
		}
		if got.Version != want.Version || string(got.Capabilities) != string(want.Capabilities) ||
			string(got.Client) != string(want.Client) || string(got.LogLevel) != string(want.LogLevel) {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

// Names count as they are, in whatever spelling of JSON, and the last of several.
func TestClientInfoHasANameAndAVersion(t *testing.T) {
	t.Parallel()
	for info, want := range map[string]bool{
		`{"name":"n","version":"1"}`:                                   true,
		`{"title":{"name":1},"version":"1","icons":["}"],"name":"\""}`: true,
		`{"Name":"n","VERSION":"1"}`:                                   false,
		`{"n\u0061me":"n","version":"1"}`:                              true,
		`{"name":"n","ver\u017fion":"1"}`:                              false,
		`{}`:                                                           false,
		`{"name":"n"}`:                                                 false,
		`{"name":"n","version":1}`:                                     false,
		`{"name":null,"version":"1"}`:                                  false,
		`{"name":"n","version":"1","name":2}`:                          false,
		`{"name":"n","version":"1","Version":null}`:                    true,
		`{"info":{"name":"n","version":"1"},"version":"1"}`:            false,
		`["name","version"]`:                                           false,
	} {
		req, err := dragoman.Parse([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"x",` +
			`"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":` + info + `}}}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := protocol.ReadEnvelope(req); (err == nil) != want {
			t.Errorf("%s: %v", info, err)
		}
	}
}

// What belongs to a client is kept by its name, which it chooses.
func TestClientNamesAreCutAtARune(t *testing.T) {
	for _, row := range []struct{ name, want string }{
		{"", ""}, {"a client", "a client"}, {strings.Repeat("x", 256), strings.Repeat("x", 256)}, {strings.Repeat("x", 1<<20), strings.Repeat("x", 256)},
		{strings.Repeat("x", 255) + "é", strings.Repeat("x", 255)}, {strings.Repeat("x", 254) + "éé", strings.Repeat("x", 254) + "é"},
	} {
		req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodInitialize, map[string]any{"clientInfo": map[string]any{"name": row.name}})
		if err != nil {
			t.Fatal(err)
		}
		if got := protocol.ClientName(req); got != row.want {
			t.Errorf("%d bytes: got %d, want %d", len(row.name), len(got), len(row.want))
		}
	}
}
