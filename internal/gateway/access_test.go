package gateway_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/access/auth"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// A guarded is a gateway that lets in the holders of tokens.
type guarded struct {
	*running
	tokens string // the file
}

// guard starts a gateway that lets in by tokens of a file, with more in its
// configuration.
func guard(t *testing.T, more string) *guarded {
	t.Helper()
	g := &guarded{tokens: filepath.Join(t.TempDir(), "tokens.json")}
	g.token(t, "alice")
	g.running = begin(t, fmt.Sprintf("auth: {tokenFile: %q}\nlimits: {failedProofs: 1000000/s}\nservers:\n  a: {url: %q}\n%s", g.tokens, startBuiltin(t, protocol.LatestLegacy), more))
	return g
}

// token makes a token.
func (g *guarded) token(t *testing.T, name string, scopes ...string) string {
	t.Helper()
	secret, hash := auth.NewSecret()
	if err := auth.AddToken(t.Context(), g.tokens, &auth.Token{Name: name, Hash: hash, Scopes: scopes}); err != nil {
		t.Fatal(err)
	}
	if g.running != nil {
		g.reload(t)
	}
	return secret
}

func (g *guarded) reload(t *testing.T) {
	t.Helper()
	if _, err := g.Reload(); err != nil {
		t.Fatal(err)
	}
}

func (g *guarded) revoke(t *testing.T, name string) {
	t.Helper()
	if err := auth.RemoveToken(t.Context(), g.tokens, name); err != nil {
		t.Fatal(err)
	}
	g.reload(t)
}

