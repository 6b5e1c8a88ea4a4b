package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
)

func TestS58_OwnerControlsARunningGateway(t *testing.T) {
	g := begin(t, both(t))
	g.ready()
	url := serveHTTP(t, g.Control())
	ask := func(method, path string) (int, string) { return send(t, http.DefaultClient, method, url+path) }

	_, body := ask(http.MethodGet, "/status")
	var s gateway.Status
	if decode(t, body, &s); len(s.Servers) != 2 {
		t.Errorf("status: %s", body)
	}
	status, body := ask(http.MethodPost, "/servers/old/restart")
	var one upstream.Status
	if decode(t, body, &one); status != http.StatusOK || one.Name != "old" || one.State != upstream.Ready {
		t.Errorf("restart: %d %s", status, body)
	}
	if _, body := ask(http.MethodGet, "/servers/old/logs"); !strings.Contains(body, `"text":`) {
		t.Errorf("logs: %s", body)
	}
	if status, body := ask(http.MethodPost, "/servers/none/restart"); status != http.StatusNotFound || !strings.Contains(body, "no server none") {
		t.Errorf("restart of nobody: %d %s", status, body)
	}
	status, body = ask(http.MethodPost, "/reload")
	var done gateway.Reloaded
	if decode(t, body, &done); status != http.StatusOK || len(done.Changes.Kept) != 2 {
		t.Errorf("reload: %d %s", status, body)
	}
	g.write("servers: {old: {}")
	if status, body := ask(http.MethodPost, "/reload"); status != http.StatusConflict || !strings.Contains(body, "dragoman.yaml:1") {
		t.Errorf("reload of a bad file: %d %s", status, body)
	}
	if status, _ := ask(http.MethodGet, "/servers/old/restart"); status != http.StatusMethodNotAllowed {
		t.Errorf("a restart by GET: %d", status)
	}
}
