package oauth_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/oauth"
)

// publicServer is where everybody is who may be asked.
const publicServer = "93.184.216.34:443"

// An internet has a server with a public name, https://example.com/mcp, which may say
// anything about who issues its tokens, and remembers who was dialed.
type internet struct {
	resource, metadata map[string]any // the documents
	announced          string         // resource_metadata of the challenge
	refuses            bool           // every token
	serve              map[string]http.HandlerFunc

	secure *httptest.Server
	lookup map[string]int
	tokens int

	mu     sync.Mutex
	dialed []string
	posted []string
}

func newInternet(t *testing.T) *internet {
	n := &internet{}
	n.secure = httptest.NewTLSServer(n)
	t.Cleanup(n.secure.Close)
	n.reset()
	return n
}

// reset has it as it was at the beginning.
func (n *internet) reset() {
	const issuer = "https://example.com"
	n.announced, n.refuses = issuer+"/.well-known/oauth-protected-resource/mcp", false
	n.resource = map[string]any{"resource": issuer + "/mcp", "authorization_servers": []string{issuer}}
	n.metadata = map[string]any{
		"issuer": issuer, "authorization_endpoint": issuer + "/authorize", "token_endpoint": issuer + "/token",
		"registration_endpoint": issuer + "/register", "code_challenge_methods_supported": []string{"S256"},
		"authorization_response_iss_parameter_supported": true,
	}
	n.lookup, n.dialed, n.posted = map[string]int{}, nil, nil
	document := func(doc map[string]any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(doc)
		}
	}
	n.serve = map[string]http.HandlerFunc{
		"/.well-known/oauth-protected-resource/mcp": document(n.resource),
		"/.well-known/oauth-authorization-server":   document(n.metadata),
		"/register": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `{"client_id":"we"}`)
		},
		"/token": func(w http.ResponseWriter, _ *http.Request) {
			n.tokens++
			fmt.Fprintf(w, `{"access_token":"token%d","token_type":"Bearer"}`, n.tokens)
		},
	}
}

// ServeHTTP is the server, and whoever else has its address.
func (n *internet) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost {
		n.mu.Lock()
		n.posted = append(n.posted, r.URL.Path)
		n.mu.Unlock()
	}
	if h := n.serve[r.URL.Path]; h != nil {
		h(w, r)
		return
	}
	http.NotFound(w, r)
}

// names are those that are not the server's. The last address stands for all further
// questions.
var names = map[string][]string{
	"local.example": {"127.0.0.1"}, "inside.example": {"10.0.0.1"}, "cloud.example": {"169.254.169.254"},
	"mapped.example": {"::ffff:127.0.0.1"}, "nat.example": {"64:ff9b::7f00:1"}, "tunnel.example": {"2002:7f00:1::"},
	"rebind.example": {"93.184.216.34", "127.0.0.1"},
}

func (n *internet) resolve(_ context.Context, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if host == "example.com" {
		return []netip.Addr{netip.MustParseAddrPort(publicServer).Addr()}, nil
	}
	list := names[host]
	if list == nil {
		return nil, errors.New("no such host")
	}
	i := min(n.lookup[host], len(list)-1)
	n.lookup[host]++
	return []netip.Addr{netip.MustParseAddr(list[i])}, nil
}

func (n *internet) dial(ctx context.Context, network, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, address)
	n.mu.Unlock()
	if address != publicServer {
		return nil, errors.New("this is a trap")
	}
	return (&net.Dialer{}).DialContext(ctx, network, n.secure.Listener.Addr().String())
}

// RoundTrip is the resource.
func (n *internet) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer token") || n.refuses {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer resource_metadata=%q", n.announced))
		w.WriteHeader(http.StatusUnauthorized)
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// signIn asks the server, with a user who would sign in at once. It returns the pages that
// were opened.
func (n *internet) signIn(t *testing.T) (pages int, err error) {
	t.Helper()
	var opened atomic.Int32
	c := n.client(t, &opened)
	resp, err := c.Get("https://example.com/mcp")
	if err == nil {
		_ = resp.Body.Close()
	}
	return int(opened.Load()), err
}

// client returns a client that signs in.
func (n *internet) client(t *testing.T, opened *atomic.Int32) *http.Client {
	t.Helper()
	s := newSource(t, &oauth.Config{Server: "https://example.com/mcp", Wait: true, Prompt: func(p oauth.Prompt) bool {
		opened.Add(1)
		u, _ := url.Parse(p.URL)
		q := url.Values{"state": {u.Query().Get("state")}, "iss": {"https://example.com"}, "code": {"code"}}
		go func() {
			if resp, err := http.Get(u.Query().Get("redirect_uri") + "?" + q.Encode()); err == nil {
				_ = resp.Body.Close()
			}
		}()
		return true
	}})
	trusting := n.secure.Client().Transport.(*http.Transport).TLSClientConfig
	s.UseNetwork(&oauth.Network{Resolve: n.resolve, Dial: n.dial, TLS: trusting})
	return &http.Client{Transport: s.Transport(n)}
}

