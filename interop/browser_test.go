//go:build browser

package interop_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// startBrowser starts a browser without a window, in which all names that end in
// .example are this machine.
func startBrowser(t *testing.T) context.Context {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome"}
	i := slices.IndexFunc(names, func(name string) bool {
		_, err := exec.LookPath(name)
		return err == nil
	})
	if i < 0 {
		t.Fatalf("there is no browser: none of %s is on the PATH; on Debian, apt-get install chromium brings one", strings.Join(names, ", "))
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]),
		chromedp.Env("TMPDIR="+browserFolder(t)), chromedp.ExecPath(names[i]), chromedp.NoSandbox, chromedp.Flag("host-resolver-rules", "MAP *.example 127.0.0.1"))
	alloc, stop := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(stop)
	browser, leave := chromedp.NewContext(alloc)
	t.Cleanup(leave)
	if err := chromedp.Do(browser); err != nil {
		t.Fatalf("the browser does not start: %v", err)
	}
	return browser
}

// browserFolder returns a folder for the temporary files of a browser, which leaves some. At the
// end of the test it is removed as soon as the last process of the browser writes no more.
func browserFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp(binaries, "browser-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
			if err := os.RemoveAll(dir); err == nil {
				return
			} else if time.Now().After(end) {
				t.Errorf("files of the browser are left: %v", err)
				return
			}
		}
	})
	return dir
}

// A testServer is our built-in server on every path, and records refusals.
type testServer struct {
	handler http.Handler
	url     string

	mu      sync.Mutex
	refused map[string]int // 403 by path; guarded by mu
}

// newTestServer serves the built-in server on all transports that browsers have.
func newTestServer(t *testing.T, origins ...string) *testServer {
	t.Helper()
	server := builtin.New(nil)
	mcp := &streamable.Server{Sessions: server, Requests: server.Requests(), Origins: origins}
	old := &sse.Server{Acceptor: server, Origins: origins}
	sockets := &ws.Server{Acceptor: server, Requests: server.Requests(), Origins: origins}
	calls := &toolhttp.Server{Requests: server.Requests(), Origins: origins}
	m := http.NewServeMux()
	m.Handle("/mcp", mcp)
	m.Handle("/sse", old.Stream())
	m.Handle("/messages", old.Messages())
	m.Handle("/ws", sockets)
	m.Handle("/call", http.StripPrefix("/call", calls))
	m.Handle("/call/", http.StripPrefix("/call", calls))
	m.HandleFunc("/page", servePage)
	h := &testServer{handler: m, refused: make(map[string]int)}
	web := httptest.NewServer(h)
	h.url = web.URL
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		for _, stop := range []func(context.Context) error{mcp.Shutdown, sockets.Shutdown, calls.Shutdown} {
			if err := stop(ctx); err != nil {
				t.Errorf("the server does not end: %v", err)
			}
		}
		old.Close()
		web.Close()
	})
	return h
}

// ServeHTTP implements http.Handler.
func (h *testServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.handler.ServeHTTP(&refusalRecorder{w, h, r.URL.Path}, r)
}

// A refusalRecorder records that a request is refused.
type refusalRecorder struct {
	http.ResponseWriter
	server *testServer
	path   string
}