// do sends a request with a header.
func (g *guarded) do(t *testing.T, method, path, authorization, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), method, g.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if authorization != "" {
		req.Header.Set("Authorization", authorization)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// Every way to every endpoint, with what a client of it sends first.
var endpointRequests = []struct{ method, path, body string }{
	{"POST", "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
	{"GET", "/mcp", ""},
	{"DELETE", "/mcp", ""},
	{"PUT", "/mcp", ""},
	{"GET", "/sse", ""},
	{"POST", "/sse", `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
	{"POST", "/messages", `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
	{"POST", "/messages?sessionId=1", `{"jsonrpc":"2.0","id":1,"method":"ping"}`},
	{"GET", "/ws", ""},
	{"GET", "/call", ""},
	{"POST", "/call", `{"tool":"echo"}`},
	{"POST", "/call/echo", `{"text":"x"}`},
	{"GET", "/nothing", ""},
}

func TestS27_NothingIsSaidWithoutAToken(t *testing.T) {
	g := guard(t, "groups: {all: [a]}\n")
	good := g.token(t, "bob")
	for _, base := range []string{"", "/servers/a", "/servers/nobody", "/groups/all", "/groups/none"} {
		for _, d := range endpointRequests {
			for _, wrong := range []string{
				"", "Bearer", "Bearer ", "Bearer " + good[1:], "Bearer " + good + "x", "Bearer  x y", "Basic " + good, "bearer\t" + good, good,
				"Bearer " + strings.ToUpper(good), "Bearer \x80" + good, "Bearer " + strings.Repeat("a", 9000),
			} {
				path := base + d.path
				if wrong == "" {
					path += map[bool]string{true: "&", false: "?"}[strings.Contains(path, "?")] + "access_token=" + good + "&token=" + good
				}
				resp := g.do(t, d.method, path, wrong, d.body)
				if resp.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(resp.Header.Get("WWW-Authenticate"), "Bearer") {
					t.Errorf("%s %s with %.40q: %s, %q", d.method, path, wrong, resp.Status, resp.Header.Get("WWW-Authenticate"))
				}
				text, _ := io.ReadAll(resp.Body)
				if strings.Contains(string(text), good) || strings.Contains(string(text), "no server") {
					t.Errorf("%s %s tells %s", d.method, path, text)
				}
			}
		}
	}
	for _, path := range []string{"/status", "/.well-known/x", "/%2e%2e/mcp", "//mcp", "/mcp/", "/%6dcp", "/mcp;x", "/./mcp", "/MCP"} {
		if resp := g.do(t, http.MethodGet, path, "", ""); resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	for _, path := range []string{"/healthz", "/readyz"} {
		if resp := g.do(t, http.MethodGet, path, "", ""); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
	two := g.do(t, http.MethodGet, "/status", "Bearer "+good, "")
	if two.StatusCode != http.StatusOK {
		t.Errorf("status with a token: %s", two.Status)
	}
}

// connect is a client with a token, or an error.
func (g *guarded) connect(t *testing.T, path, transport, token string, era protocol.Era) (*client.Client, error) {
	t.Helper()
	url := g.url + path
	if transport == "ws" {
		url, transport = "ws"+strings.TrimPrefix(url, "http"), ""
	}
	c, err := client.Connect(within(t), &client.Server{
		URL: url, Transport: transport, Header: http.Header{"Authorization": {"Bearer " + token}},
	}, &client.Options{Name: "guest", Version: "1", Era: &era})
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

// An endpoint is where a tool can be called, and how.
type endpoint struct {
	path, transport, tool string
	era                   protocol.Era
}

// use calls the tools behind endpoints with a token, and sees to it that another one is not taken there.
func (g *guarded) use(t *testing.T, token string, endpoints []endpoint) {
	t.Helper()
	for _, d := range endpoints {
		c, err := g.connect(t, d.path, d.transport, token, d.era)
		if err != nil {
			t.Errorf("%s %s: %v", d.path, d.era, err)
			continue
		}
		echo(t, c, d.tool)
		if _, err := g.connect(t, d.path, d.transport, token+"x", d.era); err == nil {
			t.Errorf("%s %s: a wrong token is taken", d.path, d.era)
		}
	}
}

func TestS27_HoldersOfTokensUseEveryEndpoint(t *testing.T) {
	g := guard(t, "")
	token := g.token(t, "bob")
	g.ready()
	g.use(t, token, []endpoint{
		{"/mcp", "http-only", "a_echo", protocol.Legacy},
		{"/mcp", "http-only", "a_echo", protocol.Modern},
		{"/servers/a/mcp", "http-only", "echo", protocol.Legacy},
		{"/servers/a/mcp", "http-only", "echo", protocol.Modern},
		{"/servers/a/sse", "sse-only", "echo", protocol.Legacy},
		{"/servers/a/ws", "ws", "echo", protocol.Legacy},
		{"/servers/a/ws", "ws", "echo", protocol.Modern},
	})
	resp := g.do(t, http.MethodPost, "/servers/a/call/echo", "Bearer "+token, `{"text":"hello"}`)
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || !strings.Contains(string(text), "hello") {
		t.Errorf("a tool call over plain HTTP: %s %s", resp.Status, text)
	}
}

func TestS27_S48_TokenThatIsRevokedIsRefusedAndEndsStreams(t *testing.T) {
	g := guard(t, "")
	token := g.token(t, "bob")
	g.ready()
	var streams []func() error // each returns when its stream has ended
	c, err := g.connect(t, "/servers/a/mcp", "http-only", token, protocol.Legacy)
	if err != nil {
		t.Fatal(err)
	}
	echo(t, c, "echo")
	sse := g.do(t, http.MethodGet, "/servers/a/sse", "Bearer "+token, "")
	streams = append(streams, drain(sse.Body))
	streams = append(streams, g.listen(t, token), g.background(t, token), g.socket(t, token))
	g.revoke(t, "bob")
	for i, ended := range streams {
		if err := ended(); err != nil {
			t.Errorf("stream %d: %v", i, err)
		}
	}
	if _, err := c.CallTool(within(t), "echo", map[string]string{"text": "x"}, nil); err == nil {
		t.Error("a call with the revoked token is answered")
	}
}

// drain returns what reads a body to its end.
func drain(body io.Reader) func() error {
	return func() error {
		_, err := io.Copy(io.Discard, body)
		return err
	}
}

// listen opens a subscription of the modern era.
func (g *guarded) listen(t *testing.T, token string) func() error {
	t.Helper()
	version := protocol.Latest.String()
	body := `{"jsonrpc":"2.0","id":1,"method":"` + protocol.MethodListen + `","params":{"notifications":{"toolsListChanged":true},"_meta":{"` +
		protocol.MetaProtocolVersion + `":"` + version + `","` + protocol.MetaClientInfo + `":{"name":"c","version":"1"},"` + protocol.MetaClientCapabilities + `":{}}}}`
	req, err := http.NewRequestWithContext(within(t), http.MethodPost, g.url+"/servers/a/mcp", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + token,
		protocol.HeaderVersion: version, protocol.HeaderMethod: protocol.MethodListen,
	} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		t.Fatalf("listen: %s %s", resp.Status, text)
	}
	return drain(resp.Body)
}

// background opens the stream of a legacy session.
func (g *guarded) background(t *testing.T, token string) func() error {
	t.Helper()
	params := `{"protocolVersion":"` + protocol.LatestLegacy.String() + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`
	resp := g.do(t, http.MethodPost, "/servers/a/mcp", "Bearer "+token, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":`+params+`}`)
	req, err := http.NewRequestWithContext(within(t), http.MethodGet, g.url+"/servers/a/mcp", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{
		"Accept": {"text/event-stream"}, "Authorization": {"Bearer " + token},
		http.CanonicalHeaderKey(protocol.HeaderSession): {resp.Header.Get(protocol.HeaderSession)},
	}
	stream, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stream.Body.Close() })
	if stream.StatusCode != http.StatusOK {
		t.Fatalf("background: %s", stream.Status)
	}
	return drain(stream.Body)
}

// socket opens a WebSocket.
func (g *guarded) socket(t *testing.T, token string) func() error {
	t.Helper()
	dialer := &ws.Client{URL: g.url + "/servers/a/ws", Header: http.Header{"Authorization": {"Bearer " + token}}}
	c, err := dialer.Dial(within(t), dragoman.Funcs{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return func() error {
		select {
		case <-c.Done():
			return nil
		case <-within(t).Done():
			return errors.New("it is open")
		}
	}
}

func TestS27_SessionsBelongToWhoHasOpenedThem(t *testing.T) {
	g := guard(t, "")
	alice, bob := g.token(t, "anna"), g.token(t, "bob")
	params := `{"protocolVersion":"` + protocol.LatestLegacy.String() + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`
	resp := g.do(t, http.MethodPost, "/servers/a/mcp", "Bearer "+alice, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":`+params+`}`)
	id := resp.Header.Get(protocol.HeaderSession)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete} {
		for who, want := range map[string]int{bob: http.StatusNotFound, "dgm_unknown0000000000": http.StatusUnauthorized} {
			req, err := http.NewRequestWithContext(within(t), method, g.url+"/servers/a/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"ping"}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = http.Header{
				"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"}, "Authorization": {"Bearer " + who},
				http.CanonicalHeaderKey(protocol.HeaderSession): {id},
			}
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != want {
				t.Errorf("%s of somebody else: %s, want %d", method, resp.Status, want)
			}
		}
	}
}

func TestS27_TokenFileThatCannotBeReadLetsNobodyElseIn(t *testing.T) {
	g := guard(t, "")
	token := g.token(t, "bob")
	if err := os.WriteFile(g.tokens, []byte("{broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Reload(); err == nil || !strings.Contains(err.Error(), "tokenFile") {
		t.Errorf("reload: %v", err)
	}
	if resp := g.do(t, http.MethodGet, "/status", "Bearer "+token, ""); resp.StatusCode != http.StatusOK {
		t.Errorf("who was let in before: %s", resp.Status)
	}
	if resp := g.do(t, http.MethodGet, "/status", "", ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("who has no token: %s", resp.Status)
	}
}

func TestS28_TokensGoToNoServer(t *testing.T) {
	seen := make(chan http.Header, 16)
	g := &guarded{tokens: filepath.Join(t.TempDir(), "tokens.json")}
	token := g.token(t, "alice")
	up := startBuiltin(t, protocol.Latest)
	web := tapHeaders(t, up, seen)
	g.running = begin(t, fmt.Sprintf("auth: {tokenFile: %q}\nservers:\n  a: {url: %q, passHeaders: {X-Team: X-Team}}\n", g.tokens, web))
	c, err := g.connect(t, "/servers/a/mcp", "http-only", token, protocol.Modern)
	if err != nil {
		t.Fatal(err)
	}
	echo(t, c, "echo")
	_ = c.Close()
	for len(seen) > 0 {
		if h := <-seen; strings.Contains(fmt.Sprint(h), token) {
			t.Errorf("the server sees the token: %v", h)
		}
	}
}

// tapHeaders puts something before a server that tells the headers of requests.
func tapHeaders(t *testing.T, url string, seen chan<- http.Header) string {
	t.Helper()
	to, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(to)
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case seen <- r.Header.Clone():
		default:
		}
		r.Host = to.Host
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// issued starts a gateway that lets in by tokens of an issuer, which it returns.
func issued(t *testing.T, more string) (*guarded, *authtest.Server) {
	t.Helper()
	issuer, stop := authtest.Start(nil)
	t.Cleanup(stop)
	g := &guarded{}
	g.running = begin(t, fmt.Sprintf("limits: {failedProofs: 1000000/s}\nauth:\n  url: https://gw.example.com\n  jwt: %s\n  introspection: {endpoint: %s/introspect, issuer: %s, clientId: client, clientSecret: secret}\nservers:\n  a: {url: %q}\n%s",
		issuer.Issuer, issuer.Issuer, issuer.Issuer, startBuiltin(t, protocol.LatestLegacy), more))
	return g, issuer
}

func TestS27_TokensOfAnIssuerCountForUsAlone(t *testing.T) {
	g, issuer := issued(t, "")
	const ours = "https://gw.example.com"
	other := authtest.NewKey("ES256")
	none := issuer.Claims(map[string]any{"aud": ours})
	for _, test := range []struct {
		name, token string
		status      int
	}{
		{"ours", issuer.Mint(map[string]any{"aud": ours}), http.StatusOK},
		{"ours, told by the issuer", issuer.MintOpaque(map[string]any{"aud": ours}), http.StatusOK},
		{"for what is asked for", issuer.Mint(map[string]any{"aud": []string{"x", ours + "/status"}}), http.StatusOK},
		{"for another server here", issuer.Mint(map[string]any{"aud": ours + "/servers/a/mcp"}), http.StatusUnauthorized},
		{"of a sibling", issuer.Mint(map[string]any{"aud": "https://gw2.example.com"}), http.StatusUnauthorized},
		{"of a sibling, told by the issuer", issuer.MintOpaque(map[string]any{"aud": "https://gw2.example.com"}), http.StatusUnauthorized},
		{"for nobody", issuer.Mint(map[string]any{"aud": nil}), http.StatusUnauthorized},
		{"expired", issuer.Mint(map[string]any{"aud": ours, "exp": time.Now().Add(-time.Hour).Unix()}), http.StatusUnauthorized},
		{"forged", other.Sign(map[string]any{"kid": issuer.Key().ID}, none), http.StatusUnauthorized},
		{"of another issuer", issuer.Mint(map[string]any{"aud": ours, "iss": "https://evil.example.com"}), http.StatusUnauthorized},
		{"opaque", "0123456789abcdef0123456789abcdef", http.StatusUnauthorized},
	} {
		resp := g.do(t, http.MethodGet, "/status", "Bearer "+test.token, "")
		challenge := resp.Header.Get("WWW-Authenticate")
		if resp.StatusCode != test.status {
			t.Errorf("%s: %s, %s", test.name, resp.Status, challenge)
		}
		if test.status == http.StatusUnauthorized && !strings.Contains(challenge, `resource_metadata="https://gw.example.com/.well-known/oauth-protected-resource/status"`) {
			t.Errorf("%s: %s", test.name, challenge)
		}
	}
	resp := g.do(t, http.MethodGet, auth.MetadataPath+"/servers/a/mcp", "", "")
	if text, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || !strings.Contains(string(text), `"authorization_servers":["`+issuer.Issuer+`"]`) {
		t.Errorf("metadata: %s %s", resp.Status, text)
	}
}

func TestTokensOfAnIssuerThatIsAwayAreNotJudged(t *testing.T) {
	g, issuer := issued(t, "")
	issuer.Leave(true)
	resp := g.do(t, http.MethodGet, "/status", "Bearer "+issuer.Mint(map[string]any{"aud": "https://gw.example.com"}), "")
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%s", resp.Status)
	}
}

func TestIssuerThatIsTakenOutLetsNobodyIn(t *testing.T) {
	g, issuer := issued(t, "")
	token := issuer.Mint(map[string]any{"aud": "https://gw.example.com"})
	if resp := g.do(t, http.MethodGet, "/status", "Bearer "+token, ""); resp.StatusCode != http.StatusOK {
		t.Fatalf("before: %s", resp.Status)
	}
	g.reload(t) // what is the same continues
	fetched := issuer.Count("keys")
	if resp := g.do(t, http.MethodGet, "/status", "Bearer "+issuer.Mint(map[string]any{"aud": "https://gw.example.com"}), ""); resp.StatusCode != http.StatusOK || issuer.Count("keys") != fetched {
		t.Errorf("after a reload: %s, keys were fetched %d times, before %d", resp.Status, issuer.Count("keys"), fetched)
	}
	file, _ := g.load()
	g.write(fmt.Sprintf("auth: {tokens: 0123456789abcdef}\nservers:\n  a: {url: %q}\n", file.Servers["a"].URL))
	g.reload(t)
	if resp := g.do(t, http.MethodGet, "/status", "Bearer "+token, ""); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("after it was taken out: %s", resp.Status)
	}
}
