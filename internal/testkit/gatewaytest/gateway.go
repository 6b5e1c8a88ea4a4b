package gatewaytest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// The ways into a gateway.
const (
	HTTP = "http"
	SSE  = "sse"
	WS   = "ws"
)

// Eras are both.
var Eras = []protocol.Era{protocol.Legacy, protocol.Modern}

// A Gateway is the program while it serves one server, by "dragoman run", or those
// of a file, by "dragoman serve".
type Gateway struct {
	*Process
	Base string // of its URLs
	File string // its configuration; "" if it runs one server

	t     testing.TB
	probe string // server that must work at the end of the test; "" for any
	left  bool   // what it is at the end of the test is the test's business
}

// address finds where it listens.
var address = regexp.MustCompile(`http://(127\.0\.0\.1|localhost):\d+`)

// Run serves one server as "dragoman run" does. args end with the server.
func Run(t testing.TB, args ...string) *Gateway {
	t.Helper()
	return open(t, &Gateway{t: t}, Launch{}, append([]string{"run", "--listen", "127.0.0.1:0"}, args...))
}

// Options says how a gateway is started.
type Options struct {
	Config Object   // what stands in the file
	File   string   // where; "" for a file of the test
	Flags  []string // further ones
	Listen string   // "" for a free port
	Launch Launch

	// Probe is the server whose echo must work at the end of the test. If
	// empty, it is "other" if there is one, or else "fault".
	Probe string
}

// Serve serves the servers of a file as "dragoman serve" does.
func Serve(t testing.TB, o *Options) *Gateway {
	t.Helper()
	g := &Gateway{t: t, File: o.File, probe: o.Probe}
	if g.File == "" {
		g.File = filepath.Join(t.TempDir(), "dragoman.json")
	}
	g.Write(o.Config)
	if g.probe == "" {
		g.probe = "fault"
		if servers, ok := o.Config["servers"].(Object); ok && servers["other"] != nil {
			g.probe = "other"
		}
	}
	listen := o.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	return open(t, g, o.Launch, append([]string{"serve", g.File, "--listen", listen}, o.Flags...))
}

// Write writes the configuration.
func (g *Gateway) Write(config Object) {
	g.t.Helper()
	WriteConfig(g.t, g.File, config)
}

// WriteConfig writes a configuration in one go, as careful editors do.
func WriteConfig(t testing.TB, file string, config Object) {
	t.Helper()
	text, err := json.MarshalIndent(config, "", "  ")
	if err == nil {
		err = os.WriteFile(file+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, g *Gateway, with Launch, args []string) *Gateway {
	t.Helper()
	g.Process = Start(t, with, args...)
	t.Cleanup(g.end)
	g.Base = address.FindString(g.Await("ready: "))
	if g.Base == "" {
		t.Fatalf("it does not say where it is:\n%s", g.Stderr())
	}
	return g
}

// Leave says that the state of the gateway at the end is the test's business.
func (g *Gateway) Leave() { g.left = true }

// end fails the test unless the gateway is well, and ends it in good order.
func (g *Gateway) end() {
	if g.left || g.t.Failed() {
		return
	}
	g.Well()
	children, _ := Children(g.PID())
	g.Signal(syscall.SIGTERM)
	if status := g.Wait(Patience); status != 0 {
		g.t.Errorf("it ends with status %d", status)
	}
	if err := Until(Patience, func() error { return Gone(children...) }); err != nil {
		g.t.Error(err)
	}
	if err := g.Unwell(); err != nil {
		g.t.Error(err)
	}
}

// Well fails the test unless the gateway is well: it says so, another client is
// served, no process waits to be buried, and nothing in its log says otherwise.
func (g *Gateway) Well() {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	if status, body := g.Get("/healthz"); status != http.StatusOK {
		g.t.Errorf("/healthz says %d %s", status, body)
	}
	for _, era := range Eras {
		c, err := Dial(ctx, g.Dialer(g.probe, HTTP), "probe", era)
		if err != nil {
			g.t.Errorf("another %s client: %v", era, err)
			continue
		}
		if got, err := c.Tool(ctx, "echo", Object{"text": "well"}); err != nil || got != "well" {
			g.t.Errorf("another %s client's echo: %q, error %v", era, got, err)
		}
		_ = c.Conn.Close()
	}
	if err := Until(Patience, func() error {
		if _, dead := Children(g.PID()); len(dead) > 0 {
			return fmt.Errorf("nobody waits for the processes %v", dead)
		}
		return nil
	}); err != nil {
		g.t.Error(err)
	}
	if err := g.Unwell(); err != nil {
		g.t.Error(err)
	}
}

// URL returns where a server is found: path is mcp, sse, ws or call. The server ""
// is all of them at once.
func (g *Gateway) URL(server, path string) string {
	if server != "" && g.File != "" {
		return g.Base + "/servers/" + server + "/" + path
	}
	return g.Base + "/" + path
}

// Dialer returns how a client comes to a server.
func (g *Gateway) Dialer(server, way string) dragoman.Dialer {
	switch way {
	case SSE:
		return &sse.Client{URL: g.URL(server, "sse")}
	case WS:
		return &ws.Client{URL: strings.Replace(g.URL(server, "ws"), "http", "ws", 1)}
	}
	// A session that is lost must be noticed.
	return &streamable.Client{URL: g.URL(server, "mcp"), Timeout: -1}
}

// Enter opens the conversation of a client, which leaves when the test is over.
func (g *Gateway) Enter(ctx context.Context, server, way string, era protocol.Era) *Client {
	g.t.Helper()
	c, err := Dial(ctx, g.Dialer(server, way), "guest", era)
	if err != nil {
		g.t.Fatal(err)
	}
	g.t.Cleanup(func() { _ = c.Conn.Close() })
	return c
}

// web makes single requests, on connections of their own.
var web = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: Patience}

// Get returns the status and the body of a page, or 0 and the error.
func (g *Gateway) Get(path string) (int, string) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	return fetch(ctx, web, g.Base+path)
}

func fetch(ctx context.Context, client *http.Client, url string) (int, string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err.Error()
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(body)
}

// Post posts a message and returns the response, whose body the caller closes.
func Post(ctx context.Context, url string, header http.Header, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for name, values := range header {
		req.Header[name] = values
	}
	return web.Do(req)
}

// Hurry returns a context for what must not take longer than so much, or than the
// same on a busy machine.
func Hurry(t testing.TB, limit time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Slow(limit))
	t.Cleanup(cancel)
	return ctx
}

// StrictVariable names the variable that, if set, has everything be as long, as much and as
// many as it is named, for a machine that has nothing else to do.
const StrictVariable = "DRAGOMAN_STRICT"

func strict() bool { return os.Getenv(StrictVariable) != "" }

// Slow returns how long something may take here that takes so long elsewhere.
func Slow(limit time.Duration) time.Duration {
	if strict() {
		return limit
	}
	return 10 * limit
}

// Exceeds reports whether something took longer than it may. How long things take on a machine
// with more to do says nothing, so there nothing takes too long.
func Exceeds(took, limit time.Duration) bool { return strict() && took > limit }

// Few returns how much of something is enough here.
func Few(n int) int { return Size(n, n/30) }

// Size returns full, or fewer on a machine that has more to do.
func Size(full, fewer int) int {
	if strict() {
		return full
	}
	return fewer
}
