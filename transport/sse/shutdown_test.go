package sse

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
)

func TestShutdownLetsRequestsFinish(t *testing.T) {
	peertest.NoLeak(t)
	began, let := make(chan struct{}, 2), make(chan struct{})
	s, at := serve(t, &Server{Acceptor: peertest.Accept(dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == "ping" {
			began <- struct{}{}
			<-let
		}
		return req.Reply(nil)
	}})})
	w := newTestServer(t)
	busy, idle := w.stream(at+"/sse"), w.stream(at+"/sse")
	w.post(busy.endpoint, ping)
	answered := make(chan string, 1)
	go func() {
		_, _, text := w.do("POST", at+"/messages", ping)
		answered <- text
	}()
	peertest.Receive(t, began, "the first request begins")
	peertest.Receive(t, began, "the second request begins")
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	idle.wantEnd()
	for _, endpoint := range [][2]string{{"GET", at + "/sse"}, {"POST", at + "/messages"}} {
		if status, _, text := w.do(endpoint[0], endpoint[1], ping); status != http.StatusServiceUnavailable || !strings.Contains(text, "-31005") {
			t.Errorf("%s %s while stopping: %d %s", endpoint[0], endpoint[1], status, text)
		}
	}
	w.post(busy.endpoint, strings.Replace(ping, "1", "2", 1))
	if e := busy.next(); !strings.Contains(string(e.Data), `"id":2,`) || !strings.Contains(string(e.Data), "-31005") {
		t.Errorf("a request of a session while stopping: %s", e.Data)
	}
	close(let)
	busy.want(pong)
	busy.wantEnd()
	if text := peertest.Receive(t, answered, "the request without a session is answered"); text != pong {
		t.Errorf("answered %s", text)
	}
	if err := peertest.Receive(t, stopped, "Shutdown returns"); err != nil {
		t.Error(err)
	}
}

// What belongs to requests in flight still counts: they would not end otherwise.
func TestAnswersAndCancelsCountWhileTheServerStops(t *testing.T) {
	peertest.NoLeak(t)
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	s, at := serve(t, &Server{Acceptor: peertest.Accept(dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == "wait" {
			began <- struct{}{}
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
	}})})
	w := newTestServer(t)
	c := w.stream(at + "/sse")
	w.post(c.endpoint, `{"jsonrpc":"2.0","id":7,"method":"wait"}`)
	peertest.Receive(t, began, "the request begins")
	w.post(c.endpoint, `{"jsonrpc":"2.0","id":8,"method":"ask"}`)
	question := c.asked("roots/list")
	stopped := make(chan error, 1)
	go func() { stopped <- s.Shutdown(t.Context()) }()
	for status := 0; status != http.StatusServiceUnavailable; {
		status, _, _ = w.do("POST", at+"/messages", ping)
	}
	w.post(c.endpoint, `{"jsonrpc":"2.0","id":`+question+`,"result":{"roots":[]}}`)
	c.want(`{"jsonrpc":"2.0","id":8,"result":{"roots":[]}}`)
	w.post(c.endpoint, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}`)
	if err := peertest.Receive(t, ended, "the request ends"); !errors.Is(err, dragoman.ErrCancelled) {
		t.Errorf("the request ended because of %v", err)
	}
	c.wantEnd()
	if err := peertest.Receive(t, stopped, "Shutdown returns"); err != nil {
		t.Error(err)
	}
}

func TestShutdownThatTakesTooLongEndsTheRest(t *testing.T) {
	peertest.NoLeak(t)
	began := make(chan struct{}, 1)
	s, at := serve(t, &Server{Acceptor: peertest.Accept(dragoman.Funcs{OnCall: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		began <- struct{}{}
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}})})
	w := newTestServer(t)
	c := w.stream(at + "/sse")
	w.post(c.endpoint, ping)
	peertest.Receive(t, began, "the request begins")
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
