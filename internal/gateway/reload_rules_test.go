package gateway_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// reload writes a text and has it read. It fails the test if that is refused.
func (g *running) reload(text string) gateway.Reloaded {
	g.t.Helper()
	g.write(text)
	done, err := g.Reload()
	if err != nil {
		g.t.Fatal(err)
	}
	return done
}

// names returns those of the servers that there are, without those that have errors.
func names(s gateway.Status) (list []string) {
	for _, server := range s.Servers {
		if !server.Broken {
			list = append(list, server.Name)
		}
	}
	return list
}

func TestPain32_ServerWithAnErrorIsLeftOutOfAReloadAsOfAStart(t *testing.T) {
	url := startBuiltin(t, protocol.Latest)
	const bad = "  bad: {url: 7, comand: x}\n"
	g := begin(t, fmt.Sprintf("servers:\n  a: {url: %s}\n%s", url, bad))
	g.ready()
	if got := names(g.Status()); !slices.Equal(got, []string{"a"}) {
		t.Fatalf("the servers are %v", got)
	}

	// The one that never ran is left out again, and keeps no other from its change.
	done := g.reload(fmt.Sprintf("servers:\n  a: {url: %s, timeout: 5m}\n%s  b: {url: %s}\n", url, bad, url))
	if fmt.Sprint(done.Changes) != "{[b] [] [a] []}" {
		t.Errorf("the changes are %+v", done.Changes)
	}
	if len(done.LeftOut) != 1 || done.LeftOut[0].Server != "bad" || done.LeftOut[0].Runs || !strings.Contains(done.LeftOut[0].Error, `did you mean "command"`) {
		t.Errorf("left out: %+v", done.LeftOut)
	}

	// One that ran continues as it was, in its place, while others change.
	g.ready()
	b := g.join("/servers/b/mcp", protocol.Legacy)
	done = g.reload(fmt.Sprintf("servers:\n  b: {url: %s, comand: x}\n  a: {url: %s}\n", url, url))
	if fmt.Sprint(done.Changes) != "{[] [b] [a] []}" || len(done.LeftOut) != 1 || done.LeftOut[0].Server != "b" || !done.LeftOut[0].Runs {
		t.Errorf("the changes are %+v, left out: %+v", done.Changes, done.LeftOut)
	}
	echo(t, b, "echo")
	s := g.Status()
	if got := names(s); !slices.Equal(got, []string{"b", "a"}) {
		t.Errorf("the servers are %v", got)
	}
	if s.Reload == nil || len(s.Reload.LeftOut) != 1 {
		t.Errorf("the status says %+v", s.Reload)
	}

	// And again, with the configuration of two files ago.
	if done = g.reload(fmt.Sprintf("servers: {b: {url: %s, comand: x}}", url)); fmt.Sprint(done.Changes) != "{[] [b] [] [a]}" {
		t.Errorf("the changes are %+v", done.Changes)
	}
	if done = g.reload(fmt.Sprintf("servers: {b: {url: %s}}", url)); len(done.LeftOut) != 0 || fmt.Sprint(done.Changes) != "{[] [b] [] []}" {
		t.Errorf("after it is right again: %+v", done)
	}
}

// A name means one server or nothing, also while what is said of that server has errors.
func TestServerWithAnErrorKeepsItsPlaceInUnions(t *testing.T) {
	url := startBuiltin(t, protocol.Latest)
	const groups = "groups: {plain: {servers: [a, b], naming: plain}, prefix: [a, b]}\n"
	g := begin(t, fmt.Sprintf("servers:\n  a: {url: 7, comand: x}\n  b: {url: %s}\n%s", url, groups))
	g.ready()
	refused := func(path, tool, why string) {
		t.Helper()
		for _, era := range eras {
			_, err := g.join(path, era).CallTool(within(t), tool, map[string]string{"text": "x"}, nil)
			if err == nil || !strings.Contains(err.Error(), why) {
				t.Errorf("%s, %s era: %s: error %v, want %q", path, era, tool, err, why)
			}
		}
	}
	refused("/groups/plain/mcp", "echo", "no answer from a,")
	refused("/groups/prefix/mcp", "a_echo", "the configuration of this server has errors")
	refused("/mcp", "a_echo", "the configuration of this server has errors")
	if got := toolNames(t, g.join("/groups/plain/mcp", protocol.Modern)); len(got) != 0 {
		t.Errorf("what the second has is offered before it is known what the first has: %v", got)
	}
	for _, path := range []string{"/mcp", "/groups/prefix/mcp"} {
		echo(t, g.join(path, protocol.Legacy), "b_echo")
	}
	all := g.join("/groups/plain/mcp", protocol.Modern)
	g.reload(fmt.Sprintf("servers:\n  a: {url: %s, tools: {include: [add]}}\n  b: {url: %[1]s}\n%s", url, groups))
	g.ready()
	echo(t, all, "echo") // the first has none
	g.reload(fmt.Sprintf("servers:\n  a: {url: %s, tools: {only: [add]}}\n  b: {url: %[1]s}\n%s", url, groups))
	echo(t, all, "echo") // it continues as it was
}

