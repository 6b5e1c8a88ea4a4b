//go:build unix

package gateway

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// TestS47_DrainLetsCallsEnd ends the gateway while calls are in flight and streams
// are open.
func TestS47_DrainLetsCallsEnd(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		t.Run(mode+" server", func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{server: child(t, mode, j)}}, Flags: patient})
			s := &fixture{T: t, Gateway: g, server: server, mode: mode, journal: j, ctx: gatewaytest.Hurry(t, gatewaytest.Patience)}
			idle, sockets, listens := s.streams(gatewaytest.Size(20, 6)), s.sockets(gatewaytest.Size(5, 4)), s.listens(gatewaytest.Size(5, 2))
			used := openSession(s.ctx, t, g, server)
			calls := s.calls(gatewaytest.Size(20, 6)) // one for each way and era at least
			g.Leave()
			from := time.Now()
			g.Signal(syscall.SIGTERM)
			s.notReady(from)
			s.turnedAway(used)
			from = time.Now()
			for key, done := range calls {
				j.Write(fault.Released, key)
				if got := ends(t, done); got != key {
					t.Errorf("%s comes to %q", key, got)
				}
			}
			for i, err := range listens {
				if err := <-err; err != nil {
					t.Errorf("listen %d ends with %v, not with its result", i, err)
				}
			}
			for i, resp := range idle {
				wantRetryHint(t, fmt.Sprint("stream ", i), resp)
			}
			for i, c := range sockets {
				select {
				case <-c.Conn.Done():
					if err := c.Conn.Err(); !strings.Contains(err.Error(), "1001") {
						t.Errorf("socket %d ends with %v", i, err)
					}
				case <-s.ctx.Done():
					t.Fatalf("socket %d stays open", i)
				}
			}
			status := g.Wait(gatewaytest.Patience)
			if took := time.Since(from); status != 0 || gatewaytest.Exceeds(took, 5*time.Second) {
				t.Errorf("it ends with status %d after %v", status, took)
			}
			if err := g.Unwell(); err != nil {
				t.Error(err)
			}
		})
	}
}

// patient has a gateway wait for calls that are ended by the test.
var patient = []string{"--drain", "1h"}

// streams opens so many streams of sessions on which nothing happens.
func (s *fixture) streams(n int) (all []*http.Response) {
	s.Helper()
	for range n {
		resp := openSession(s.ctx, s.T, s.Gateway, s.server).get(s.ctx, "")
		s.Cleanup(func() { _ = resp.Body.Close() })
		all = append(all, resp)
	}
	return all
}

// sockets opens so many sockets, of either era, on which nothing happens.
func (s *fixture) sockets(n int) (all []*gatewaytest.Client) {
	s.Helper()
	for i := range n {
		c := enter(s.ctx, s.T, s.Gateway, s.server, gatewaytest.WS, gatewaytest.Eras[i%2])
		echoes(s.ctx, s.T, c, "on a socket")
		all = append(all, c)
	}
	return all
}

// listens opens so many subscriptions, and returns where their ends will come.
func (s *fixture) listens(n int) (all []<-chan error) {
	s.Helper()
	for range n {
		c := enter(s.ctx, s.T, s.Gateway, s.server, gatewaytest.HTTP, protocol.Modern)
		done := make(chan error, 1)
		go func() { // ends with the gateway
			_, err := c.Once(s.ctx, protocol.MethodListen, object{"notifications": object{"toolsListChanged": true}})
			done <- err
		}()
		if err := c.Add(s.ctx, protocol.NoteAcknowledged); err != nil {
			s.Fatal(err)
		}
		all = append(all, done)
	}
	return all
}

// calls begins so many calls that end when their key is released, by clients of all kinds, and
// returns where their endings will come, by what they should say. All of them run.
func (s *fixture) calls(n int) map[string]<-chan ending {
	s.Helper()
	clients := make(map[string]*gatewaytest.Client)
	for i := range n {
		era := gatewaytest.Eras[i%2]
		way := ways(era)[i/2%len(ways(era))]
		c := enter(s.ctx, s.T, s.Gateway, s.server, way, era)
		echoes(s.ctx, s.T, c, "its server is there")
		clients[fmt.Sprintf("%s, call %d of a %s client over %s", s.Name(), i, era, way)] = c
	}
	all := make(map[string]<-chan ending)
	for key, c := range clients {
		all[key] = begin(s.ctx, c, "hold", object{"key": key, "text": key})
	}
	for key := range clients {
		s.runs(key)
	}
	return all
}

// notReady fails the test unless the gateway says at once that it takes nothing.
func (s *fixture) notReady(since time.Time) {
	s.Helper()
	gatewaytest.Eventually(s.T, func() error {
		if status, body := s.Get("/readyz"); status != http.StatusServiceUnavailable {
			return fmt.Errorf("/readyz says %d %s", status, body)
		}
		return nil
	})
	if took := time.Since(since); gatewaytest.Exceeds(took, 500*time.Millisecond) {
		s.Errorf("it takes %v until it says that it stops", took)
	}
	if status, _ := s.Get("/healthz"); status != http.StatusOK {
		s.Errorf("/healthz says %d", status)
	}
}

// turnedAway fails the test unless a gateway that stops refuses what is new, by
// every endpoint.
func (s *fixture) turnedAway(used *session) {
	s.Helper()
	used.t = s.T
	try := func(resp *http.Response, err error) *http.Response {
		s.Helper()
		if err != nil {
			s.Fatal(err)
		}
		return resp
	}
	get := func(path string, headers ...string) *http.Response {
		s.Helper()
		req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.URL(s.server, path), nil)
		if err != nil {
			s.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		return try(http.DefaultClient.Do(req))
	}
	for what, resp := range map[string]*http.Response{
		"a session":           try((&session{t: s.T, url: used.url}).tryOpen(s.ctx)),
		"a call in a session": used.call(s.ctx, 9, "count", object{"key": s.Name() + " too late"}),
		"a stream":            try(used.tryGet(s.ctx, "")),
		"a modern call":       modernPost(s.ctx, s.T, used.url, protocol.MethodCallTool, 9, object{"name": "count", "arguments": object{"key": s.Name() + " too late"}}),
		"a listen":            modernPost(s.ctx, s.T, used.url, protocol.MethodListen, 9, object{"notifications": object{}}),
		"HTTP+SSE":            get("sse", "Accept", "text/event-stream"),
		"a socket": get("ws", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "13",
			"Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA=="),
		"a plain call": try(gatewaytest.Post(s.ctx, s.URL(s.server, "call")+"/echo", nil, `{"text":"hello"}`)),
	} {
		if body := read(s.T, resp); resp.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, fmt.Sprint(protocol.CodeDraining)) {
			s.Errorf("%s gets %s %s", what, resp.Status, body)
		}
	}
	for _, e := range s.journal.Of(fault.Ran, "") {
		if strings.Contains(e.Key, "too late") {
			s.Errorf("it was carried out: %s", e.Key)
		}
	}
}

// wantRetryHint fails the test unless a stream ends, and says before when to come back.
func wantRetryHint(t *testing.T, name string, resp *http.Response) {
	t.Helper()
	var retry string
	for events := newEvents(resp.Body); ; {
		e, err := events.next()
		switch {
		case errors.Is(err, io.EOF):
			if retry == "" {
				t.Errorf("%s ends without a word about when to come back", name)
			}
			return
		case err != nil:
			t.Errorf("%s breaks: %v", name, err)
			return
		case e.data != "":
			t.Errorf("%s says %+v", name, e)
		}
		retry = e.retry
	}
}