// check reports whoever was asked who must not be.
func (n *internet) check(t *testing.T) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, address := range n.dialed {
		if address != publicServer {
			t.Errorf("%s is dialed", address)
		}
	}
}

// traps are URLs that lead inside, or nowhere.
var traps = []string{
	"http://169.254.169.254/latest/meta-data", "https://169.254.169.254/latest/meta-data", "http://127.0.0.1:8080/", "https://127.0.0.1/", "https://localhost/",
	"https://[::1]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/", "https://0x7f000001/", "https://2130706433/", "https://0177.0.0.1/", "https://127.1/",
	"https://[2002:7f00:1::]/", "https://[64:ff9b::7f00:1]/", "https://[fec0::1]/", "https://[fe80::1%25eth0]/", "https://[fd00::1]/", "https://10.0.0.1/", "https://0.0.0.0/",
	"https://100.100.100.200/", "http://example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/", "https://user@example.com/",
	"https://example.com\\@127.0.0.1/", "https://", "//127.0.0.1/", "javascript:alert(1)", "data:text/html,x", "--upload-pack=x", "http://a/$(touch m)",
	"https://example.com/$(touch m)", "https://example.com/\nx", "https://example.com/\x00", "https://example.com/" + strings.Repeat("x", 9<<10),
}

// trapNames are URLs that only a resolver knows to lead inside.
var trapNames = []string{
	"https://local.example/", "https://inside.example/", "https://cloud.example/", "https://mapped.example/", "https://nat.example/", "https://tunnel.example/",
}

// However a server names an address inside, nobody is asked there, and nobody is asked to
// sign in.
func TestS29_MetadataThatLeadsInsideIsRefused(t *testing.T) {
	for _, field := range []struct {
		name string
		put  func(n *internet, at string)
	}{
		{"resource_metadata", func(n *internet, at string) { n.announced = at }},
		{"authorization_servers", func(n *internet, at string) { n.resource["authorization_servers"] = []string{at} }},
		{"authorization_endpoint", func(n *internet, at string) { n.metadata["authorization_endpoint"] = at }},
		{"token_endpoint", func(n *internet, at string) { n.metadata["token_endpoint"] = at }},
		{"registration_endpoint", func(n *internet, at string) { n.metadata["registration_endpoint"] = at }},
		{"revocation_endpoint", func(n *internet, at string) { n.metadata["revocation_endpoint"] = at }},
		{"device_authorization_endpoint", func(n *internet, at string) { n.metadata["device_authorization_endpoint"] = at }},
	} {
		urls := traps
		if slices.Contains([]string{"resource_metadata", "authorization_servers", "registration_endpoint"}, field.name) {
			urls = append(slices.Clone(traps), trapNames...)
		}
		t.Run(field.name, func(t *testing.T) {
			n := newInternet(t)
			for _, at := range urls {
				if field.name == "resource_metadata" && strings.HasPrefix(at, "https://example.com/") {
					continue // it is the server itself
				}
				n.reset()
				field.put(n, at)
				pages, err := n.signIn(t)
				if err == nil || pages != 0 {
					t.Errorf("%.60q: %d pages, the error is %v", at, pages, err)
				}
				if len(n.posted) != 0 && !strings.HasPrefix(field.name, "registration") {
					t.Errorf("%.60q: there are posts to %q", at, n.posted)
				}
				if err != nil && (len(err.Error()) > 600 || strings.ContainsAny(err.Error(), "\n\x00")) {
					t.Errorf("%.60q: the error is %q", at, err)
				}
				n.check(t)
			}
		})
	}
}

// A code and its verifier go nowhere but where the token endpoint may be.
func TestS29_ACodeIsNotSentInside(t *testing.T) {
	n := newInternet(t)
	for _, at := range append(slices.Clone(trapNames), "https://rebind.example/") {
		n.reset()
		n.lookup["rebind.example"] = 1 // it has been asked for before
		n.metadata["token_endpoint"] = at + "token"
		if _, err := n.signIn(t); err == nil || !strings.Contains(err.Error(), "address not allowed") {
			t.Errorf("%s: the error is %v", at, err)
		}
		n.check(t)
	}
}

