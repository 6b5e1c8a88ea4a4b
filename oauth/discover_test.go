package oauth_test

import (
	"net/http"
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/oauth"
)

func TestHowToSignInIsFoundOutWithoutDoingSo(t *testing.T) {
	server := authtest.New(t, &authtest.Options{Scopes: []string{"read", "write"}})
	resp, err := http.Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	d, err := oauth.Discover(t.Context(), &oauth.Config{Server: server.URL}, resp.Header)
	if err != nil {
		t.Fatal(err)
	}
	if d.Issuer != server.Issuer || d.Resource != server.URL || !d.PKCE || !d.Registration || d.Guessed || !slices.Contains(d.Scopes, "read") {
		t.Errorf("found %+v", d)
	}
	if server.Count("register")+server.Count("authorize") > 0 {
		t.Error("somebody has registered or signed in")
	}
}
