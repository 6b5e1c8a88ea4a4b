package checklist

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// result is the answer to a call over a socket, whose text is the id.
func result(id string) string {
	return `{"jsonrpc":"2.0","id":` + id + `,"result":{"content":[{"type":"text","text":` + quote(id) + `}]}}`
}

// idOf returns the id of a frame as JSON text.
func idOf(t *testing.T, frame string) string {
	t.Helper()
	var f struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(frame), &f); err != nil {
		t.Fatalf("%v: %s", err, frame)
	}
	return string(f.ID)
}

// dialects are the ways in which our client speaks, by whether they are tool
// frames.
var dialects = map[string]bool{"JSON-RPC": false, "tool frames": true}

func callsNeedAnOpenSocket(t *testing.T) {
	for dialect, tools := range dialects {
		// Before the server has opened the socket there is nothing to call.
		s, _, opened := knock(t, &ws.Client{Tools: tools})
		select {
		case d := <-opened:
			t.Fatalf("%s: Dial returned %v, %v before the socket was open", dialect, d.conn, d.err)
		default:
		}
		s.write([]byte("HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n\r\nkeep out"))
		d := wait(t, opened, "the end of Dial")
		if refused, ok := errors.AsType[*protocol.StatusError](d.err); !ok || refused.Status != http.StatusForbidden || d.conn != nil {
			t.Errorf("%s: Dial returned %v, %v, want the status 403", dialect, d.conn, d.err)
		}

		// Open, it is ready at once.
		s, conn := scriptSocket(t, &ws.Client{Tools: tools})
		done := begin(t, conn, request(t, `"x"`, "t", `{}`), nil)
		id := idOf(t, s.expect())
		s.say(result(id))
		wantText(t, wait(t, done, "the answer").resp, `"x"`, id)

		// Closed by our side: nothing is sent any more.
		s.wantFarewell(conn)
		_, err := conn.Call(t.Context(), request(t, `1`, "t", `{}`), nil)
		wantClosed(t, dialect+": a call after our close", err)
		if first, payload, err := s.next(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: after the close came frame %#x %q (%v)", dialect, first, payload, err)
		}

		// Closed by the other.
		s, conn = scriptSocket(t, &ws.Client{Tools: tools})
		s.send(closeFrame, closing(1001, "going home"))
		wait(t, conn.Done(), "the end of the conversation")
		_, err = conn.Call(t.Context(), request(t, `1`, "t", `{}`), nil)
		wantClosed(t, dialect+": a call after the server's close", err)
	}
}

func toolFramesAreAnswered(t *testing.T) {
	// What our client sends, and what it makes of the answers.
	s, conn := scriptSocket(t, &ws.Client{Tools: true})
	for _, c := range []struct{ params, members string }{
		{`{"name":"add","arguments":{"a":1.0,"b":[2]}}`, `,"name":"add","arguments":{"a":1.0,"b":[2]}}`},
		{`{"name":"now"}`, `,"name":"now"}`},
	} {
		done := begin(t, conn, parse(t, `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":`+c.params+`}`), nil)
		frame := s.expect()
		id := idOf(t, frame)
		if frame != `{"id":`+id+c.members {
			t.Errorf("the frame is %s, want the id and %s", frame, c.members)
		}
		s.say(result(id))
		wantText(t, wait(t, done, "the answer").resp, `"x"`, id)
	}
	done := begin(t, conn, request(t, `"y"`, "t", `{}`), nil)
	s.say(`{"jsonrpc":"2.0","id":` + idOf(t, s.expect()) + `,"error":{"code":4711,"message":"out of paper"}}`)
	r := wait(t, done, "the error")
	if wantError(t, r.resp, 4711, "out of paper"); r.resp.ID().String() != `"y"` {
		t.Errorf("the error has the id %s", r.resp.ID())
	}

	// What our server answers.
	server := &ws.Server{Requests: builtIn()}
	s = openSocket(t, serve(t, server, server.Shutdown))
	s.say(`{"id":5,"name":"add","arguments":{"a":1,"b":2}}`)
	wantText(t, parse(t, s.expect()), `5`, `{"sum":3}`)
	s.say(`{"id":"six","name":"test_simple_text"}`)
	wantText(t, parse(t, s.expect()), `"six"`, "This is a simple text response for testing.")
	s.say(`{"id":7,"name":"raise","arguments":{"code":4711,"message":"out of paper"}}`)
	m := parse(t, s.expect())
	if wantError(t, m, 4711, "out of paper"); m.ID().String() != `7` {
		t.Errorf("the error has the id %s", m.ID())
	}
}

