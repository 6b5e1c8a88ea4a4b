package checklist

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

func dropRejectsWhatIsPending(t *testing.T) {
	for dialect, tools := range dialects {
		s, conn := scriptSocket(t, &ws.Client{Tools: tools})
		var done []<-chan reply
		for i := range 5 {
			done = append(done, begin(t, conn, request(t, fmt.Sprint(i), "t", `{}`), nil))
			s.expect()
		}
		_ = s.conn.Close()
		for i, d := range done {
			r := wait(t, d, "the end of a call")
			wantClosed(t, dialect, r.err)
			wantError(t, protocol.Failure(request(t, fmt.Sprint(i), "t", `{}`), r.err), protocol.CodeLost, "lost without a close")
		}
		wait(t, conn.Done(), "the end of the conversation")
		_, err := conn.Call(t.Context(), request(t, `9`, "t", `{}`), nil)
		wantClosed(t, dialect+": a call afterwards", err)
	}
}

func socketsCloseWithFittingCodes(t *testing.T) {
	server := &ws.Server{Requests: builtIn(), Acceptor: builtin.New(nil), MaxMessage: 1000}
	url := serve(t, server, server.Shutdown)
	// What is wrong with a frame is told, and the socket goes on.
	s := openSocket(t, url)
	s.say(`{"id":1,"name":"echo","arguments":{"text":"x"}}`)
	wantText(t, parse(t, s.expect()), `1`, "x")
	for _, bad := range []string{`{"id":2}`, `{"id":2,"name":7}`, `{"name":"echo"}`, `{"id":2,"name":"echo","arguments":[]}`, `not JSON`, `[]`} {
		s.say(bad)
		if text := s.expect(); !fits(toolErrorSchema, text) {
			t.Errorf("%s is answered by %s", bad, text)
		}
		s.say(`{"id":3,"name":"echo","arguments":{"text":"x"}}`)
		wantText(t, parse(t, s.expect()), `3`, "x")
	}
	// What is wrong with the socket ends it.
	s.send(binaryFrame, `{"id":4,"name":"echo"}`)
	s.wantClose(1003)
	s = openSocket(t, url)
	s.say("\xff\xfe")
	s.wantClose(1007)
	s = openSocket(t, url)
	s.say(`{"id":5,"name":"` + strings.Repeat("x", 1000) + `"}`)
	s.wantClose(1009)
	s = openSocket(t, url)
	s.send(0x83, "") // a frame of a kind that does not exist
	s.wantClose(1002)
	s = openSocket(t, url)
	s.say(`{"id":1,"name":"echo","arguments":{"text":"x"}}`)
	wantText(t, parse(t, s.expect()), `1`, "x")
	stopped := make(chan error, 1)
	go func() { // ends when the close is answered
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		stopped <- server.Shutdown(ctx)
	}()
	s.wantClose(1001)
	if err := wait(t, stopped, "the end of Shutdown"); err != nil {
		t.Error(err)
	}
	// A fault of the server is 1011.
	broken := &ws.Server{Acceptor: dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
		return nil, errors.New("out of order")
	})}
	s = openSocket(t, serve(t, broken, broken.Shutdown), "Sec-WebSocket-Protocol: mcp")
	if reason := s.wantClose(1011); reason == "" || strings.Contains(reason, "out of order") {
		t.Errorf("the client is told %q", reason)
	}
}

func closesReachCallers(t *testing.T) {
	for dialect, tools := range dialects {
		// By the API: an error that knows the code.
		s, conn := scriptSocket(t, &ws.Client{Tools: tools})
		done := begin(t, conn, request(t, `1`, "t", `{}`), nil)
		s.expect()
		s.send(closeFrame, closing(1011, "out of memory"))
		r := wait(t, done, "the end of the call")
		wantClosed(t, dialect, r.err)
		if c, ok := errors.AsType[*ws.CloseError](r.err); !ok || c.Code != 1011 || c.Reason != "out of memory" {
			t.Errorf("%s: the call ended with %v", dialect, r.err)
		}
	}
	// And as payloads, where somebody speaks to the socket through a bridge.
	for _, c := range []struct {
		name string
		end  func(s *rawSocket, id string)
		code int
		says string
	}{
		{"a close", func(s *rawSocket, _ string) { s.send(closeFrame, closing(1011, "out of memory")) }, protocol.CodeLost, "1011: out of memory"},
		{"a drop", func(s *rawSocket, _ string) { _ = s.conn.Close() }, protocol.CodeLost, "lost"},
		{"an error", func(s *rawSocket, id string) {
			s.say(`{"jsonrpc":"2.0","id":` + id + `,"error":{"code":4711,"message":"out of paper"}}`)
		}, 4711, "out of paper"},
	} {
		s, conn := scriptSocket(t, &ws.Client{Tools: true})
		url := serveTools(t, conn)
		answered := make(chan exchange, 1)
		req := request(t, `"x"`, "t", `{}`).String()
		go func() { // ends with the answer
			a, err := try(t.Context(), http.MethodPost, url, req, "Content-Type", jsonType)
			if err != nil {
				t.Error(err)
			}
			answered <- a
		}()
		c.end(s, idOf(t, s.expect()))
		a := wait(t, answered, "the answer after "+c.name)
		m := parse(t, a.body)
		if wantError(t, m, c.code, c.says); m.ID().String() != `"x"` || a.status < 500 {
			t.Errorf("%s becomes %d %s", c.name, a.status, a.body)
		}
		if c.code != protocol.CodeLost {
			continue
		}
		if a = post(t, url, req); a.status != http.StatusBadGateway || !fits(toolErrorSchema, a.body) {
			t.Errorf("a call after %s gets %d %s", c.name, a.status, a.body)
		}
	}
}
