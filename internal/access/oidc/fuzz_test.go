package oidc

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
)

// FuzzMetadata reads whatever a server may publish. No URL comes out that CheckURL refuses, or
// that spells an address which a public server must not name; and no error is long or has
// control characters.
func FuzzMetadata(f *testing.F) {
	f.Add([]byte(`{"issuer":"https://as.example.com","token_endpoint":"https://as.example.com/t","authorization_endpoint":"https://as.example.com/a","scopes_supported":["a"]}`))
	f.Add([]byte(`{"issuer":"https://as.example.com","token_endpoint":"https://127.1/","revocation_endpoint":"javascript:x"}`))
	f.Add([]byte(`{"issuer":"https://as.example.com","token_endpoint":"https://[::ffff:10.0.0.1]/"}`))
	f.Add([]byte(`{"issuer":"https://as.example.com","token_endpoint":"https://a@b#c\u0000"}`))
	f.Add([]byte(`{"expires_in":"1e999","access_token":"x","client_secret_expires_at":1e400}`))
	server := &url.URL{Scheme: "https", Host: "mcp.example.com", Path: "/mcp"}
	c := New(&Options{
		Server: server,
		Network: Network{
			Proxy: http.ProxyURL(nil),
			Resolve: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr("8.8.4.4")}, nil
			},
		},
	})
	f.Fuzz(func(t *testing.T, text []byte) {
		doc, err := parseDocument(text)
		if err != nil {
			return
		}
		for _, name := range []string{"expires_in", "client_secret_expires_at"} {
			if got := doc.seconds(name); got < 0 {
				t.Errorf("%s is %v", name, got)
			}
		}
		doc.err = nil
		m, err := c.parseMetadata(t.Context(), doc, func(string) bool { return true }, "")
		if err != nil {
			if len(err.Error()) > 600 || strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7f }) {
				t.Errorf("the error is %q", err)
			}
			return
		}
		for _, e := range m.endpoints() {
			if *e.url == "" {
				continue
			}
			u, err := CheckURL(*e.url)
			if err != nil {
				t.Errorf("%s came out: %v", e.name, err)
				continue
			}
			if k, ok := spelled(u.Hostname()); ok && k != classPublic && !httpclient.SameOrigin(u, server) {
				t.Errorf("%s came out with a %v address: %q", e.name, k, *e.url)
			}
		}
	})
}
