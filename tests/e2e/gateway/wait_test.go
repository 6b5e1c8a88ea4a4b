//go:build unix

package gateway

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// beatLimit is how long a stream may be silent, and beats how often it is heard
// before it counts as one that stays open.
const (
	beatLimit = 25 * time.Second
	beats     = 2
)

// TestS45_QuietStreamsOutliveProxies has streams of all kinds on which nothing
// happens, through a proxy that cuts what is silent for longer than heartbeats are.
func TestS45_QuietStreamsOutliveProxies(t *testing.T) {
	t.Parallel() // it mostly waits
	const silence, socketSilence = 20 * time.Second, 30 * time.Second
	j := newJournal(t)
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{server: child(t, fault.Legacy, j)}}})
	ctx, cancel := context.WithTimeout(t.Context(), 4*gatewaytest.Patience)
	defer cancel()
	base := strings.TrimPrefix(g.Base, "http://")
	through := func(idle time.Duration) *gatewaytest.Proxy {
		p := gatewaytest.NewProxy(t, base)
		p.Set(gatewaytest.LinkMode{Idle: idle})
		return p
	}
	near, socketNear := through(silence), through(socketSilence)
	at := func(p *gatewaytest.Proxy, path string) string {
		return strings.Replace(g.URL(server, path), base, p.Address(), 1)
	}
	from := time.Now()
	cut := silent(ctx, t, near.Address())
	socket, err := gatewaytest.Dial(ctx, &ws.Client{URL: strings.Replace(at(socketNear, "ws"), "http", "ws", 1), PingInterval: -1}, "guest", protocol.Legacy)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Conn.Close()
	v, busy := openSession(ctx, t, g, server), openSession(ctx, t, g, server)
	v.url, busy.url = at(near, "mcp"), at(near, "mcp")
	long := beats*15*time.Second + 7*time.Second // a ping of the socket, too
	nap := object{"text": "slept", "ms": long.Milliseconds()}
	do := func(method, url string, header http.Header, body string) func() (*http.Response, error) {
		return func() (*http.Response, error) { return patiently(ctx, method, url, header, body) }
	}
	post := func(header http.Header, body string) func() (*http.Response, error) {
		return do(http.MethodPost, v.url, header, body)
	}
	var (
		all     sync.WaitGroup
		mu      sync.Mutex
		streams = map[string]*heartbeats{}
	)
	for name, open := range map[string]func() (*http.Response, error){
		"GET of a session":          func() (*http.Response, error) { return v.tryGet(ctx, "") },
		"HTTP+SSE":                  do(http.MethodGet, at(near, "sse"), http.Header{}, ""),
		"listen":                    post(modernText(t, protocol.MethodListen, 1, object{"notifications": object{"toolsListChanged": true}})),
		"call":                      post(busy.header(), callText(7, "count", object{"key": t.Name(), "ms": long.Milliseconds()})),
		"call without words":        post(busy.header(), callText(8, "sleep", nap)),
		"modern call without words": post(modernText(t, protocol.MethodCallTool, 8, object{"name": "sleep", "arguments": nap})),
	} {
		all.Go(func() { // ends after its heartbeats, or with ctx
			resp, err := open()
			if err != nil {
				t.Errorf("%s: %v", name, err)
				return
			}
			p := listenTo(resp)
			mu.Lock()
			streams[name] = p
			mu.Unlock()
			p.wantHeartbeats(t, name)
		})
	}
	all.Wait()
	if t.Failed() {
		return
	}
	if took := <-cut; took < silence-time.Second || gatewaytest.Exceeds(took, silence+2*time.Second) {
		t.Errorf("the proxy cuts a silent connection after %v: nothing was shown", took)
	}
	for _, name := range []string{"call", "call without words", "modern call without words"} {
		<-streams[name].over
		if all := streams[name].received(); len(all) == 0 || !strings.Contains(all[len(all)-1].data, `"result"`) {
			t.Errorf("%s ends with %+v", name, all)
		}
	}
	if quiet := time.Since(from); quiet < socketSilence {
		t.Errorf("the socket was quiet for %v only", quiet)
	}
	echoes(ctx, t, socket, "the socket is still there")

	// What kept the streams open is no part of them.
	behind := streams["call"].received()
	if len(behind) != 3 {
		t.Fatalf("the call says %+v", behind)
	}
	for i, e := range behind {
		if want := strings.Split(behind[0].id, "_")[0] + "_" + string(rune('1'+i)); e.id != want {
			t.Errorf("event %d of the call has the id %s, want %s", i, e.id, want)
		}
	}
	replayed := read(t, busy.get(ctx, behind[0].id))
	if strings.Count(replayed, "id: ") != 2 || strings.Contains(replayed, "keep-alive") || strings.Count(replayed, "data: ") != 2 {
		t.Errorf("what is replayed of the call is %s", replayed)
	}
	first := streams["GET of a session"].received()
	streams["GET of a session"].leave()
	if len(first) != 1 || !strings.HasSuffix(first[0].id, "_1") {
		t.Fatalf("the stream of the session begins with %+v", first)
	}
	again := v.get(ctx, first[0].id)
	defer again.Body.Close()
	done := v.call(ctx, 9, "test_trigger_tool_change", nil)
	_ = read(t, done)
	if e, err := newEvents(again.Body).next(); err != nil || !strings.HasSuffix(e.id, "_2") || !strings.Contains(e.data, protocol.NoteToolsChanged) {
		t.Errorf("the first event behind the heartbeats is %+v, error %v", e, err)
	}
}

// patiently makes a request that may take as long as ctx lasts.
func patiently(ctx context.Context, method, url string, header http.Header, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	return http.DefaultClient.Do(req)
}

