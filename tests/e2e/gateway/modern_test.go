//go:build unix

package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// modernPost sends a request of the modern era by plain HTTP. The body is the
// caller's to close.
func modernPost(ctx context.Context, t *testing.T, url, method string, id int, params object) *http.Response {
	t.Helper()
	header, body := modernText(t, method, id, params)
	resp, err := gatewaytest.Post(ctx, url, header, body)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// modernText returns a request of the modern era, and the headers that go with it.
func modernText(t *testing.T, method string, id int, params object) (header http.Header, body string) {
	t.Helper()
	params = with(params, object{"_meta": object{
		protocol.MetaProtocolVersion: protocol.Latest.String(), protocol.MetaClientCapabilities: object{},
		protocol.MetaClientInfo: object{"name": "raw", "version": "1"},
	}})
	h := http.Header{}
	h.Set(protocol.HeaderVersion, protocol.Latest.String())
	h.Set(protocol.HeaderMethod, method)
	if name, ok := params["name"].(string); ok {
		h.Set(protocol.HeaderName, name)
	}
	text, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	return h, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, text)
}
