package adapt_test

import (
	"encoding/json"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/adapt"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// The revisions, by short names for the tables.
const (
	v1 = protocol.V20241105
	v2 = protocol.V20250326
	v3 = protocol.V20250618
	v4 = protocol.V20251125
	v5 = protocol.V20260728
)

func route(client, server protocol.Revision) adapt.Route {
	return adapt.Route{Client: client, Server: server}
}

func parse(t testing.TB, text string) *dragoman.Message {
	t.Helper()
	m, err := dragoman.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

func result(t testing.TB, body string) *dragoman.Message {
	t.Helper()
	return parse(t, `{"jsonrpc":"2.0","id":"r","result":`+body+`}`)
}

func request(t testing.TB, method, params string) *dragoman.Message {
	t.Helper()
	return parse(t, `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":`+params+`}`)
}

// A row is one message on one route: what becomes of its body. An empty want
// stands for the message itself.
type row struct {
	name           string
	client, server protocol.Revision
	method         string
	in, want       string
}

func (r row) expect(t *testing.T, in, got *dragoman.Message, body json.RawMessage, err error) {
	t.Helper()
	switch {
	case err != nil:
		t.Errorf("%s, client %s, server %s: %v", r.name, r.client, r.server, err)
	case r.want == "":
		if got != in {
			t.Errorf("%s, client %s, server %s: changed to %s", r.name, r.client, r.server, got)
		}
	case string(body) != r.want:
		t.Errorf("%s, client %s, server %s:\n got %s\nwant %s", r.name, r.client, r.server, body, r.want)
	case got.ID() != in.ID():
		t.Errorf("%s: id %s became %s", r.name, in.ID(), got.ID())
	}
}
