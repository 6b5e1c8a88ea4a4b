package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
)

// asked returns the answer to a request of a page.
func asked(h http.Handler, method, path, origin string, headers ...string) http.Header {
	r := httptest.NewRequest(method, path, strings.NewReader("{}"))
	r.Host = "127.0.0.1:8808"
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	head := w.Result().Header
	head.Set("Status", http.StatusText(w.Code))
	return head
}

func TestC13_PagesOfConfiguredOriginsMayReadEveryAnswer(t *testing.T) {
	g := begin(t, "servers: {a: {url: http://127.0.0.1:1, passHeaders: {X-Api-Key: Authorization}}}")
	h := g.Handler(&gateway.HandlerOptions{Origins: []string{"https://app.example.com"}})
	for _, path := range []string{
		"/mcp", "/messages", "/call", "/call/tool", "/ws", "/servers/a/mcp", "/servers/a/call", "/servers/none/mcp", "/nothing", "/status", "/healthz",
	} {
		const good, evil = "https://app.example.com", "https://evil.example"
		got := asked(h, http.MethodPost, path, good)
		if got.Get("Access-Control-Allow-Origin") != good || !slices.Contains(got.Values("Vary"), "Origin") {
			t.Errorf("%s: %v", path, got)
		}
		for _, name := range []string{"Mcp-Session-Id", "MCP-Protocol-Version", "WWW-Authenticate", "Retry-After"} {
			if !strings.Contains(got.Get("Access-Control-Expose-Headers"), name) {
				t.Errorf("%s: pages cannot read %s", path, name)
			}
		}
		pre := asked(h, http.MethodOptions, path, good, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type, x-api-key")
		if pre.Get("Status") != "No Content" || pre.Get("Access-Control-Allow-Origin") != good || pre.Get("Access-Control-Max-Age") == "" ||
			!strings.Contains(pre.Get("Access-Control-Allow-Headers"), "Authorization") || !strings.Contains(pre.Get("Access-Control-Allow-Headers"), "X-Api-Key") {
			t.Errorf("preflight of %s: %v", path, pre)
		}
		for _, got := range []http.Header{
			asked(h, http.MethodPost, path, evil), asked(h, http.MethodPost, path, "null"),
			asked(h, http.MethodOptions, path, evil, "Access-Control-Request-Method", "POST"),
		} {
			if got.Get("Status") != "Forbidden" || got.Get("Access-Control-Allow-Origin") != "" || got.Get("Access-Control-Allow-Headers") != "" || !slices.Contains(got.Values("Vary"), "Origin") {
				t.Errorf("a foreign page at %s: %v", path, got)
			}
		}
		for _, got := range []http.Header{got, pre, asked(h, http.MethodGet, path, "")} {
			if len(got.Values("Access-Control-Allow-Credentials")) > 0 {
				t.Errorf("%s: a browser may add credentials: %v", path, got)
			}
		}
	}
}

// A cache must not give what a program got to a page, which could not read it.
func TestC13_AnswersThatCachesMayKeepDependOnTheOrigin(t *testing.T) {
	g := begin(t, "servers: {a: {url: http://127.0.0.1:1}}")
	for _, path := range []string{"/call", "/status", "/healthz", "/nothing"} {
		if got := asked(g.Handler(nil), http.MethodGet, path, ""); !slices.Equal(got.Values("Vary"), []string{"Origin"}) {
			t.Errorf("%s: Vary is %q", path, got.Values("Vary"))
		}
	}
}

func TestC13_EveryOriginMeansAnyPageAndStillNoCredentials(t *testing.T) {
	g := begin(t, "servers: {a: {url: http://127.0.0.1:1}}")
	got := asked(g.Handler(&gateway.HandlerOptions{Origins: []string{"*"}}), http.MethodPost, "/mcp", "https://any.example")
	if got.Get("Access-Control-Allow-Origin") != "https://any.example" || len(got.Values("Access-Control-Allow-Credentials")) > 0 || !slices.Contains(got.Values("Vary"), "Origin") {
		t.Errorf("%v", got)
	}
}