func idsCountUp(t *testing.T) {
	for dialect, tools := range dialects {
		s, conn := scriptSocket(t, &ws.Client{Tools: tools})
		last := int64(-1)
		for i := range 20 {
			// The ids of the callers do not matter, nor that some are in use twice.
			done := begin(t, conn, request(t, []string{`"x"`, `7`, `1`}[i%3], "t", `{}`), nil)
			frame := s.expect()
			var f struct{ ID int64 }
			if err := json.Unmarshal([]byte(frame), &f); err != nil || f.ID <= last {
				t.Fatalf("%s: after the id %d comes %s (%v)", dialect, last, frame, err)
			}
			last = f.ID
			s.say(result(fmt.Sprint(f.ID)))
			wait(t, done, "the answer")
		}
	}
}

func answersAreMatched(t *testing.T) {
	for dialect, tools := range dialects {
		s, conn := scriptSocket(t, &ws.Client{Tools: tools})
		// All are outstanding at once, and answered backwards.
		var done []<-chan reply
		var sent []string
		for i := range 8 {
			done = append(done, begin(t, conn, request(t, fmt.Sprint(100+i), "t", `{}`), nil))
			sent = append(sent, idOf(t, s.expect()))
		}
		for i, id := range slices.Backward(sent) {
			s.say(result(id))
			wantText(t, wait(t, done[i], "the answer").resp, fmt.Sprint(100+i), id)
		}
		// More than could be outstanding, one after the other. Each is answered
		// twice: the second answer finds nobody.
		for range 1100 {
			next := begin(t, conn, request(t, `1`, "t", `{}`), nil)
			id := idOf(t, s.expect())
			s.say(result(sent[len(sent)-1]))
			s.say(result(id))
			r := wait(t, next, "the answer")
			if r.err != nil {
				t.Fatalf("%s: answered calls are still outstanding: %v", dialect, r.err)
			}
			if want := strings.Replace(result(id), `"id":`+id, `"id":1`, 1); r.resp.String() != want {
				t.Fatalf("%s: got %s, want %s", dialect, r.resp, want)
			}
			sent = append(sent, id)
		}
	}
}

func unsolicitedFramesAreIgnored(t *testing.T) {
	for dialect, tools := range dialects {
		s, conn := scriptSocket(t, &ws.Client{Tools: tools})
		done := begin(t, conn, request(t, `"x"`, "t", `{}`), nil)
		id := idOf(t, s.expect())
		for _, text := range []string{
			`{"type":"ping"}`, `{"type":"notification","event":"x"}`, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`,
			`{"hello":"world"}`, `[]`, `7`, `not JSON`, result(`4711`), result(`"4711"`), result(`"` + id + `"`),
		} {
			s.say(text)
		}
		s.send(pingFrame, "are you there")
		if first, payload, err := s.next(); err != nil || first != pongFrame || string(payload) != "are you there" {
			t.Fatalf("%s: the ping is answered by frame %#x %q (%v)", dialect, first, payload, err)
		}
		s.say(result(id))
		r := wait(t, done, "the answer behind what was ignored")
		if r.err != nil {
			t.Fatalf("%s: %v", dialect, r.err)
		}
		wantText(t, r.resp, `"x"`, id)
		s.wantFarewell(conn)
	}
}
