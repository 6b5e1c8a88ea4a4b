package ws

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/peertest"
)

func TestShutdownLetsRequestsFinishAndCloses1001(t *testing.T) {
	peertest.NoLeak(t)
	h := newHolding()
	s := &Server{Acceptor: accept(h), Requests: h}
	at := serve(t, s)
	busy, tools := rawDial(t, at, mcp), rawDial(t, at)
	idle, silent := rawDial(t, at, mcp), rawDial(t, at)
	idle.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	_ = idle.message()
	busy.say(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow"}}`)
	tools.say(`{"id":1,"name":"slow"}`)
	wait(t, h.began, "the first request")
	wait(t, h.began, "the second request")
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	for _, r := range []*raw{idle, silent} {
		if reason := r.wantClose(1001); !strings.Contains(reason, "stopping") {
			t.Errorf("the reason is %q", reason)
		}
	}
	if status, header, body := knock(t, "GET", at, nil); status != 503 || !strings.Contains(body, "-31005") || header.Get("Retry-After") == "" {
		t.Errorf("a new client got %d %v %s", status, header, body)
	}
	select {
	case err := <-stopped:
		t.Fatalf("Shutdown returned %v while requests were under way", err)
	default:
	}
	close(h.let)
	for _, r := range []*raw{busy, tools} {
		r.want(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"let"}]}}`)
		r.wantClose(1001)
	}
	if err := wait(t, stopped, "Shutdown returns"); err != nil {
		t.Error(err)
	}
}

func TestShutdownThatTakesTooLongCutsTheRest(t *testing.T) {
	peertest.NoLeak(t)
	h := newHolding()
	accepting := make(chan struct{}, 1)
	s := &Server{Requests: h, Acceptor: dragoman.AcceptFunc(func(ctx context.Context, _ dragoman.Conn) (dragoman.Peer, error) {
		accepting <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	})}
	at := serve(t, s)
	tools, stuck := rawDial(t, at), rawDial(t, at, mcp)
	tools.say(`{"id":1,"name":"slow"}`)
	wait(t, h.began, "the request")
	wait(t, accepting, "Accept is called")
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(ctx) }()
	if err := wait(t, h.ended, "the context of the request ends"); !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("it ended because of %v", err)
	}
	if last := tools.message(); !strings.Contains(last, "-31003") {
		t.Errorf("the last that the client hears is %s", last)
	}
	tools.wantClose(1001)
	stuck.wantClose(1001)
	if err := wait(t, stopped, "Shutdown returns"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown returned %v", err)
	}
}
