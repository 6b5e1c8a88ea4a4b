package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/observe"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"log/slog"
)

// patience is how long anything may take, on a busy machine.
const patience = 30 * time.Second

// startBuiltin starts the built-in server in one revision, and returns its URL.
func startBuiltin(t *testing.T, r protocol.Revision) string {
	t.Helper()
	server := builtin.New(&builtin.Options{Revisions: []protocol.Revision{r}})
	endpoint := &streamable.Server{}
	if r.Era() == protocol.Modern {
		endpoint.Requests = server.Requests()
	} else {
		endpoint.Sessions = server
	}
	web := httptest.NewServer(endpoint)
	t.Cleanup(func() {
		_ = server.Close()
		_ = endpoint.Shutdown(within(t))
		web.Close()
	})
	return web.URL
}

// within returns a context that ends when it must be over, also after the test.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	return ctx
}

// A running is a gateway with its file.
type running struct {
	*gateway.Gateway
	t    *testing.T
	path string // of the file
	url  string
}

// begin starts a gateway for the text of a configuration.
func begin(t *testing.T, text string) *running {
	t.Helper()
	peertest.NoLeak(t)
	g := &running{t: t, path: filepath.Join(t.TempDir(), "dragoman.yaml")}
	g.write(text)
	g.start(&gateway.Options{Name: "test", Version: "1"})
	return g
}

func (g *running) write(text string) {
	g.t.Helper()
	if err := os.WriteFile(g.path, []byte(text), 0o600); err != nil {
		g.t.Fatal(err)
	}
}

func (g *running) load() (*config.File, *config.Report) { return config.Load(nil, g.path) }

// start starts the gateway, which ends with the test.
func (g *running) start(opts *gateway.Options) {
	g.t.Helper()
	if opts.Load == nil {
		opts.Load = g.load
	}
	file, report := g.load()
	for _, p := range report.Errors {
		if p.Server == "" {
			g.t.Fatal(report)
		}
	}
	made, err := observe.NewGateway(opts, file, slog.LevelInfo)
	if err != nil {
		g.t.Fatal(err)
	}
	g.Gateway = made
	web := httptest.NewServer(made.Handler(nil))
	g.url = web.URL
	g.t.Cleanup(func() {
		if err := made.Shutdown(within(g.t)); err != nil {
			g.t.Error(err)
		}
		web.Close()
	})
}

// join connects a client to a path of the gateway.
func (g *running) join(path string, era protocol.Era) *client.Client {
	g.t.Helper()
	return g.joinAs(path, &client.Options{Name: "guest", Version: "1"}, era)
}

func (g *running) joinAs(path string, opts *client.Options, era protocol.Era) *client.Client {
	g.t.Helper()
	opts.Era = &era
	c, err := client.Connect(within(g.t), &client.Server{URL: g.url + path, Transport: "http-only"}, opts)
	if err != nil {
		g.t.Fatalf("%s, %s era: %v", path, era, err)
	}
	g.t.Cleanup(func() { _ = c.Close() })
	return c
}

var eras = []protocol.Era{protocol.Legacy, protocol.Modern}

// ready waits until all servers are.
func (g *running) ready() {
	g.t.Helper()
	for limit := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		all := g.Status().Servers
		if !slices.ContainsFunc(all, func(s statusOf) bool { return s.State != "ready" && !s.Broken }) {
			return
		}
		if time.Now().After(limit) {
			g.t.Fatalf("not all servers are ready: %+v", all)
		}
	}
}

func (g *running) get(path string) (status int, body string) {
	g.t.Helper()
	return send(g.t, http.DefaultClient, http.MethodGet, g.url+path)
}

func send(t *testing.T, c *http.Client, method, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// echo calls a tool that sends its text back.
func echo(t *testing.T, c *client.Client, tool string) {
	t.Helper()
	r, err := c.CallTool(within(t), tool, map[string]string{"text": "hello"}, nil)
	if err != nil {
		t.Fatalf("%s: %v", tool, err)
	}
	if r.Text() != "hello" {
		t.Fatalf("%s: got %q", tool, r.Text())
	}
}

func toolNames(t *testing.T, c *client.Client) []string {
	t.Helper()
	list, err := c.Tools(within(t))
	if err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(list))
	for i, tool := range list {
		names[i] = tool.Name
	}
	return names
}

// decode reads JSON text.
func decode(t *testing.T, text string, v any) {
	t.Helper()
	if err := json.NewDecoder(strings.NewReader(text)).Decode(v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// A session is one of a legacy client that speaks for itself.
type session struct{ id string }

// open makes the handshake.
func open(t *testing.T, url string) *session {
	t.Helper()
	s := &session{}
	params := `{"protocolVersion":"` + protocol.LatestLegacy.String() + `","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`
	if status, body := s.call(t, url, protocol.MethodInitialize, params); status != http.StatusOK || s.id == "" {
		t.Fatalf("initialize: %d %s", status, body)
	}
	if status, body := s.post(t, url, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); status != http.StatusAccepted {
		t.Fatalf("initialized: %d %s", status, body)
	}
	return s
}

func (s *session) call(t *testing.T, url, method, params string) (status int, body string) {
	t.Helper()
	return s.post(t, url, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`)
}

func (s *session) post(t *testing.T, url, text string) (status int, body string) {
	t.Helper()
	return s.postWith(t, url, text, nil)
}

func (s *session) postWith(t *testing.T, url, text string, headers map[string]string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), http.MethodPost, url, strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if s.id != "" {
		req.Header.Set(protocol.HeaderSession, s.id)
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if id := resp.Header.Get(protocol.HeaderSession); id != "" {
		s.id = id
	}
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(all)
}

// eventually waits for what must come soon.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatalf("timed out waiting for: %s", what)
		}
	}
}
