package sse

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/peertest"
)

func TestShutdownLetsRequestsFinish(t *testing.T) {
	peertest.NoLeak(t)
	began, let := make(chan struct{}, 2), make(chan struct{})
	s, at := serve(t, &Server{Acceptor: accept(dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == "ping" {
			began <- struct{}{}
			<-let
		}
		return req.Reply(nil)
	}})})
	w := newWeb(t)
	busy, idle := w.stream(at+"/sse"), w.stream(at+"/sse")
	w.post(busy.endpoint, ping)
	answered := make(chan string, 1)
	go func() {
		_, _, text := w.do("POST", at+"/messages", ping)
		answered <- text
	}()
	wait(t, began, "the first request begins")
	wait(t, began, "the second request begins")
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	idle.wantEnd()
	for _, door := range [][2]string{{"GET", at + "/sse"}, {"POST", busy.endpoint}, {"POST", at + "/messages"}} {
		if status, _, text := w.do(door[0], door[1], ping); status != http.StatusServiceUnavailable || !strings.Contains(text, "-31005") {
			t.Errorf("%s %s while stopping: %d %s", door[0], door[1], status, text)
		}
	}
	close(let)
	busy.want(pong)
	busy.wantEnd()
	if text := wait(t, answered, "the request without a session is answered"); text != pong {
		t.Errorf("answered %s", text)
	}
	if err := wait(t, stopped, "Shutdown returns"); err != nil {
		t.Error(err)
	}
}

func TestShutdownThatTakesTooLongEndsTheRest(t *testing.T) {
	peertest.NoLeak(t)
	began := make(chan struct{}, 1)
	s, at := serve(t, &Server{Acceptor: accept(dragoman.Funcs{OnCall: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		began <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}})})
	w := newWeb(t)
	c := w.stream(at + "/sse")
	w.post(c.endpoint, ping)
	wait(t, began, "the request begins")
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Shutdown returned %v", err)
	}
	var last string
	for e := range c.events {
		last = string(e.Data)
	}
	if !strings.Contains(last, "-31003") {
		t.Errorf("the last that the client hears is %s", last)
	}
}