func TestTheInternetWorksWithoutTraps(t *testing.T) {
	n := newInternet(t)
	pages, err := n.signIn(t)
	if err != nil || pages != 1 || !slices.Contains(n.posted, "/token") {
		t.Errorf("%d pages, posts to %q, %v", pages, n.posted, err)
	}
}

// A server that refuses every token has the user asked once, not with each request.
func TestAServerThatRefusesNewTokensOpensOneWindow(t *testing.T) {
	n := newInternet(t)
	n.refuses = true
	var opened atomic.Int32
	c := n.client(t, &opened)
	for range 3 {
		resp, err := c.Get("https://example.com/mcp")
		if err == nil {
			_ = resp.Body.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "does not accept the token") {
			t.Errorf("the error is %v", err)
		}
	}
	if opened.Load() != 1 {
		t.Errorf("%d windows", opened.Load())
	}
	n.refuses = false
	if resp, err := c.Get("https://example.com/mcp"); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("once it accepts it: %v", err)
	}
	n.refuses = true // it was good once: it has ended
	if resp, err := c.Get("https://example.com/mcp"); err == nil {
		_ = resp.Body.Close()
	}
	if opened.Load() != 2 {
		t.Errorf("then %d windows", opened.Load())
	}
}

func TestS29_DocumentsThatAreNotOfTheServer(t *testing.T) {
	n := newInternet(t)
	const metadata, resource = "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp"
	endless := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"issuer":"`)
		for chunk := strings.Repeat("x", 64<<10); ; {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	}
	bomb := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, `{"issuer":"`)
		for range 64 { // 4 MiB
			_, _ = io.WriteString(z, strings.Repeat("x", 64<<10))
		}
		_ = z.Close()
	}
	inside := http.RedirectHandler("https://127.0.0.1/", http.StatusFound).ServeHTTP
	for _, test := range []struct {
		name   string
		change func(n *internet)
		want   string
	}{
		{"another issuer", func(n *internet) { n.metadata["issuer"] = "https://evil.example" }, "its issuer is"},
		{"an issuer with a slash more", func(n *internet) { n.metadata["issuer"] = "https://example.com/" }, "its issuer is"},
		{"an issuer in capitals", func(n *internet) { n.metadata["issuer"] = "https://EXAMPLE.com" }, "its issuer is"},
		{"no issuer", func(n *internet) { delete(n.metadata, "issuer") }, "its issuer is"},
		{"an issuer that is no text", func(n *internet) { n.metadata["issuer"] = []int{1} }, `"issuer" is not a string`},
		{"another resource", func(n *internet) { n.resource["resource"] = "https://other.example/mcp" }, "is not the server"},
		{"a resource with a longer name", func(n *internet) { n.resource["resource"] = "https://example.com/mcp2" }, "is not the server"},
		{"a resource with a shorter name", func(n *internet) { n.resource["resource"] = "https://example.com/mc" }, "is not the server"},
		{"a resource below", func(n *internet) { n.resource["resource"] = "https://example.com/mcp/x" }, "is not the server"},
		{"a resource without TLS", func(n *internet) { n.resource["resource"] = "http://example.com/mcp" }, "is not the server"},
		{"no resource", func(n *internet) { delete(n.resource, "resource") }, `"resource" is missing`},
		{"no PKCE", func(n *internet) { n.metadata["code_challenge_methods_supported"] = []string{"plain"} }, "PKCE"},
		{"metadata without an end", func(n *internet) { n.serve[metadata] = endless }, "more than 1048576 bytes"},
		{"resource metadata without an end", func(n *internet) { n.serve[resource] = endless }, "more than 1048576 bytes"},
		{"a compressed bomb", func(n *internet) { n.serve[metadata] = bomb }, "more than 1048576 bytes"},
		{"metadata that leads inside", func(n *internet) { n.serve[metadata] = inside }, "leads elsewhere"},
		{"resource metadata that leads inside", func(n *internet) { n.serve[resource] = inside }, "leads elsewhere"},
		{"a registration that leads inside", func(n *internet) { n.serve["/register"] = inside }, "not followed"},
		{"a registration without an end", func(n *internet) { n.serve["/register"] = endless }, "more than 1048576 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			n.reset()
			test.change(n)
			pages, err := n.signIn(t)
			if err == nil || !strings.Contains(err.Error(), test.want) || pages != 0 || slices.Contains(n.posted, "/token") {
				t.Errorf("%d pages, posts to %q, the error is %v, want %q", pages, n.posted, err, test.want)
			}
			n.check(t)
		})
	}
}
