package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// Users copy URLs with a slash at the end, and those of some other servers have one.
func TestEndpointsAreThereWithASlashToo(t *testing.T) {
	g := guard(t, "groups: {all: [a], own: {servers: [a], path: /mine}, sliced: {servers: [a], path: /cut/}}\n")
	token := g.token(t, "bob")
	g.ready()
	g.use(t, token, []endpoint{
		{"/mcp/", "http-only", "a_echo", protocol.Legacy},
		{"/mcp/", "http-only", "a_echo", protocol.Modern},
		{"/servers/a/mcp/", "http-only", "echo", protocol.Legacy},
		{"/servers/a/mcp/?x=/", "http-only", "echo", protocol.Modern},
		{"/groups/all/mcp/", "http-only", "a_echo", protocol.Modern},
		{"/mine/", "http-only", "a_echo", protocol.Modern},
		{"/cut/", "http-only", "a_echo", protocol.Modern},
		{"/sse/", "sse-only", "a_echo", protocol.Legacy},
		{"/servers/a/sse/", "sse-only", "echo", protocol.Legacy},
		{"/servers/a/sse/?x=y", "sse-only", "echo", protocol.Legacy},
		{"/servers/a/sse?x=/", "sse-only", "echo", protocol.Legacy},
		{"/servers/a/ws/", "ws", "echo", protocol.Legacy},
		{"/servers/a/ws/", "ws", "echo", protocol.Modern},
	})
	if resp := g.do(t, http.MethodGet, "/servers/a/call/", "Bearer "+token, ""); resp.StatusCode != http.StatusOK {
		t.Errorf("the list of tools: %s", resp.Status)
	}
	for _, path := range []string{
		"/mcp//", "//mcp", "//mcp/", "/mcp/x", "/mcp/x/", "/sse//", "/ws/x", "/messages//", "/call//", "/call/echo/", "/servers/", "/servers/a/",
		"/servers/a//mcp", "/servers/a//mcp/", "/servers/a/mcp//", "/servers/a/x/", "/servers//mcp/", "/servers/b/mcp/", "/groups/", "/groups/none/mcp/", "/mine//", "/status/", "/nothing/",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			resp := g.do(t, method, path, "Bearer "+token, `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
			if resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s %s: %s, want 404", method, path, resp.Status)
			}
			if resp := g.do(t, method, path, "", ""); resp.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s %s without a token: %s", method, path, resp.Status)
			}
		}
	}
}

// What goes by the path of an endpoint is asked about the endpoint.
func TestS27_ASlashLeadsAroundNothing(t *testing.T) {
	g, issuer := issued(t, "")
	const ours, ping = "https://gw.example.com", `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for audience, want := range map[string]bool{"/servers/a/mcp": true, "/servers/a/mcp/": true, "/servers/b/mcp": false, "/mcp/": false, "/servers/a": false} {
		token := "Bearer " + issuer.Mint(map[string]any{"aud": ours + audience})
		for _, path := range []string{"/servers/a/mcp", "/servers/a/mcp/"} {
			resp := g.do(t, http.MethodPost, path, token, ping)
			if (resp.StatusCode != http.StatusUnauthorized) != want {
				t.Errorf("%s with a token for %s: %s", path, audience, resp.Status)
			}
			if at := resp.Header.Get("WWW-Authenticate"); !want && !strings.Contains(at, `/.well-known/oauth-protected-resource/servers/a/mcp"`) {
				t.Errorf("%s: the metadata is said to be at %s", path, at)
			}
		}
	}
}

// A path that a proxy may read in another way leads to no endpoint.
func TestS27_PathsWithEncodedSeparatorsAndDotSegmentsAreRefused(t *testing.T) {
	g := guard(t, "groups: {own: {servers: [a], path: /mine}}\n")
	token := "Bearer " + g.token(t, "bob")
	g.ready()
	for _, path := range []string{
		"/servers%2fa/mcp", "/servers%2Fa/mcp", "/servers/a%2fmcp", "/servers/a%2Fmcp", "/servers%2fa%2fmcp", "/%2fmcp", "/mcp%2F", "/mcp%2f/", "/servers/a%2fsse", "/servers%2fa/ws",
		"/servers%2fa/messages", "/servers%2fa/call/echo", "/servers/a%2fcall/echo", "/servers/a/call%2fecho", "/servers%5ca/mcp", "/servers/a%5cmcp", "/servers/a%5Cmcp", "/%5cmcp", "/groups%2fown/mcp",
		"/servers/a/%2e%2e/a/mcp", "/servers/%2e/a/mcp", "/servers/b/../a/mcp", "/./mcp", "/x/%2E%2e/mcp", "/servers/b%5c..%5ca/mcp", "/servers/a/call/%2e%2e", "/servers/a/call/x%2f..%2fecho", "/servers/a/call/..%5cecho",
		"/servers/a%00/mcp", "/servers/a/mcp%0a", "/servers/a/mcp%7f", "/status%2f", "/healthz%2f", "/%2e/healthz", "/.well-known/oauth-protected-resource/servers%2fa/mcp", "/.well-known%2foauth-protected-resource",
	} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			for proof, want := range map[string]int{token: http.StatusBadRequest, "": http.StatusUnauthorized} {
				if resp := g.do(t, method, path, proof, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); resp.StatusCode != want {
					t.Errorf("%s %s: %s, want %d", method, path, resp.Status, want)
				}
			}
		}
	}
	for path, want := range map[string]int{
		"/servers/a/mcp": http.StatusOK, "/servers/%61/mcp": http.StatusOK, "/mcp?next=%2f..%2f%5c": http.StatusOK, "/mine": http.StatusOK,
		"/servers/a/call/none%2Fof%5cthese": http.StatusNotFound, "/call/a..b": http.StatusNotFound, "/call/.hidden": http.StatusNotFound,
	} {
		if resp := g.do(t, http.MethodPost, path, token, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", path, resp.Status, want)
		}
	}
}
