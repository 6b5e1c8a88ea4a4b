package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// told is one notification of a call.
func told(t *testing.T) *dragoman.Message {
	t.Helper()
	note, err := dragoman.NewNotification(protocol.NoteMessage, map[string]any{"level": "info", "data": "begun"})
	if err != nil {
		t.Fatal(err)
	}
	return note
}

func TestS47_StoppingServerSaysWhenToComeBackWhereTheRevisionHasThat(t *testing.T) {
	for _, rev := range protocol.Revisions() {
		if !rev.HasSessions() || !rev.HasStreamableHTTP() {
			continue
		}
		e := builtin.New(nil)
		server := &streamable.Server{Sessions: e, Retry: 1234 * time.Millisecond}
		v := open(t, server).hello(rev)
		stream := v.events(v.do(t.Context(), http.MethodGet, ""))
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
		retry := 0
		for {
			e, err := stream.r.Next()
			if err != nil {
				break
			}
			retry = e.Retry
		}
		if rev.PrimesStreams() != (retry == 1234) {
			t.Errorf("%s: the stream ends with retry %d", rev, retry)
		}
	}
}

func TestS47_CallsThatTakeTooLongAreToldThatTheyAreLost(t *testing.T) {
	began := make(chan struct{}, 4)
	stuck := dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == protocol.MethodInitialize {
			return req.Reply(map[string]any{"protocolVersion": protocol.LatestLegacy.String(), "capabilities": map[string]any{}, "serverInfo": map[string]string{"name": "x", "version": "1"}})
		}
		if req.Method() == protocol.MethodListTools {
			return req.Reply(map[string]any{"resultType": protocol.ResultComplete, "tools": []any{}})
		}
		if req.Name() == "tells" {
			_ = from.Notify(ctx, told(t))
		}
		began <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}
	accept := dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) { return stuck, nil })
	server := &streamable.Server{Sessions: accept, Requests: stuck}
	s := open(t, server)
	v := s.hello(protocol.LatestLegacy)
	answers := make(chan string)
	for _, tool := range []string{"tells", "silent"} {
		go func() { // ends with the answer
			_, text := v.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%q,"method":"tools/call","params":{"name":%q}}`, tool, tool))
			answers <- text
		}()
		go func() { // ends with the answer
			_, text := s.modern("tools/call", tool).post(modernCall("1", "tools/call", fmt.Sprintf(`"name":%q`, tool)))
			answers <- text
		}()
	}
	for range 4 {
		<-began
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- server.Shutdown(ctx) }() // ends when the calls have
	for range 4 {
		if text := <-answers; !strings.Contains(text, `"code":-31003`) {
			t.Errorf("a call is answered with %s", text)
		}
	}
	if err := <-stopped; !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown returned %v", err)
	}
}

func TestS47_ResumedCallIsAnsweredWhileTheServerStops(t *testing.T) {
	let := make(chan struct{})
	peer := dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == protocol.MethodInitialize {
			return req.Reply(map[string]any{"protocolVersion": protocol.LatestLegacy.String(), "capabilities": map[string]any{}, "serverInfo": map[string]string{"name": "x", "version": "1"}})
		}
		_ = from.Notify(ctx, told(t))
		<-let
		return req.Reply(map[string]any{"done": true})
	}}
	accept := dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) { return peer, nil })
	server := &streamable.Server{Sessions: accept}
	v := open(t, server).hello(protocol.LatestLegacy)
	ctx, drop := context.WithCancel(t.Context())
	first := v.events(v.do(ctx, http.MethodPost, fmt.Sprintf(toolCall, 1))).next()
	drop()
	push := v.events(v.do(t.Context(), http.MethodGet, ""))
	resumed := v.events(v.with(protocol.HeaderLastEventID, first.ID).do(t.Context(), http.MethodGet, ""))
	stopped := make(chan error, 1)
	go func() { stopped <- server.Shutdown(context.Background()) }() // ends with the call
	for err := error(nil); err == nil; {                             // it is stopping when this stream has ended
		_, err = push.r.Next()
	}
	close(let)
	if m := resumed.message(); m.Kind() != dragoman.Response || string(m.Get("done")) != "true" {
		t.Errorf("the answer is %s", m)
	}
	resumed.end()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// An initialize whose body comes after Shutdown has begun is told that, not that there
// are too many sessions.
func TestSessionThatComesTooLateIsToldThatTheServerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &streamable.Server{Sessions: newHotel()}
		over := make(chan error, 1)
		body := readerFunc(func(p []byte) (int, error) {
			go func() { over <- s.Shutdown(t.Context()) }() // ends with the request
			synctest.Wait()
			return copy(p, initialize(protocol.LatestLegacy, "{}")), io.EOF
		})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", body)
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if m := peertest.Parse(t, w.Body.String()); w.Code != http.StatusServiceUnavailable || m.ID().String() != "0" || m.RPCError().Code != protocol.CodeDraining {
			t.Errorf("answered with %d %s", w.Code, w.Body)
		}
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
