package serve

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// An output is what a console has printed. done is closed when a part of that is there.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
	part string
	once sync.Once
	done chan struct{}
}

// patience is how long anything may take that is expected to happen.
const patience = 30 * time.Second

func awaitOutput(part string) (*output, *term.Console) {
	h := &output{part: part, done: make(chan struct{})}
	return h, term.ConsoleOn(h)
}

func (h *output) Write(line []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text.Write(line)
	if strings.Contains(h.text.String(), h.part) {
		h.once.Do(func() { close(h.done) })
	}
	return len(line), nil
}

func (h *output) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.text.String()
}

func (h *output) await(t *testing.T) string {
	t.Helper()
	select {
	case <-h.done:
	case <-time.After(patience):
		t.Fatalf("it does not say %q: %s", h.part, h)
	}
	return h.String()
}

func TestS61_RunLeavesNothingBehindInItsProcess(t *testing.T) {
	peertest.NoLeak(t)
	l, err := stdio.Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "upstream"))
	if err != nil {
		t.Fatal(err)
	}
	upstream := &stdio.Server{Acceptor: builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.LatestLegacy}})}
	var running sync.WaitGroup
	running.Go(func() { _ = upstream.Serve(l) }) // until Close
	h, v := awaitOutput("configuration of a client")
	s := &flags.Settings{URL: "unix:" + l.Addr().String(), Era: "auto", Listen: []string{"unix:" + filepath.Join(t.TempDir(), "s")}}
	o, err := s.Server("auto", v)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	running.Go(func() { ended <- serveAll(ctx, s, o, v) }) // until cancel
	said := h.await(t)
	if !strings.Contains(said, `"args":["connect","unix:/`) || !strings.Contains(said, "serving upstream (unix, legacy era)") {
		t.Errorf("it says %s", said)
	}
	peertest.CheckEcho(t, &stdio.Address{Network: "unix", Address: strings.TrimPrefix(s.Listen[0], "unix:")}, protocol.Modern)
	peertest.CheckEcho(t, &stdio.Address{Network: "unix", Address: strings.TrimPrefix(s.Listen[0], "unix:")}, protocol.Legacy)
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("it ends with %v", err)
	}
	_ = upstream.Close()
	running.Wait()
	if _, err := os.Lstat(strings.TrimPrefix(s.Listen[0], "unix:")); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

func TestAddressesAreListenedOn(t *testing.T) {
	dir := t.TempDir()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	for _, test := range []struct {
		address, network string
		http             bool
		fail             string
	}{
		{"127.0.0.1:0", "tcp", true, ""},
		{"tcp:127.0.0.1:0", "tcp", false, ""},
		{"tcp://127.0.0.1:0", "tcp", false, ""},
		{"unix:" + filepath.Join(dir, "a"), "unix", false, ""},
		{"http+unix:" + filepath.Join(dir, "b"), "unix", true, ""},
		{"http://127.0.0.1:0", "", false, "is a URL; write HOST:PORT"},
		{"unix:", "", false, "has no path"},
		{"nowhere", "", false, "has no port; write nowhere:8808"},
		{busy.Addr().String(), "", false, "address already in use; choose another address with --listen"},
		{"unix:" + filepath.Join(dir, "no", "such", "folder"), "", false, "cannot listen on"},
	} {
		list, err := openListeners(t.Context(), []config.Listen{{Address: "127.0.0.1:0"}, {Address: test.address}}, &config.Auth{}, slog.New(slog.DiscardHandler))
		if test.fail != "" {
			if err == nil || !strings.Contains(err.Error(), test.fail) {
				t.Errorf("%s: %v, want %q", test.address, err, test.fail)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.address, err)
			continue
		}
		e := list[1]
		if e.Addr().Network() != test.network || e.http != test.http || e.exposed() {
			t.Errorf("%s is %s, HTTP: %v, exposed: %v", test.address, e.Addr().Network(), e.http, e.exposed())
		}
		if e.unix != "" && runtime.GOOS != "windows" {
			if info, err := os.Stat(e.unix); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%s: %v %v, want it for the owner alone", test.address, info, err)
			}
		}
		closeListeners(list)
	}
}

