package sse

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

func TestRequestsWithoutAnIDAreRefused(t *testing.T) {
	peertest.NoLeak(t)
	_, at := serve(t, &Server{Acceptor: builtin.New(nil), Caller: byHeader})
	w := newTestServer(t)
	session := w.stream(at + "/sse").endpoint
	for _, url := range []string{session, at + "/messages"} {
		for _, meta := range []string{``, `,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`} {
			body := `{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"` + meta + `}}`
			if status, _, text := w.do(http.MethodPost, url, body); status != http.StatusBadRequest || !strings.Contains(text, `\"tools/call\" without an id`) {
				t.Errorf("%s: %d %s", body, status, text)
			}
		}
	}
}