// WriteHeader implements http.ResponseWriter.
func (d *refusalRecorder) WriteHeader(status int) {
	if status == http.StatusForbidden {
		d.server.mu.Lock()
		d.server.refused[d.path]++
		d.server.mu.Unlock()
	}
	d.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (d *refusalRecorder) Unwrap() http.ResponseWriter { return d.ResponseWriter }

func servePage(w http.ResponseWriter, r *http.Request) { http.ServeFile(w, r, "browser/page.html") }

// openPage opens the page of an origin in a tab of its own and returns what it shows
// of its use of a server.
func openPage(t *testing.T, browser context.Context, origin, server string) map[string]string {
	t.Helper()
	tab, leave := chromedp.NewContext(browser)
	defer leave()
	return openIn(t, tab, origin+"/page?at="+url.QueryEscape(server))
}

// openIn opens the page in a tab, and returns what it shows.
func openIn(t *testing.T, tab context.Context, at string) map[string]string {
	t.Helper()
	tab, cancel := context.WithTimeout(tab, patience)
	defer cancel()
	if err := chromedp.Do(tab, chromedp.Navigate(at)); err != nil {
		t.Fatal(err)
	}
	_, err := chromedp.Run(tab, chromedp.Poll[bool](`document.body.className === "done"`, chromedp.WithPollingMutation(), chromedp.WithPollingTimeout(patience)))
	const shown = `Object.fromEntries(Array.from(document.querySelectorAll("output"), (o) => [o.title, o.value]))`
	got, readErr := chromedp.Run(tab, chromedp.Evaluate[map[string]string](shown))
	if err != nil || readErr != nil {
		t.Fatalf("the page does not end: %v, %v; it shows %q", err, readErr, got)
	}
	return got
}

// named returns a URL of this machine under a name of its own.
func named(name, url string) string { return strings.Replace(url, "127.0.0.1", name, 1) }

// allWays is what the page shows where it may do everything.
var allWays = map[string]string{
	"socket":        `["mcp","dragoman-everything","2025-11-25",true,50,[1,2],1000,true]`,
	"modern socket": `[true,"grüße 🌍"]`,
	"frames":        `["",50,-32602]`,
	"call":          `[true,7,"posted",42]`,
	"stream":        `["result: step 1 of 3","result: step 2 of 3","result: step 3 of 3","complete: Took 30 ms in 3 steps."]`,
	"mcp":           `["notifications/tools/list_changed",["notifications/progress","notifications/progress","Took 20 ms in 2 steps."],true]`,
	"modern mcp":    `["notifications/progress","notifications/progress","Took 20 ms in 2 steps."]`,
	"sse":           `["dragoman-everything"]`,
}

// barred is what the page shows where each way ends so.
func barred(call string) map[string]string {
	shown := make(map[string]string)
	for way := range allWays {
		switch {
		case strings.Contains(way, "socket"), way == "frames":
			shown[way] = "Error: closed with 1006"
		case way == "sse":
			shown[way] = "Error: no event stream"
		default:
			shown[way] = call
		}
	}
	return shown
}

func TestBrowserUsesEveryTransport(t *testing.T) {
	browser := startBrowser(t)
	pages := httptest.NewServer(http.HandlerFunc(servePage))
	defer pages.Close()
	foreign := named("foreign.example", pages.URL)
	tests := []struct {
		name    string
		server  *testServer
		page    string // its origin
		rename  func(url string) string
		want    map[string]string
		refused bool
	}{
		{name: "from the server itself", server: newTestServer(t), want: allWays},
		{name: "from another origin of this machine", server: newTestServer(t), page: pages.URL, want: allWays},
		{name: "B03 not from a foreign origin", server: newTestServer(t), page: foreign, want: barred("TypeError: Failed to fetch"), refused: true},
		{name: "from a foreign origin that is allowed", server: newTestServer(t, foreign), page: foreign, want: allWays},
		{name: "B03 not under a name of the page", server: newTestServer(t), rename: func(url string) string { return named("rebound.example", url) },
			want: barred("Error: status 403"), refused: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := test.server.url
			if test.rename != nil {
				server = test.rename(server)
			}
			page := test.page
			if page == "" {
				page = server
			}
			got := openPage(t, browser, page, server)
			for way, want := range test.want {
				if got[way] != want {
					t.Errorf("%s: the page shows %s, want %s", way, got[way], want)
				}
			}
			if len(got) != len(test.want) {
				t.Errorf("the page shows %d ways, want %d", len(got), len(test.want))
			}
			test.server.mu.Lock()
			defer test.server.mu.Unlock()
			paths := "none"
			if test.refused {
				paths = "/call /call/slow /mcp /sse /ws"
			}
			refused := strings.Join(slices.Sorted(maps.Keys(test.server.refused)), " ")
			if refused == "" {
				refused = "none"
			}
			if refused != paths {
				t.Errorf("these refuse the page: %s; want %s", refused, paths)
			}
		})
	}
}
