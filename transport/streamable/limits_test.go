package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// opened is the answer to initialize of the servers of these tests.
func opened(req *dragoman.Message) (*dragoman.Message, error) {
	return req.Reply(map[string]any{"protocolVersion": protocol.LatestLegacy.String(), "capabilities": map[string]any{}, "serverInfo": map[string]string{"name": "x", "version": "1"}})
}

func TestTooManyModernRequestsGet503(t *testing.T) {
	began, proceed := make(chan struct{}, 4), make(chan struct{})
	s := open(t, &streamable.Server{MaxConcurrent: 4, Requests: dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		began <- struct{}{}
		<-proceed
		return req.Reply(map[string]string{"resultType": "complete"})
	}}})
	v := s.modern("server/discover", "")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { v.want(modernCall("1", "server/discover", ""), http.StatusOK, `"complete"`) })
		<-began
	}
	resp := v.do(t.Context(), http.MethodPost, modernCall("5", "server/discover", ""))
	text := v.read(resp)
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" ||
		!strings.Contains(text, `"code":-31004`) || !strings.Contains(text, `"outcome":"not_sent"`) {
		t.Errorf("the fifth is answered with %d %v %s", resp.StatusCode, resp.Header, text)
	}
	close(proceed)
	wg.Wait()
	v.want(modernCall("6", "server/discover", ""), http.StatusOK, `"complete"`)
}

func TestRequestsAtOnceAreBoundedByDefault(t *testing.T) {
	if got := (&streamable.Server{}).BaseOptions().MaxRequests; got != streamable.DefaultMaxConcurrent {
		t.Errorf("%d are served at once, want %d", got, streamable.DefaultMaxConcurrent)
	}
}

// With negative limits nothing is cut, however long it takes, and nobody is too many.
func TestNegativeMeansNone(t *testing.T) {
	peer := dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == protocol.MethodInitialize {
			return opened(req)
		}
		time.Sleep(time.Hour)
		return req.Reply(map[string]string{"resultType": "complete"})
	}}
	s := &streamable.Server{
		Sessions: peertest.Accept(peer), Requests: peer,
		MaxSessions: -1, MaxRequests: -1, MaxConcurrent: -1,
		IdleTimeout: -1, BodyTimeout: -1, WriteTimeout: -1, KeepAlive: -1, Retry: -1,
	}
	inBubble(t, s, func(t *testing.T, b *bubble) {
		headers := b.dial().hello()
		stream := b.dial()
		if _, err := io.WriteString(stream, request(http.MethodGet, headers, "")); err != nil {
			t.Fatal(err)
		}
		whole := request(http.MethodPost, headers, ping)
		slow := b.dial()
		if _, err := io.WriteString(slow, whole[:len(whole)-1]); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if _, err := io.WriteString(slow, whole[len(whole)-1:]); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(slow.r, nil)
		if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/json" {
			t.Fatalf("after an hour of silence: %v, %v", resp, err)
		}
		resp, err = http.ReadResponse(stream.r, nil)
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Shutdown(context.Background()) }() // ends with the requests
		text, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != http.StatusOK || strings.Contains(string(text), "keep-alive") || strings.Contains(string(text), "retry") {
			t.Errorf("the stream is %d %q", resp.StatusCode, text)
		}
	})
}

// failingWriter is a connection that is broken when the answer is written.
type failingWriter struct {
	header  http.Header
	headers int // how often WriteHeader was called
}

func (w *failingWriter) Header() http.Header       { return w.header }
func (w *failingWriter) WriteHeader(int)           { w.headers++ }
func (w *failingWriter) Write([]byte) (int, error) { return 0, errors.New("broken") }
func (w *failingWriter) FlushError() error         { return errors.New("broken") }

func TestFailedWriteIsTheEndOfTheAnswer(t *testing.T) {
	refuse := dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) { return nil, errors.New("no") })
	peer := dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		return opened(req)
	}}
	for name, s := range map[string]*streamable.Server{"refused": {Sessions: refuse}, "opened": {Sessions: peertest.Accept(peer), MaxSessions: 1}} {
		for range 2 { // a session whose id nobody was told has no place
			r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(initialize(protocol.LatestLegacy, "{}")))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			w := &failingWriter{header: http.Header{}}
			s.ServeHTTP(w, r)
			if w.headers != 1 || w.header.Get("Retry-After") != "" {
				t.Errorf("%s: %d headers were written, want 1: %v", name, w.headers, w.header)
			}
		}
		_ = s.Shutdown(t.Context())
	}
}

func TestRunningStreamOutlivesManyOthers(t *testing.T) {
	v, proceed, _ := talking(t, nil)
	ctx, drop := context.WithCancel(t.Context())
	stream := v.events(v.do(ctx, http.MethodPost, fmt.Sprintf(toolCall, 1)))
	first := stream.next()
	close(proceed["2"]) // the others end at once
	for i := range 70 {
		if _, text := v.post(fmt.Sprintf(toolCall, 2)); !strings.Contains(text, `"id":2,"result"`) {
			t.Fatalf("call %d: %s", i, text)
		}
	}
	proceed["1"] <- struct{}{}
	second := stream.next()
	drop()
	resumed := v.events(v.with(protocol.HeaderLastEventID, first.ID).do(t.Context(), http.MethodGet, ""))
	if again := resumed.next(); again.ID != second.ID || string(again.Data) != string(second.Data) {
		t.Errorf("resumed with %+v, want %+v", again, second)
	}
	proceed["1"] <- struct{}{}
	resumed.next()
	proceed["1"] <- struct{}{}
	if m := resumed.message(); m.Kind() != dragoman.Response {
		t.Errorf("the stream ends with %s", m)
	}
	resumed.end()
}

func TestSessionThatNobodyKnowsIsEnded(t *testing.T) {
	for name, before := range map[string]time.Duration{"before the answer": time.Second, "when the answer is a stream": 20 * time.Second} {
		t.Run(name, func(t *testing.T) {
			conns, ended := make(chan dragoman.Conn, 2), make(chan error, 1)
			var calls atomic.Int32
			s := &streamable.Server{MaxSessions: 1, Sessions: dragoman.AcceptFunc(func(_ context.Context, c dragoman.Conn) (dragoman.Peer, error) {
				conns <- c
				return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
					if calls.Add(1) == 1 {
						select {
						case <-time.After(time.Minute):
						case <-ctx.Done():
						}
						ended <- ctx.Err()
					}
					return opened(req)
				}}, nil
			})}
			inBubble(t, s, func(t *testing.T, b *bubble) {
				w := b.dial()
				if _, err := io.WriteString(w, request(http.MethodPost, "", initialize(protocol.LatestLegacy, "{}"))); err != nil {
					t.Fatal(err)
				}
				time.Sleep(before)
				_ = w.Close()
				synctest.Wait()
				select {
				case err := <-ended:
					if err == nil {
						t.Error("the call continued to its end")
					}
				default:
					t.Fatal("the call continues")
				}
				if err := (<-conns).Err(); !errors.Is(err, dragoman.ErrClosed) {
					t.Errorf("the session has %v", err)
				}
				b.dial().hello()
			})
		})
	}
}
