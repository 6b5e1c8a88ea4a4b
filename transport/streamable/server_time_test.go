package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/memnet"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

func TestS12_SlowBodiesAreCutEachInItsTime(t *testing.T) {
	inBubble(t, &streamable.Server{Sessions: builtin.New(nil), BodyTimeout: 10 * time.Second}, func(t *testing.T, b *bubble) {
		headers := b.dial().hello()
		start := time.Now()
		whole := request(http.MethodPost, headers, echoCall("1", "hi"))
		var wg sync.WaitGroup
		for i, cut := range []int{len(whole) - len(echoCall("1", "hi")), len(whole) - 1, len(whole)} {
			w := b.dial()
			if _, err := io.WriteString(w, whole[:cut]); err != nil {
				t.Fatal(err)
			}
			status, want := http.StatusRequestTimeout, time.Duration(i)*time.Second+10*time.Second
			if cut == len(whole) {
				status, want = http.StatusOK, time.Duration(i)*time.Second
			}
			wg.Go(func() {
				resp, err := http.ReadResponse(w.r, nil)
				if err != nil || resp.StatusCode != status || time.Since(start) != want {
					t.Errorf("%d bytes of %d: after %v %v, %v; want %d after %v", cut, len(whole), time.Since(start), resp, err, status, want)
				}
			})
			time.Sleep(time.Second)
		}
		wg.Wait()
	})
}

func TestEachAnswerBecomesAStreamAfterItsOwnSilence(t *testing.T) {
	answer := func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		seconds, _ := req.ID().Int()
		select {
		case <-time.After(time.Duration(seconds) * time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		return req.Reply(map[string]string{"resultType": "complete"})
	}
	inBubble(t, &streamable.Server{Requests: dragoman.Funcs{OnCall: answer}}, func(t *testing.T, b *bubble) {
		headers := protocol.HeaderVersion + ": " + protocol.Latest.String() + "\r\n" + protocol.HeaderMethod + ": server/discover\r\n"
		start := time.Now()
		var wg sync.WaitGroup
		for i, test := range []struct {
			takes, begins time.Duration
			kind          string
		}{
			{40, 15, "text/event-stream"}, {14, 14, "application/json"}, {1, 1, "application/json"}, {20, 15, "text/event-stream"},
		} {
			after := time.Duration(i) * time.Second
			w := b.dial()
			wg.Go(func() {
				if _, err := io.WriteString(w, request(http.MethodPost, headers, modernCall(fmt.Sprint(int(test.takes)), "server/discover", ""))); err != nil {
					t.Error(err)
					return
				}
				resp, err := http.ReadResponse(w.r, nil)
				if err != nil {
					t.Error(err)
					return
				}
				if d, kind := time.Since(start)-after, resp.Header.Get("Content-Type"); d != test.begins*time.Second || kind != test.kind {
					t.Errorf("the answer that takes %d s is %s after %v, want %s after %d s", test.takes, kind, d, test.kind, test.begins)
				}
				if text, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(text), `"complete"`) {
					t.Errorf("it is %q, %v", text, err)
				}
				if d := time.Since(start) - after; d != test.takes*time.Second {
					t.Errorf("it took %v, want %d s", d, test.takes)
				}
			})
			time.Sleep(time.Second)
		}
		wg.Wait()
	})
}

// What a peer sees of the end of a request, if it asks in no other way before.
func TestPeerSeesTheEndOfItsRequest(t *testing.T) {
	synctest.Test(t, peerSeesTheEnd)
}

func peerSeesTheEnd(t *testing.T) {
	type key struct{}
	contexts := make(chan context.Context, 1)
	seen := make(chan error, 1)
	answer := func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		switch req.Name() {
		case "keep":
			contexts <- ctx
		case "value":
			return req.Reply(map[string]any{"value": ctx.Value(key{})})
		case "poll":
			for ctx.Err() == nil {
				time.Sleep(time.Second)
			}
			seen <- context.Cause(ctx)
			return nil, ctx.Err()
		case "child":
			child, cancel := context.WithCancel(ctx)
			defer cancel()
			<-child.Done()
			seen <- context.Cause(child)
			return nil, child.Err()
		}
		return req.Reply(map[string]string{"resultType": "complete", "protocolVersion": protocol.LatestLegacy.String()})
	}
	peer := dragoman.Funcs{OnCall: answer}
	s := &streamable.Server{Requests: peer, Sessions: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) { return peer, nil })}
	l := memnet.Listen()
	h := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), key{}, "kept")))
	})}
	done := make(chan struct{})
	go func() { // ends with h.Close
		defer close(done)
		_ = h.Serve(l)
	}()
	b := &bubble{Listener: l, t: t}
	w := b.dial()
	legacy := w.hello()
	modern := func(name string) string {
		return protocol.HeaderVersion + ": " + protocol.Latest.String() + "\r\n" + protocol.HeaderMethod + ": tools/call\r\n" + protocol.HeaderName + ": " + name + "\r\n"
	}
	call := func(name string) string { return modernCall("1", "tools/call", `"name":"`+name+`"`) }
	old := func(name string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `"}}`
	}

	w.roundTrip(modern("keep"), call("keep"))
	if err := (<-contexts).Err(); !errors.Is(err, context.Canceled) {
		t.Errorf("after the call of the modern era the context has %v", err)
	}
	w.roundTrip(legacy, old("keep"))
	select {
	case <-(<-contexts).Done():
	case <-time.After(time.Minute):
		t.Error("after the call of the legacy era the context continues")
	}
	if _, text := w.roundTrip(modern("value"), call("value")); !strings.Contains(text, `"value":"kept"`) {
		t.Errorf("the value of the HTTP request's context: %s", text)
	}
	for _, name := range []string{"poll", "child"} {
		gone := b.dial()
		if _, err := io.WriteString(gone, request(http.MethodPost, modern(name), call(name))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		_ = gone.Close()
		if err := <-seen; !errors.Is(err, dragoman.ErrCancelled) {
			t.Errorf("modern, %s: a client that leaves is seen as %v", name, err)
		}
		busy := b.dial()
		if _, err := io.WriteString(busy, request(http.MethodPost, legacy, old(name))); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.roundTrip(legacy, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		if err := <-seen; !errors.Is(err, dragoman.ErrCancelled) {
			t.Errorf("legacy, %s: a cancel is seen as %v", name, err)
		}
		_ = busy.Close()
		synctest.Wait() // until then the id is that of a running call
	}
	last := b.dial()
	if _, err := io.WriteString(last, request(http.MethodPost, legacy, old("poll"))); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	_, _ = io.WriteString(w, request(http.MethodDelete, legacy, ""))
	if err := <-seen; !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("the end of the session is seen as %v", err)
	}
	_ = last.Close()
	_ = w.Close()
	_ = h.Close()
	<-done
	_ = s.Shutdown(t.Context())
}
