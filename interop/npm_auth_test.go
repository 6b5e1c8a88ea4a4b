//go:build npm

package interop_test

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// These tests are of the servers by which sign-ins are tested: that they do
// what other tests count on.

// withToken reaches a protected server with a token that does not change.
func (p *protectedServer) withToken(token string) *streamable.Client {
	return &streamable.Client{URL: p.url, Header: http.Header{"Authorization": {"Bearer " + token}}}
}

// wantWhoami checks whose token a protected server says it got.
func (p *protectedServer) wantWhoami(rev protocol.Revision, token, sub string, scopes ...string) {
	p.t.Helper()
	c, _ := begin(p.t, p.withToken(token), rev)
	said := decode[struct {
		Content []struct{ Text string }
	}](p.t, c.want(protocol.MethodCallTool, object{"name": "whoami", "arguments": object{}}))
	who := decode[struct {
		Sub    string
		Scopes []string
	}](p.t, json.RawMessage(said.Content[0].Text))
	if who.Sub != sub || !slices.Equal(who.Scopes, scopes) {
		p.t.Errorf("the server sees %+v, want %s with %q", who, sub, scopes)
	}
}

// refuses returns the status and the challenge of a server for a call of a tool.
func (p *protectedServer) refuses(token, tool string) (int, string) {
	p.t.Helper()
	call := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + tool + `"}}`
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url, strings.NewReader(call))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	status, header, _ := do(p.t, http.DefaultClient, req)
	return status, header.Get("WWW-Authenticate")
}

const bothScopes = "mcp:read mcp:write offline_access"

func TestNpmAuthorizationCodeGrantOpensAProtectedServer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, format string
		sdk          int
		rev          protocol.Revision
	}{
		{"opaque token, SDK 1", "opaque", 1, protocol.V20251125},
		{"signed token, SDK 2 in the modern era", "jwt", 2, protocol.V20260728},
		{"opaque token, SDK 2 in the legacy era", "opaque", 2, protocol.V20251125},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			auth := startAuthServer(t, object{"format": test.format})
			server := startProtected(t, auth, object{"sdk": test.sdk})
			client := register(t, auth, server.url)
			callback := newPerson(t).signIn(client.authorizationURL(bothScopes))
			got := client.redeem(client.checkCallback(callback))
			server.wantWhoami(test.rev, got.Access, "alice", "mcp:read", "mcp:write")
			if signed := strings.Count(got.Access, ".") == 2; signed != (test.format == "jwt") {
				t.Errorf("the token is signed: %v", signed)
			}

			elsewhere := startProtected(t, auth, nil)
			if status, _ := elsewhere.refuses(got.Access, "whoami"); status != http.StatusUnauthorized {
				t.Errorf("a server takes a token for another one with status %d", status)
			}
			counts := auth.tally().Counts
			if counts["registrations"] != 1 || counts["authorization requests"] == 0 || counts["authorization_code"] != 1 {
				t.Errorf("the server counts %v", counts)
			}
		})
	}
}

func TestNpmProtectedServerSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	auth := startAuthServer(t, nil)
	server := startProtected(t, auth, nil)
	client := register(t, auth, server.url)
	reader := client.redeem(client.checkCallback(newPerson(t).signIn(client.authorizationURL("mcp:read"))))
	document := `resource_metadata="` + strings.Replace(server.url, "/mcp", "/.well-known/oauth-protected-resource/mcp", 1) + `"`
	for _, test := range []struct {
		token, tool string
		status      int
		challenge   []string
	}{
		{"", "whoami", http.StatusUnauthorized, []string{`error="invalid_token"`, `scope="mcp:read"`, document}},
		{"no token of anybody", "whoami", http.StatusUnauthorized, []string{`error="invalid_token"`, document}},
		{reader.Access, "write", http.StatusForbidden, []string{`error="insufficient_scope"`, `scope="mcp:write"`, document}},
	} {
		status, challenge := server.refuses(test.token, test.tool)
		if status != test.status {
			t.Errorf("status %d, want %d", status, test.status)
		}
		for _, part := range test.challenge {
			if !strings.Contains(challenge, part) {
				t.Errorf("the challenge is %s, want %s in it", challenge, part)
			}
		}
	}
	if reader.Refresh != "" {
		t.Error("there is a refresh token, though nobody asked for offline_access")
	}
	var about struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
	}
	fetch(t, http.MethodGet, strings.Replace(server.url, "/mcp", "/.well-known/oauth-protected-resource/mcp", 1), "", nil, &about)
	if about.Resource != server.url || !slices.Equal(about.Servers, []string{auth.issuer}) {
		t.Errorf("the server's metadata: %+v", about)
	}
	counts := server.tally().Counts
	if counts["no token"] != 1 || counts["invalid token"] != 1 || counts["insufficient scope"] != 1 {
		t.Errorf("the server counts %v", counts)
	}
}