func TestDisabledServerHasNoPlaceInUnions(t *testing.T) {
	url := startBuiltin(t, protocol.Latest)
	g := begin(t, fmt.Sprintf("servers:\n  a: {url: %s, disabled: true}\n  b: {url: %[1]s}\ngroups: {plain: {servers: [a, b], naming: plain}}\n", url))
	for _, era := range eras {
		echo(t, g.join("/groups/plain/mcp", era), "echo")
		if _, err := g.join("/mcp", era).CallTool(within(t), "a_echo", map[string]string{"text": "x"}, nil); err == nil || !strings.Contains(err.Error(), "unknown tool") {
			t.Errorf("%s era: the tool of a disabled server: %v", era, err)
		}
	}
}

func TestPain32_ErrorThatIsNoServersRefusesTheWholeFile(t *testing.T) {
	url := startBuiltin(t, protocol.Latest)
	g := begin(t, fmt.Sprintf("servers: {a: {url: %s}}", url))
	g.write(fmt.Sprintf("servers:\n  a: {url: %s, timeout: 5m}\n  b: {url: %s}\nlisten: nowhere\n", url, url))
	done, err := g.Reload()
	if err == nil || !strings.Contains(err.Error(), "dragoman.yaml:4") || done.Error == "" {
		t.Errorf("the error is %v, the result %+v", err, done)
	}
	if s := g.Status(); !slices.Equal(names(s), []string{"a"}) || s.Reload == nil || !s.Reload.Failed || s.Reload.Error == "" || s.Reload.Changes.Added != nil {
		t.Errorf("the status is %+v", s)
	}
	g.ready()
	echo(t, g.join("/mcp", protocol.Modern), "a_echo")
}

// An editor may have emptied the file before it writes it.
func TestFileWithoutServersRemovesNone(t *testing.T) {
	url := startBuiltin(t, protocol.Latest)
	g := begin(t, fmt.Sprintf("servers: {a: {url: %s}}", url))
	for _, text := range []string{"servers: {}\n", "limits: {calls: 7}\n"} {
		g.write(text)
		if done, err := g.Reload(); err == nil || !done.Failed {
			t.Errorf("%q: the error is %v, the result %+v", text, err, done)
		}
	}
	g.ready()
	echo(t, g.join("/mcp", protocol.Modern), "a_echo")
}

func TestKeysThatNeedARestartAreNamedUntilTheyAreInForce(t *testing.T) {
	g := begin(t, "servers: {a: {command: x, disabled: true}}")
	const servers = "servers: {a: {command: x, disabled: true, timeout: %s}}\n"
	later := "listen: 127.0.0.1:1\nstate: " + filepath.Join(t.TempDir(), "s") + "\nlog: {format: json}\nlimits: {calls: 7}\n"
	for _, c := range []struct {
		text, want string
	}{
		{later + fmt.Sprintf(servers, "1m"), "[listen state log.format limits]"},
		{later + fmt.Sprintf(servers, "2m"), "[listen state log.format limits]"},
		{"limits: {calls: 7}\n" + fmt.Sprintf(servers, "2m"), "[limits]"},
		{fmt.Sprintf(servers, "2m"), "[]"},
		{"limits: {calls: 8}\n" + fmt.Sprintf(servers, "2m"), "[limits]"},
	} {
		done := g.reload(c.text)
		if got := fmt.Sprint(done.Later); got != c.want {
			t.Errorf("of this the reload says %s, want %s:\n%s", got, c.want, c.text)
		}
		if got := fmt.Sprint(g.Status().Later); got != c.want {
			t.Errorf("of this the status says %s, want %s:\n%s", got, c.want, c.text)
		}
	}
	g.write("servers: {")
	if _, err := g.Reload(); err == nil || fmt.Sprint(g.Status().Later) != "[limits]" {
		t.Errorf("after a file that is refused (%v) the status says %v", err, g.Status().Later)
	}
}

