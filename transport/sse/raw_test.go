package sse

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
)

// patience is how long a test waits for what must come at once.
const patience = 15 * time.Second

const (
	ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	pong = `{"jsonrpc":"2.0","id":1,"result":{}}`
)

// pinger answers every request with an empty result.
var pinger = dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	return req.Reply(nil)
}}

// A testServer is a client that sees what goes over the wire.
type testServer struct {
	t      *testing.T
	client *http.Client
	header http.Header
}

func newTestServer(t *testing.T) *testServer {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &testServer{t: t, client: &http.Client{Transport: tr}, header: http.Header{}}
}

// as returns the same client as another caller.
func (w *testServer) as(caller string) *testServer {
	return &testServer{t: w.t, client: w.client, header: http.Header{"X-Caller": {caller}}}
}

// byHeader distinguishes callers by a header.
func byHeader(r *http.Request) (*dragoman.Caller, error) {
	return &dragoman.Caller{Principal: r.Header.Get("X-Caller")}, nil
}

func (w *testServer) do(method, url, body string, set ...string) (status int, header http.Header, text string) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = w.header.Clone()
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(set); i += 2 {
		req.Header.Set(set[i], set[i+1])
		if set[i] == "Host" {
			req.Host = set[i+1]
		}
	}
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		w.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

// post posts a message that is accepted.
func (w *testServer) post(url, body string) {
	w.t.Helper()
	if status, _, text := w.do(http.MethodPost, url, body); status != http.StatusAccepted || text != "" {
		w.t.Fatalf("POST %s: %d %q, want 202 without a body", body, status, text)
	}
}

// An eventStream is an open stream.
type eventStream struct {
	t        *testing.T
	resp     *http.Response
	events   chan *sse.Event // closed at the end
	endpoint string          // where messages go
	cancel   context.CancelFunc
}

// stream opens an event stream and takes its first event.
func (w *testServer) stream(at string) *eventStream {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header = w.header.Clone()
	req.Header.Set("Accept", "text/event-stream")
	resp, err := w.client.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		w.t.Fatalf("GET %s: %s", at, resp.Status)
	}
	s := &eventStream{t: w.t, resp: resp, events: make(chan *sse.Event, 100), cancel: cancel}
	ended := make(chan struct{})
	go func() { // ends with the stream
		defer close(ended)
		defer close(s.events)
		r := sse.NewReader(resp.Body, 1<<20)
		for {
			e, err := r.Next()
			if err != nil {
				return
			}
			s.events <- e
		}
	}()
	w.t.Cleanup(func() {
		cancel()
		<-ended
		_ = resp.Body.Close()
	})
	first := s.next()
	if first.Name != "endpoint" {
		w.t.Fatalf("the first event is %q", first.Name)
	}
	base, err := url.Parse(at)
	if err != nil {
		w.t.Fatal(err)
	}
	endpoint, err := base.Parse(string(first.Data))
	if err != nil {
		w.t.Fatal(err)
	}
	s.endpoint = endpoint.String()
	return s
}

// next returns the next event.
func (s *eventStream) next() *sse.Event {
	s.t.Helper()
	select {
	case e, ok := <-s.events:
		if !ok {
			s.t.Fatal("the stream has ended")
		}
		return e
	case <-time.After(patience):
		s.t.Fatal("no event came")
	}
	return nil
}

// want fails the test unless the next event is that message.
func (s *eventStream) want(text string) {
	s.t.Helper()
	if e := s.next(); e.Name != "message" || !bytes.Equal(e.Data, []byte(text)) {
		s.t.Fatalf("event %q: %.300s\nwant message: %s", e.Name, e.Data, text)
	}
}

// asked fails the test unless the next event asks by that method, and returns the id of
// the question.
func (s *eventStream) asked(method string) string {
	s.t.Helper()
	e := s.next()
	m, err := dragoman.Parse(e.Data)
	if err != nil || m.Kind() != dragoman.Request || m.Method() != method {
		s.t.Fatalf("event %q: %.300s, want a %s", e.Name, e.Data, method)
	}
	return m.ID().String()
}

// wantEnd fails the test unless the stream ends, without another event.
func (s *eventStream) wantEnd() {
	s.t.Helper()
	select {
	case e, ok := <-s.events:
		if ok {
			s.t.Fatalf("event %q: %.300s, want the end", e.Name, e.Data)
		}
	case <-time.After(patience):
		s.t.Fatal("the stream does not end")
	}
}