func TestNpmRefreshTokenThatIsUsedTwiceEndsTheGrant(t *testing.T) {
	t.Parallel()
	auth := startAuthServer(t, nil)
	server := startProtected(t, auth, nil)
	client := register(t, auth, server.url)
	first := client.redeem(client.checkCallback(newPerson(t).signIn(client.authorizationURL(bothScopes))))
	second := client.want(client.refresh(first.Refresh))
	if second.Refresh == first.Refresh || second.Refresh == "" {
		t.Fatal("the refresh token is not rotated")
	}
	server.wantWhoami(protocol.V20251125, second.Access, "alice", "mcp:read", "mcp:write")

	auth.restart() // which forgets nothing
	server.wantWhoami(protocol.V20251125, second.Access, "alice", "mcp:read", "mcp:write")
	client.wantError("invalid_grant", client.refresh(first.Refresh))
	client.wantError("invalid_grant", client.refresh(second.Refresh))
	if status, _ := server.refuses(second.Access, "whoami"); status != http.StatusUnauthorized {
		t.Errorf("the token is taken with status %d after the grant has ended", status)
	}
	got := auth.tally()
	if got.Counts["reuse"] != 1 || got.Counts["refresh_token"] != 0 || got.Failures["refresh_token: refresh token already used"] != 1 {
		t.Errorf("the server counts %+v", got)
	}
	for _, request := range got.Requests {
		if request["grant_type"] == "refresh_token" && request["resource"] != server.url {
			t.Errorf("the server says that %v was sent", request)
		}
	}
}

func TestNpmAccessTokensOfAnAuthorizationServerEnd(t *testing.T) {
	t.Parallel()
	auth := startAuthServer(t, nil)
	server := startProtected(t, auth, nil)
	client := register(t, auth, server.url)
	person := newPerson(t)
	signIn := func() tokens {
		return client.redeem(client.checkCallback(person.signIn(client.authorizationURL(bothScopes))))
	}
	ends := func(how string, got tokens) {
		t.Helper()
		if status, _ := server.refuses(got.Access, "whoami"); status != http.StatusUnauthorized {
			t.Errorf("after %s the token is taken with status %d", how, status)
		}
	}
	got := signIn()
	if status, body := postForm(t, http.DefaultClient, client.at["revocation_endpoint"].(string), url.Values{"client_id": {client.id}, "token": {got.Refresh}}); status != http.StatusOK {
		t.Errorf("revocation: status %d: %s", status, body)
	}
	ends("revocation", got)
	got = signIn()
	auth.revokeAll()
	ends("an administrator's order", got)
	client.wantError("invalid_grant", client.refresh(got.Refresh))

	auth.set(object{"accessTTL": 1})
	got = signIn()
	if got.Expires != 1 {
		t.Errorf("the token is said to be good for %d s", got.Expires)
	}
	deadline := time.Now().Add(patience)
	for status := 0; status != http.StatusUnauthorized; status, _ = server.refuses(got.Access, "whoami") {
		if time.Now().After(deadline) {
			t.Fatal("the token does not end")
		}
	}
	auth.set(object{"fail": object{"path": "/token", "status": http.StatusServiceUnavailable, "count": 1}})
	client.wantError("temporarily_unavailable", client.refresh(got.Refresh))
	client.want(client.refresh(got.Refresh))
	auth.set(object{"interaction": "deny"})
	if back := person.signIn(client.authorizationURL(bothScopes)).Query(); back.Get("error") != "access_denied" {
		t.Errorf("the user comes back with %v", back)
	}
	if counts := auth.tally().Counts; counts["revocations"] != 1 {
		t.Errorf("the server counts %v", counts)
	}
}

func TestNpmAuthorizationServerRotatesItsKeys(t *testing.T) {
	t.Parallel()
	auth := startAuthServer(t, object{"format": "jwt"})
	server := startProtected(t, auth, nil)
	client := register(t, auth, server.url)
	first := client.redeem(client.checkCallback(newPerson(t).signIn(client.authorizationURL(bothScopes))))
	server.wantWhoami(protocol.V20251125, first.Access, "alice", "mcp:read", "mcp:write")
	auth.rotateKeys(true)
	second := client.want(client.refresh(first.Refresh))
	server.wantWhoami(protocol.V20251125, second.Access, "alice", "mcp:read", "mcp:write")
	server.wantWhoami(protocol.V20251125, first.Access, "alice", "mcp:read", "mcp:write")
	auth.rotateKeys(false)
	third := client.want(client.refresh(second.Refresh))
	server.wantWhoami(protocol.V20251125, third.Access, "alice", "mcp:read", "mcp:write") // it reads the keys again
	if status, _ := server.refuses(second.Access, "whoami"); status != http.StatusUnauthorized {
		t.Errorf("a token of a key that is gone is taken with status %d", status)
	}
}