// The first reload has read the file when it changes and a second one is asked for.
func TestLastReloadThatWasAskedForHasTheNewestFile(t *testing.T) {
	peertest.NoLeak(t)
	g := &running{t: t, path: filepath.Join(t.TempDir(), "dragoman.yaml")}
	g.write("servers: {first: {command: x, disabled: true}}")
	var (
		mu      sync.Mutex
		loads   int
		reading = make(chan struct{})
		second  = make(chan struct{})
		release = make(chan struct{})
	)
	g.start(&gateway.Options{Load: func() (*config.File, *config.Report) {
		file, report := g.load()
		mu.Lock()
		loads++
		n := loads
		mu.Unlock()
		if n == 1 {
			close(reading)
			<-release
		} else {
			close(second)
		}
		return file, report
	}})
	var reloads sync.WaitGroup
	reload := func() { _, _ = g.Reload() }
	reloads.Go(reload)
	<-reading
	g.write("servers: {last: {command: x, disabled: true}}")
	reloads.Go(reload)
	select {
	case <-second: // it does not wait for the first one
		eventually(t, "the second reload is done", func() bool { return g.Status().Reload != nil })
	case <-time.After(100 * time.Millisecond): // long enough for one that does not wait
	}
	close(release)
	reloads.Wait()
	if got := names(g.Status()); !slices.Equal(got, []string{"last"}) {
		t.Errorf("the servers are %v", got)
	}
}

// A request whose body is on its way is carried out while its server is replaced.
func TestRequestThatHasBegunIsNotRefusedWhenItsServerIsReplaced(t *testing.T) {
	for _, era := range eras {
		t.Run(era.String()+" client", func(t *testing.T) {
			url := startBuiltin(t, protocol.LatestLegacy)
			g := begin(t, fmt.Sprintf("servers: {a: {url: %s}}", url))
			g.ready()
			handler, replace := g.Handler(nil), func() {
				if done := g.reload(fmt.Sprintf("servers: {a: {url: %s, timeout: 5m}}", url)); len(done.Changes.Replaced) != 1 {
					t.Errorf("the changes are %+v", done.Changes)
				}
			}
			endpoint := serveHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Slow") != "" {
					r.Body = &late{ReadCloser: r.Body, first: sync.OnceFunc(replace)}
				}
				handler.ServeHTTP(w, r)
			}))
			header := http.Header{"X-Slow": {"1"}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
			meta := ""
			if era == protocol.Legacy {
				header.Set(protocol.HeaderSession, open(t, endpoint+"/servers/a/mcp").id)
			} else {
				header.Set(protocol.HeaderVersion, protocol.Latest.String())
				header.Set(protocol.HeaderMethod, protocol.MethodCallTool)
				header.Set(protocol.HeaderName, "echo")
				meta = fmt.Sprintf(`"_meta":{%q:%q,%q:{},%q:{"name":"c","version":"1"}},`,
					protocol.MetaProtocolVersion, protocol.Latest, protocol.MetaClientCapabilities, protocol.MetaClientInfo)
			}
			req, err := http.NewRequestWithContext(within(t), http.MethodPost, endpoint+"/servers/a/mcp",
				strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{`+meta+`"name":"echo","arguments":{"text":"hello"}}}`))
			if err != nil {
				t.Fatal(err)
			}
			req.Header = header
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if text, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), `"text":"hello"`) {
				t.Errorf("got %d %s, error %v", resp.StatusCode, text, err)
			}
		})
	}
}

// A late body does something before it is first read.
type late struct {
	io.ReadCloser
	first func()
}

func (b *late) Read(p []byte) (int, error) {
	b.first()
	return b.ReadCloser.Read(p)
}

// Calls do not notice that their server is replaced, by itself or as one of all.
func TestS48_NoCallIsRefusedWhileServersAreReplaced(t *testing.T) {
	const reloads = 10
	url := startBuiltin(t, protocol.LatestLegacy)
	config := func(n int) string {
		return fmt.Sprintf("servers: {a: {url: %s, timeout: %dm}}", url, n+1)
	}
	g := begin(t, config(0))
	g.ready()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var (
		calling sync.WaitGroup
		counts  []*atomic.Int64
	)
	for _, era := range eras {
		for path, tool := range map[string]string{"/servers/a/mcp": "echo", "/mcp": "a_echo"} {
			c, count := g.join(path, era), new(atomic.Int64)
			counts = append(counts, count)
			calling.Go(func() { // ends with ctx
				for ctx.Err() == nil && !t.Failed() {
					if _, err := c.CallTool(within(t), tool, map[string]string{"text": "x"}, nil); err != nil {
						t.Errorf("%s, %s era, call %d: %v", path, era, count.Load(), err)
					}
					count.Add(1)
				}
			})
		}
	}
	for n := range reloads {
		g.reload(config(n + 1))
		for _, count := range counts { // sessions continue at the new server
			before := count.Load()
			eventually(t, "a call that began after the reload has ended", func() bool { return count.Load() > before+1 || t.Failed() })
		}
	}
	cancel()
	calling.Wait()
}
