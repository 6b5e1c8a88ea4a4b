//go:build unix

package gateway

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// closedWith reads to the end of a socket and returns the code that it is closed with.
func closedWith(s *gatewaytest.Socket) (int, error) {
	for {
		_, err := s.Message()
		if code, ok := errors.AsType[gatewaytest.ClosedError](err); ok {
			return int(code), nil
		}
		if err != nil {
			return 0, err
		}
	}
}

// TestS20_SocketsAreLetInByHeadersAlone asks for a WebSocket with a wrong origin, without a
// token, and with one in the URL.
func TestS20_SocketsAreLetInByHeadersAlone(t *testing.T) {
	t.Parallel() // with a gateway of its own
	const token = "a-token-of-some-length-0123456789"
	file := t.TempDir() + "/tokens"
	writeFile(t, file, token+"\n")
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{
		"auth":    object{"tokenFile": file},
		"servers": object{server: child(t, fault.Legacy, newJournal(t))},
	}})
	g.Leave() // its probes have no token
	bearer := "Authorization: Bearer " + token
	for _, path := range []string{"/ws", "/servers/" + server + "/ws"} {
		for name, row := range map[string]struct {
			path   string
			lines  []string
			status int
		}{
			"a token":                        {path, []string{bearer}, 101},
			"no token":                       {path, nil, 401},
			"a token in the URL":             {path + "?token=" + token, nil, 401},
			"a token in the URL, by OAuth":   {path + "?access_token=" + token, nil, 401},
			"a token as a subprotocol":       {path, []string{"Sec-WebSocket-Protocol: mcp, " + token}, 401},
			"a token in a cookie":            {path, []string{"Cookie: Authorization=" + token}, 401},
			"a foreign page with a token":    {path, []string{bearer, "Origin: http://evil.example"}, 403},
			"a page that has no origin":      {path, []string{bearer, "Origin: null"}, 403},
			"another name with a token":      {path, []string{bearer, "Host: evil.example"}, 403},
			"another subprotocol":            {path, []string{bearer, "Sec-WebSocket-Protocol: graphql-ws"}, 101},
			"two tokens, one of which wrong": {path, []string{bearer, "Authorization: Bearer x"}, 401},
		} {
			s, resp := g.Upgrade(row.path, row.lines...)
			if resp.StatusCode != row.status {
				t.Errorf("%s at %s: %s, want %d", name, path, resp.Status, row.status)
			}
			if got := resp.Header.Get("Sec-WebSocket-Protocol"); got != "" {
				t.Errorf("%s at %s: the subprotocol %q was not offered", name, path, got)
			}
			if s != nil {
				_ = s.Close()
			}
		}
	}
}

// TestS20_SocketsAreClosedWhenTheyMisbehave sends frames that are too large, binary, or far
// too many.
func TestS20_SocketsAreClosedWhenTheyMisbehave(t *testing.T) {
	t.Parallel() // with a gateway of its own
	j := newJournal(t)
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"limits": object{"message": "4MiB"}, "servers": object{server: child(t, fault.Legacy, j)}}})
	path := "/servers/" + server + "/ws"
	greeted := func() *gatewaytest.Socket {
		t.Helper()
		s, resp := g.Upgrade(path)
		if s == nil {
			t.Fatal(resp.Status)
		}
		s.Ask(t, helloText())
		if err := s.Send(gatewaytest.TextFrame, `{"jsonrpc":"2.0","method":"notifications/initialized"}`); err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := gatewaytest.Resident(g.PID())
	for name, row := range map[string]struct {
		first   byte
		payload string
		code    int
	}{
		"too large":   {gatewaytest.TextFrame, strings.Repeat("x", 4<<20+1), 1009},
		"binary":      {gatewaytest.BinaryFrame, helloText(), 1003},
		"not UTF-8":   {gatewaytest.TextFrame, "\xff\xfe", 1007},
		"no such":     {0x83, "x", 1002},
		"a long ping": {gatewaytest.PingFrame, strings.Repeat("x", 126), 1002},
	} {
		s := greeted()
		_ = s.Send(row.first, row.payload) // it may be cut in the middle
		if code, err := closedWith(s); code != row.code {
			t.Errorf("%s: closed with %d, %v; want %d", name, code, err, row.code)
		}
	}
	flood := greeted()
	read := make(chan struct{})
	go func() { // ends with the socket
		defer close(read)
		_, _ = io.Copy(io.Discard, flood.Conn)
	}()
	for range gatewaytest.Size(10_000, 1000) {
		if flood.Send(gatewaytest.PingFrame, "x") != nil {
			break // or it is cut for that
		}
	}
	_ = flood.Close()
	<-read
	if grown := gatewaytest.Resident(g.PID()) - before; grown > int64(gatewaytest.Size(32, 64))<<20 {
		t.Errorf("memory grew by %d MiB", grown>>20)
	}
	s := greeted()
	for i := range 2 {
		if err := s.Send(gatewaytest.TextFrame, alikeCall("sleep", object{"ms": 300, "text": fmt.Sprint("number ", i)}, nil)); err != nil {
			t.Fatal(err)
		}
	}
	var answers []string
	for range 2 {
		text, err := s.Message()
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, text)
	}
	if r := errorOf(answers[0]); r.code != protocol.CodeInvalidRequest || !strings.Contains(answers[1], "number 0") {
		t.Errorf("two requests with one id: %q", answers)
	}
	if err := s.Send(gatewaytest.TextFrame, alikeCall("count", object{"key": "left", "ms": forever}, nil)); err != nil {
		t.Fatal(err)
	}
	gatewaytest.Eventually(t, func() error { return wrote(j, fault.Ran, "left") })
	_ = s.Close()
	gatewaytest.Eventually(t, func() error { return wrote(j, fault.Cancelled, "left") })
}

// wrote returns an error unless a thing is in the journal.
func wrote(j fault.Journal, what, key string) error {
	if len(j.Of(what, key)) == 0 {
		return fmt.Errorf("nobody has written that %q %s", key, what)
	}
	return nil
}