func TestNpmDeviceCodeGrantOpensAProtectedServer(t *testing.T) {
	t.Parallel()
	auth := startAuthServer(t, nil)
	server := startProtected(t, auth, nil)
	client := register(t, auth, server.url)
	ask, page := client.device(bothScopes)
	client.wantError("authorization_pending", ask)
	newPerson(t).approveDevice(page)
	got := client.want(ask)
	server.wantWhoami(protocol.V20251125, got.Access, "alice", "mcp:read", "mcp:write")
	client.want(client.refresh(got.Refresh))
	if counts := auth.tally().Counts; counts["device codes"] != 1 {
		t.Errorf("the server counts %v", counts)
	}
}

// machine is the registration of a client that signs in by itself.
func machine(id, method string, more object) object {
	client := object{
		"client_id": id, "token_endpoint_auth_method": method,
		"grant_types": []string{"client_credentials"}, "response_types": []string{}, "redirect_uris": []string{},
	}
	maps.Copy(client, more)
	return client
}

func TestNpmClientCredentialsGrantOpensAProtectedServer(t *testing.T) {
	t.Parallel()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	auth := startAuthServer(t, object{"clients": []object{
		machine("secretive", "client_secret_post", object{"client_secret": "a secret of the client"}),
		machine("signing", "private_key_jwt", object{"jwks": object{"keys": []object{publicJWK(key)}}}),
	}})
	server := startProtected(t, auth, nil)
	client := &plainClient{t: t, at: auth.metadata(), resource: server.url}
	ask := func(form url.Values) url.Values {
		form.Set("grant_type", "client_credentials")
		form.Set("scope", "mcp:read")
		return form
	}
	got := client.want(ask(url.Values{"client_id": {"secretive"}, "client_secret": {"a secret of the client"}}))
	server.wantWhoami(protocol.V20251125, got.Access, "secretive", "mcp:read")
	client.wantError("invalid_client", ask(url.Values{"client_id": {"secretive"}, "client_secret": {"another"}}))
	got = client.want(ask(url.Values{
		"client_id": {"signing"}, "client_assertion": {assertion(t, key, "signing", auth.issuer)},
		"client_assertion_type": {"urn:ietf:params:oauth:client-assertion-type:jwt-bearer"},
	}))
	server.wantWhoami(protocol.V20251125, got.Access, "signing", "mcp:read")
	if counts := auth.tally().Counts; counts["client_credentials"] != 2 {
		t.Errorf("the server counts %v", counts)
	}
}

func TestNpmAuthorizationServerTakesAClientByItsMetadataDocument(t *testing.T) {
	t.Parallel()
	const id = "https://client.example/metadata.json"
	auth := startAuthServer(t, object{"registration": false, "documents": object{id: object{
		"client_id": id, "client_name": "documented", "application_type": "native", "token_endpoint_auth_method": "none",
		"redirect_uris": []string{"http://127.0.0.1/callback"}, "grant_types": []string{"authorization_code", "refresh_token"},
	}}})
	server := startProtected(t, auth, nil)
	client := &plainClient{t: t, at: auth.metadata(), id: id, resource: server.url, redirect: "http://127.0.0.1:45678/callback"}
	if client.at["client_id_metadata_document_supported"] != true || client.at["registration_endpoint"] != nil {
		t.Errorf("the server says of itself %v", client.at)
	}
	got := client.redeem(client.checkCallback(newPerson(t).signIn(client.authorizationURL(bothScopes))))
	server.wantWhoami(protocol.V20251125, client.want(client.refresh(got.Refresh)).Access, "alice", "mcp:read", "mcp:write")
}

func TestNpmSignInByTheBrowserWithoutAPerson(t *testing.T) {
	t.Parallel()
	auth := startAuthServer(t, nil)
	client := register(t, auth, "http://127.0.0.1:1/mcp")
	called := make(chan *url.URL, 10)
	listener := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { called <- r.URL }))
	defer listener.Close()
	client.redirect = listener.URL + "/callback"
	browser := newHeadless(t, true)
	page := client.authorizationURL(bothScopes)
	browser.open(page)
	for deadline := time.Now().Add(patience); !slices.Equal(browser.pages(), []string{page}); {
		if time.Now().After(deadline) {
			t.Fatalf("the browser was given %q", browser.pages())
		}
	}
	if got := auth.tally().Counts["authorization requests"]; got != 0 {
		t.Errorf("the page is held, and was opened %d times", got)
	}
	browser.release()
	client.redeem(client.checkCallback(<-called))
	if out, err := browser.command("https://example.com/").CombinedOutput(); err == nil || !strings.Contains(string(out), "not on this machine") {
		t.Errorf("a page elsewhere: %v, %s", err, out)
	}
}
