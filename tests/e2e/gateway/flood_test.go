//go:build unix

package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A flood is what many send to the endpoint of one server.
type flood struct {
	*testing.T
	ctx  context.Context
	web  *http.Client
	url  string
	most int           // sessions
	idle time.Duration // after which they end
}

// A span is when a request was made and when it was answered.
type span struct{ from, to time.Time }

// send sends a request, and returns what it comes to.
func (f *flood) send(method, session, body string) (status int, h http.Header, text string, err error) {
	req, err := http.NewRequestWithContext(f.ctx, method, f.url, strings.NewReader(body))
	if err != nil {
		return 0, nil, "", err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	if session != "" {
		req.Header.Set(protocol.HeaderSession, session)
		req.Header.Set(protocol.HeaderVersion, protocol.LatestLegacy.String())
	}
	resp, err := f.web.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	_, err = io.Copy(&b, resp.Body)
	return resp.StatusCode, resp.Header, b.String(), err
}

// open opens a session, or is refused as it must be: then the id is "".
func (f *flood) open() (id string, err error) {
	status, h, body, err := f.send(http.MethodPost, "", initialize)
	id = h.Get(protocol.HeaderSession)
	switch {
	case err != nil:
		return "", err
	case status == http.StatusOK && id != "":
		return id, nil
	case status == http.StatusServiceUnavailable && id == "" && h.Get("Retry-After") != "" && strings.Contains(body, fmt.Sprint(protocol.CodeOverloaded)):
		return "", nil
	}
	return "", fmt.Errorf("initialize gets %d %s", status, body)
}

// sessions opens so many that nobody closes, as far as there is room. There must
// never be more than there may be: since none ends before its time, so many and one
// more are not opened within that time.
func (f *flood) sessions(n int) (ids []string) {
	f.Helper()
	var mu sync.Mutex
	var opened []span
	gatewaytest.Together(f, n, func(int) error {
		from := time.Now()
		id, err := f.open()
		if id != "" {
			mu.Lock()
			defer mu.Unlock()
			ids, opened = append(ids, id), append(opened, span{from, time.Now()})
		}
		return err
	})
	slices.SortFunc(opened, func(a, b span) int { return a.from.Compare(b.from) })
	for i := range max(0, len(opened)-f.most) {
		group := opened[i : i+f.most+1]
		last := slices.MaxFunc(group, func(a, b span) int { return a.to.Compare(b.to) })
		if window := last.to.Sub(group[0].from); window < f.idle {
			f.Fatalf("%d sessions were opened within %v", len(group), window)
		}
	}
	if len(ids) < f.most {
		f.Errorf("%d of %d sessions were opened, want %d", len(ids), n, f.most)
	}
	return ids
}

// probe tries so many sessions that do not exist.
func (f *flood) probe(n int) {
	f.Helper()
	gatewaytest.Together(f, n, func(i int) error {
		status, _, body, err := f.send(http.MethodPost, fmt.Sprintf("probe-%d-%s", i, strings.Repeat("x", 30)), ping)
		if err == nil && status != http.StatusNotFound {
			err = fmt.Errorf("a session that does not exist gets %d %s", status, body)
		}
		return err
	})
}

// room waits until there is room for all sessions at once, and leaves it.
func (f *flood) room() {
	f.Helper()
	if err := gatewaytest.Until(gatewaytest.Patience, func() error {
		for n := range f.most {
			id, err := f.open()
			if err != nil {
				return err
			}
			if id == "" {
				return fmt.Errorf("there is room for %d sessions, want %d", n, f.most)
			}
			defer func() { _, _, _, _ = f.send(http.MethodDelete, id, "") }() // or it has ended
		}
		return nil
	}); err != nil {
		f.Fatal(err)
	}
}

// live returns the memory that g, which traces, has after a collection of garbage that has
// begun since.
func (f *flood) live(g *gatewaytest.Gateway) int64 {
	f.Helper()
	for until := len(g.Live()) + 2; len(g.Live()) < until; { // one may be in progress
		f.probe(100) // an idle program does not tidy up
	}
	all := g.Live()
	return all[len(all)-1]
}

const (
	ping       = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`
)

// TestS38_SessionFloodIsBounded opens sessions that nobody closes, and tries ids that
// do not exist.
func TestS38_SessionFloodIsBounded(t *testing.T) {
	const most, idle = 200, 3 * time.Second
	j := newJournal(t)
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{
		"limits":  object{"sessions": most, "idleSession": idle.String()},
		"servers": object{server: shared(child(t, fault.Modern, j))},
	}, Launch: gatewaytest.Launch{Env: []string{gatewaytest.Tracing}}})
	f := &flood{t, gatewaytest.Hurry(t, 2*gatewaytest.Patience), gatewaytest.Lasting(t), g.URL(server, "mcp"), most, idle}
	// What the program needs for as much as it may have is no leak.
	f.sessions(most + 10)
	f.probe(gatewaytest.Few(10_000))
	f.room()
	before := f.live(g)

	first := openSession(f.ctx, t, g, server)
	f.most = most - 1
	stop, done := make(chan struct{}), make(chan struct{})
	go func() { // ends when stop is closed
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(pause):
				first.mustEcho(f.ctx, i)
			}
		}
	}()
	f.sessions(max(gatewaytest.Few(5000), 2*most))
	f.probe(gatewaytest.Size(100_000, 1000))
	close(stop)
	<-done
	first.delete(f.ctx) // or it has ended
	f.most = most
	f.room()
	gatewaytest.Eventually(t, func() error {
		if now := f.live(g); now > gatewaytest.Leeway(before) {
			return fmt.Errorf("the gateway has %d KiB after the flood, and had %d", now>>10, before>>10)
		}
		return nil
	})
	if n := len(j.Of(fault.Started, "")); n != 1 {
		t.Errorf("%d processes were started for a server that needs one", n)
	}
}

// shared has all clients share a server.
func shared(server object) object {
	server["isolation"] = "shared"
	return server
}

// TestS38_Pain8_ProcessesOfSessionsAreBoundedAndEnd floods a server that has a process for each
// session, and one of its own.
func TestS38_Pain8_ProcessesOfSessionsAreBoundedAndEnd(t *testing.T) {
	t.Parallel() // it mostly waits
	const most, idle = 5, 3 * time.Second
	j := newJournal(t)
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{
		"limits":  object{"sessions": most, "idleSession": idle.String()},
		"servers": object{server: child(t, fault.Legacy, j)},
	}})
	f := &flood{t, gatewaytest.Hurry(t, 2*gatewaytest.Patience), gatewaytest.Lasting(t), g.URL(server, "mcp"), most, idle}
	// Who is refused costs no process.
	opened := len(f.sessions(10 * most))
	if n := len(j.Of(fault.Started, "")); n > opened+1 {
		t.Errorf("%d processes were started for %d sessions", n, opened)
	}
	for _, left := range []int{most + 1, 1} { // of all sessions, and then of none
		gatewaytest.Eventually(t, func() error {
			if alive := slices.DeleteFunc(j.PIDs(), func(pid int) bool { return !gatewaytest.Alive(pid) }); len(alive) > left {
				return fmt.Errorf("there are %d processes, want %d", len(alive), left)
			}
			return nil
		})
	}
	f.room()
}
