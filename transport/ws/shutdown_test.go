package ws

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

func TestShutdownLetsRequestsFinishAndCloses1001(t *testing.T) {
	peertest.NoLeak(t)
	h := newBlockingPeer()
	s := &Server{Acceptor: peertest.Accept(h), Requests: h}
	at := serve(t, s)
	busy, tools := rawDial(t, at, mcp), rawDial(t, at)
	idle, silent := rawDial(t, at, mcp), rawDial(t, at)
	idle.sendText(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	_ = idle.message()
	busy.sendText(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`)
	tools.sendText(`{"id":1,"name":"slow"}`)
	peertest.Receive(t, h.began, "the first request")
	peertest.Receive(t, h.began, "the second request")
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	for _, r := range []*raw{idle, silent} {
		if reason := r.wantClose(1001); !strings.Contains(reason, "stopping") {
			t.Errorf("the reason is %q", reason)
		}
	}
	if status, header, body := doRequest(t, "GET", at, nil); status != 503 || !strings.Contains(body, "-31005") || header.Get("Retry-After") == "" {
		t.Errorf("a new client got %d %v %s", status, header, body)
	}
	select {
	case err := <-stopped:
		t.Fatalf("Shutdown returned %v while requests were in flight", err)
	default:
	}
	close(h.let)
	for _, r := range []*raw{busy, tools} {
		r.want(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"let"}]}}`)
		r.wantClose(1001)
	}
	if err := peertest.Receive(t, stopped, "Shutdown returns"); err != nil {
		t.Error(err)
	}
}

func TestShutdownThatTakesTooLongCutsTheRest(t *testing.T) {
	peertest.NoLeak(t)
	h := newBlockingPeer()
	accepting := make(chan struct{}, 1)
	s := &Server{Requests: h, Acceptor: dragoman.AcceptFunc(func(ctx context.Context, _ dragoman.Conn) (dragoman.Peer, error) {
		accepting <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})}
	at := serve(t, s)
	tools, stuck := rawDial(t, at), rawDial(t, at, mcp)
	tools.sendText(`{"id":1,"name":"slow"}`)
	peertest.Receive(t, h.began, "the request")
	peertest.Receive(t, accepting, "Accept is called")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(ctx) }()
	if err := peertest.Receive(t, h.ended, "the context of the request ends"); !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("it ended because of %v", err)
	}
	if last := tools.message(); !strings.Contains(last, "-31003") {
		t.Errorf("the last that the client hears is %s", last)
	}
	tools.wantClose(1001)
	stuck.wantClose(1001)
	if err := peertest.Receive(t, stopped, "Shutdown returns"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown returned %v", err)
	}
}

// What belongs to requests in flight still counts: they would not end otherwise.
func TestAnswersAndCancelsCountWhileTheServerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan error, 1)
		s := &Server{Acceptor: peertest.Accept(dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
			if req.Method() == "wait" {
				<-ctx.Done()
				ended <- context.Cause(ctx)
				return nil, context.Cause(ctx)
			}
			question, err := dragoman.NewRequest(dragoman.IntID(1), "roots/list", nil)
			if err != nil {
				return nil, err
			}
			resp, err := from.Call(ctx, question, nil)
			if err != nil {
				return nil, err
			}
			return resp.WithID(req.ID()), nil
		}})}
		r := rawIn(t, inMemory(t, s, &http.Server{}), mcp)
		r.sendText(`{"jsonrpc":"2.0","id":7,"method":"wait"}`)
		r.sendText(`{"jsonrpc":"2.0","id":8,"method":"ask"}`)
		question := peertest.Parse(t, r.message())
		stopped := make(chan error, 1)
		go func() { stopped <- s.Shutdown(t.Context()) }()
		synctest.Wait()
		r.sendText(`{"jsonrpc":"2.0","id":9,"method":"wait"}`)
		if refused := r.message(); !strings.Contains(refused, `"id":9,`) || !strings.Contains(refused, "-31005") {
			t.Errorf("a request while stopping: %s", refused)
		}
		r.sendText(`{"jsonrpc":"2.0","id":` + question.ID().String() + `,"result":{"roots":[]}}`)
		r.want(`{"jsonrpc":"2.0","id":8,"result":{"roots":[]}}`)
		r.sendText(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
		if err := <-ended; !errors.Is(err, dragoman.ErrCancelled) {
			t.Errorf("the request ended because of %v", err)
		}
		r.wantClose(1001)
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
}

func TestShutdownObeysItsContext(t *testing.T) {
	large := []byte(`{"text":"` + strings.Repeat("x", 1<<20) + `"}`)
	for _, test := range []struct {
		name string
		call func(*dragoman.Message) (*dragoman.Message, error)
	}{
		{"a client that reads nothing", func(req *dragoman.Message) (*dragoman.Message, error) { return req.Reply(large) }},
		{"a call that ignores its context", func(req *dragoman.Message) (*dragoman.Message, error) {
			time.Sleep(time.Hour) // of the bubble
			return req.Reply(nil)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &Server{PingInterval: -1, Acceptor: peertest.Accept(dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
					return test.call(req)
				}})}
				r := rawIn(t, inMemory(t, s, &http.Server{}), mcp)
				r.sendText(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				began := time.Now()
				if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("Shutdown returned %v", err)
				}
				if took := time.Since(began); took > 700*time.Millisecond {
					t.Errorf("Shutdown took %v", took)
				}
				time.Sleep(2 * time.Hour) // so that the call ends
			})
		})
	}
}

func TestNegativeMeansNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Server{Acceptor: peertest.Accept(echoes), MaxConns: -1, PingInterval: -1, WriteTimeout: -1}
		r := rawIn(t, inMemory(t, s, &http.Server{}), mcp)
		time.Sleep(time.Hour) // of the bubble
		r.wantOpen()
	})
}