// silent opens a connection, and says nothing more after a first request. When it is
// cut, how long that took comes out of the channel.
func silent(ctx context.Context, t *testing.T, address string) <-chan time.Duration {
	t.Helper()
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(nc, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	from, took := time.Now(), make(chan time.Duration, 1)
	go func() { // ends with the connection
		defer nc.Close()
		_, _ = io.Copy(io.Discard, nc)
		took <- time.Since(from)
	}()
	return took
}

// A heartbeats reads an event stream and counts its heartbeats.
type heartbeats struct {
	body   io.Closer
	beat   chan struct{} // one for each
	over   chan struct{} // closed at the end
	header http.Header

	mu     sync.Mutex
	events []event
	last   time.Time     // when something came
	most   time.Duration // for which nothing came
}

// listenTo reads the stream of a response until that ends or leave is called.
func listenTo(resp *http.Response) *heartbeats {
	p := &heartbeats{body: resp.Body, header: resp.Header, beat: make(chan struct{}, 100), over: make(chan struct{}), last: time.Now()}
	go p.listen(resp.Body) // ends with the stream
	return p
}

func (p *heartbeats) listen(body io.Reader) {
	defer close(p.over)
	r, w := io.Pipe()
	go func() { // ends with the stream
		for lines := bufio.NewReader(body); ; {
			line, err := lines.ReadString('\n')
			p.mu.Lock()
			p.most, p.last = max(p.most, time.Since(p.last)), time.Now()
			p.mu.Unlock()
			if strings.HasPrefix(line, ": keep-alive") {
				p.beat <- struct{}{}
			}
			if _, wrong := io.WriteString(w, line); err != nil || wrong != nil {
				_ = w.CloseWithError(err)
				return
			}
		}
	}()
	for events := newEvents(r); ; {
		e, err := events.next()
		if err != nil {
			return
		}
		p.mu.Lock()
		p.events = append(p.events, e)
		p.mu.Unlock()
	}
}

// received returns the events so far.
func (p *heartbeats) received() []event {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events
}

// leave ends the stream.
func (p *heartbeats) leave() {
	_ = p.body.Close()
	<-p.over
}

// wantHeartbeats fails the test unless the stream is heard of often enough.
func (p *heartbeats) wantHeartbeats(t *testing.T, name string) {
	if got := p.header.Get("X-Accel-Buffering"); got != "no" {
		t.Errorf("%s: X-Accel-Buffering is %q", name, got)
	}
	if got := p.header.Get("Cache-Control"); !strings.Contains(got, "no-cache") && !strings.Contains(got, "no-store") {
		t.Errorf("%s: Cache-Control is %q", name, got)
	}
	want := beats
	if strings.HasSuffix(name, "without words") {
		want-- // the first is that it becomes a stream
	}
	for i := range want {
		select {
		case <-p.beat:
		case <-p.over:
			t.Errorf("%s ends after %d heartbeats: %+v", name, i, p.received())
			return
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.most > beatLimit {
		t.Errorf("%s was silent for %v", name, p.most)
	}
}

// lingering is how long a connection is there whose client was told that it is too slow,
// so that it can read that.
const lingering = 5 * time.Second

// TestS12_SlowClientsAreCutAndDelayNobody has hundreds of clients that send slowly.
func TestS12_SlowClientsAreCutAndDelayNobody(t *testing.T) {
	t.Parallel() // it mostly waits
	g := start(t, "run", child(t, fault.Legacy, newJournal(t)))
	kinds := map[string]struct {
		text  string
		limit time.Duration
	}{
		"headers":       {"GET /healthz HTTP/1.1\r\nHost: local", 5 * time.Second},
		"HTTP/2":        {"PRI * HT", 5 * time.Second},
		"a body":        {"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nContent-Length: 100\r\n\r\n{\"j", 10 * time.Second},
		"a chunked one": {"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"j", 10 * time.Second},
	}
	each := gatewaytest.Size(300, 40) / len(kinds) * 2
	before := gatewaytest.Resident(g.PID())
	var all sync.WaitGroup
	for name, kind := range kinds {
		for i := range each {
			c := dial(t, g)
			began := time.Now()
			if _, err := io.WriteString(c, kind.text); err != nil {
				t.Fatal(err)
			}
			all.Go(func() { // ends when it is cut, or with its deadline
				_, err := c.Read(make([]byte, 1)) // 408, or the end
				took := time.Since(began)
				if errors.Is(err, os.ErrDeadlineExceeded) || gatewaytest.Exceeds(took, kind.limit+2*time.Second) || took < kind.limit-time.Second {
					t.Errorf("%s %d: told after %v (%v), want %v", name, i, took, err, kind.limit)
				}
				_, err = io.Copy(io.Discard, c)
				if took = time.Since(began); errors.Is(err, os.ErrDeadlineExceeded) || gatewaytest.Exceeds(took, kind.limit+lingering+2*time.Second) {
					t.Errorf("%s %d: cut after %v (%v), want %v", name, i, took, err, kind.limit+lingering)
				}
			})
		}
	}
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	c := enter(ctx, t, g, "", gatewaytest.HTTP, protocol.Legacy)
	var took []time.Duration
	next := time.NewTicker(pause)
	defer next.Stop()
	for range 200 {
		began := time.Now()
		echoes(ctx, t, c, "quick")
		took = append(took, time.Since(began))
		<-next.C
	}
	slices.Sort(took)
	if p99 := took[len(took)*99/100]; gatewaytest.Exceeds(p99, 500*time.Millisecond) {
		t.Errorf("1 %% of the calls of others take more than %v", p99)
	}
	if grown := gatewaytest.Resident(g.PID()) - before; grown > int64(gatewaytest.Size(50, 100))<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
	all.Wait()
}