func TestFastPathIsTurnedOffByAVariable(t *testing.T) {
	for _, test := range []struct {
		text string
		off  bool
		fail string
	}{
		{"", false, ""},
		{"on", false, ""},
		{"off", true, ""},
		{"OFF", true, ""},
		{"0", false, `DRAGOMAN_FASTPATH is "0": use on or off`},
	} {
		t.Setenv("DRAGOMAN_FASTPATH", test.text)
		list, err := openListeners(t.Context(), []config.Listen{{Address: "127.0.0.1:0"}}, &config.Auth{}, slog.New(slog.DiscardHandler))
		if test.fail != "" {
			if err == nil || err.Error() != test.fail {
				t.Errorf("%q: %v, want %q", test.text, err, test.fail)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%q: %v", test.text, err)
		}
		var isFast bool
		f := &ingress{listeners: list, auth: &config.Auth{}, shutdown: func(context.Context, ...func(context.Context) error) error { return nil }}
		f.handler = func(*listener) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, isFast = w.(interface{ OnLeave(f func()) }) // of internal/wire/fastpost
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { // ends with ctx
			if err := f.serve(ctx, term.ConsoleOn(io.Discard)); err != nil {
				t.Errorf("%q: %v", test.text, err)
			}
		})
		resp, err := http.Post("http://"+list[0].Addr().String(), "text/plain", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		cancel()
		running.Wait()
		if isFast == test.off {
			t.Errorf("%q: the fast path answers: %v", test.text, isFast)
		}
	}
}

func testEndpoints(t *testing.T, s *flags.Settings) (string, error) {
	t.Helper()
	s.Era = "auto"
	v := term.ConsoleOn(io.Discard)
	o, err := s.Server("auto", v)
	if err != nil {
		t.Fatal(err)
	}
	f := &ingress{}
	g, err := newGateway(s, f, o, v)
	if err != nil {
		o.Close()
		return "", err
	}
	web := httptest.NewUnstartedServer(nil)
	web.Config.Handler = f.handler(&listener{Listener: web.Listener})
	web.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := g.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		web.Close()
		o.Close()
	})
	return web.URL, nil
}

func TestPublicURLAndOriginsAreAccepted(t *testing.T) {
	t.Parallel()
	s := &flags.Settings{PublicURL: "https://mcp.example.com/tools/", Origins: []string{"https://app.example.com"}}
	url, err := testEndpoints(t, s)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		host, origin string
		want         int
	}{
		{"mcp.example.com", "", 200},
		{"mcp.example.com", "https://mcp.example.com", 200},
		{"mcp.example.com", "https://app.example.com", 200},
		{"localhost", "https://app.example.com", 200},
		{"mcp.example.com", "https://other.example.com", 403},
		{"other.example.com", "", 403},
	} {
		if got := peertest.HelloStatus(t, url+"/mcp", test.host, test.origin); got != test.want {
			t.Errorf("Host %s, Origin %s: %d, want %d", test.host, test.origin, got, test.want)
		}
	}
	l, err := openListeners(t.Context(), []config.Listen{{Address: "127.0.0.1:0"}}, &config.Auth{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer closeListeners(l)
	if got := strings.Join(l[0].places(s.PublicURL, &gateway.Backend{}), " "); !strings.Contains(got, "https://mcp.example.com/tools/mcp ") || !strings.Contains(got, "wss://mcp.example.com/tools/ws ") {
		t.Errorf("the places are %s", got)
	}
	for _, bad := range []*flags.Settings{{PublicURL: "mcp.example.com"}, {PublicURL: "ftp://h"}, {Origins: []string{"app.example.com"}}, {Origins: []string{"https://h/path"}}} {
		if _, err := testEndpoints(t, bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestAdditionalPathsLeadToTheSameEndpoints(t *testing.T) {
	t.Parallel()
	url, err := testEndpoints(t, &flags.Settings{MCPPath: "/stream", SSEPath: "/old/events", MessagePath: "/message", HealthPaths: []string{"/ping"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/mcp", "/stream"} {
		peertest.CheckEcho(t, &streamable.Client{URL: url + path}, protocol.Modern)
	}
	for _, path := range []string{"/sse", "/old/events"} {
		peertest.CheckEcho(t, &sse.Client{URL: url + path}, protocol.Legacy)
	}
	for _, path := range []string{"/healthz", "/ping"} {
		if resp, err := http.Get(url + path); err != nil || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %v %v", path, resp, err)
		} else {
			_ = resp.Body.Close()
		}
	}
	for _, bad := range []*flags.Settings{{MCPPath: "/ws"}, {SSEPath: "/mcp"}, {HealthPaths: []string{"health"}}, {MCPPath: "/{x}"}, {MCPPath: "/call/x"}, {MCPPath: "/a", SSEPath: "/a"}} {
		if _, err := testEndpoints(t, bad); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// Paths that a proxy may read in another way are left to the handler, which refuses them.
func TestAdditionalPathsAreTakenAsTheyAreWritten(t *testing.T) {
	var seen string
	p := &paths{http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.URL.EscapedPath() }), map[string]string{"/mine/mcp": "/mcp"}}
	for path, want := range map[string]string{
		"/mine/mcp": "/mcp", "/mine/mcp/": "/mcp", "/mine/mcp?x=%2f": "/mcp", "/mine%2fmcp": "/mine%2fmcp", "/mine%2Fmcp": "/mine%2Fmcp", "/mine/mcp%2f": "/mine/mcp%2f", "/%6dine/mcp": "/mcp",
	} {
		p.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, path, nil))
		if seen != want {
			t.Errorf("%s leads to %s, want %s", path, seen, want)
		}
	}
}
