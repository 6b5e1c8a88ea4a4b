//go:build unix

package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A session is one of Streamable HTTP in the legacy era, request by request.
type session struct {
	t   *testing.T
	url string
	id  string
}

// openSession makes the handshake.
func openSession(ctx context.Context, t *testing.T, g *gatewaytest.Gateway, name string) *session {
	t.Helper()
	v := &session{t: t, url: g.URL(name, "mcp")}
	resp, err := v.tryOpen(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || v.id == "" {
		body, _ := io.ReadAll(resp.Body)
		t.Fatalf("initialize: %s, session %q: %s", resp.Status, v.id, body)
	}
	_ = resp.Body.Close()
	note := v.post(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	_ = note.Body.Close()
	return v
}

// tryOpen sends initialize. The body is the caller's to close.
func (v *session) tryOpen(ctx context.Context) (*http.Response, error) {
	resp, err := gatewaytest.Post(ctx, v.url, nil, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"`+
		protocol.LatestLegacy.String()+`","capabilities":{},"clientInfo":{"name":"raw","version":"1"}}}`)
	if err == nil {
		v.id = resp.Header.Get(protocol.HeaderSession)
	}
	return resp, err
}

func (v *session) header() http.Header {
	h := http.Header{}
	h.Set(protocol.HeaderSession, v.id)
	h.Set(protocol.HeaderVersion, protocol.LatestLegacy.String())
	return h
}

// post sends a message.
func (v *session) post(ctx context.Context, body string) *http.Response {
	v.t.Helper()
	resp, err := gatewaytest.Post(ctx, v.url, v.header(), body)
	if err != nil {
		v.t.Fatal(err)
	}
	return resp
}

// call calls a tool and returns as soon as there is an answer to be read.
func (v *session) call(ctx context.Context, id int, tool string, arguments object) *http.Response {
	v.t.Helper()
	return v.post(ctx, callText(id, tool, arguments))
}

// callText returns a call of the legacy era.
func callText(id int, tool string, arguments object) string {
	params, _ := json.Marshal(object{"name": tool, "arguments": arguments, "_meta": object{protocol.MetaProgressToken: id}})
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, id, params)
}

// cancels sends a cancel, which must be taken.
func (v *session) cancels(ctx context.Context, id int) {
	v.t.Helper()
	resp := v.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		v.t.Errorf("the cancel gets %s", resp.Status)
	}
}

// get opens a stream, behind an event if there is one.
func (v *session) get(ctx context.Context, last string) *http.Response {
	v.t.Helper()
	resp, err := v.tryGet(ctx, last)
	if err != nil {
		v.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(resp.Body)
		v.t.Fatalf("GET behind %q: %s %s", last, resp.Status, body)
	}
	return resp
}

func (v *session) tryGet(ctx context.Context, last string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url, nil)
	if err != nil {
		return nil, err
	}
	req.Header = v.header()
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set(protocol.HeaderLastEventID, last)
	}
	return http.DefaultClient.Do(req)
}

// answer reads the text of the answer to a call.
func (v *session) answer(resp *http.Response, id int) string {
	v.t.Helper()
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			v.t.Fatal(err)
		}
		text, _ := textOf(string(body), id)
		return text
	}
	events := newEvents(resp.Body)
	for {
		e, err := events.next()
		if err != nil {
			v.t.Fatalf("no answer: %v", err)
		}
		if text, ok := textOf(e.data, id); ok {
			return text
		}
	}
}

// mustEcho fails the test unless echo works.
func (v *session) mustEcho(ctx context.Context, id int) {
	v.t.Helper()
	resp := v.call(ctx, id, "echo", object{"text": "hello"})
	defer resp.Body.Close()
	if got := v.answer(resp, id); got != "hello" {
		v.t.Errorf("echo says %q (%s)", got, resp.Status)
	}
}

// textOf returns the text of a response, or its error, if it is the one to a
// request.
func textOf(data string, id int) (string, bool) {
	m, err := dragoman.Parse([]byte(data))
	if err != nil || m.Kind() != dragoman.Response || m.ID() != dragoman.IntID(int64(id)) {
		return "", false
	}
	if m.IsError() {
		return m.RPCError().Error(), true
	}
	var result struct{ Content []struct{ Text string } }
	if err := m.Decode(&result); err != nil || len(result.Content) == 0 {
		return m.String(), true
	}
	return result.Content[0].Text, true
}

// An event is one of an event stream.
type event struct{ id, name, data, retry string }

// events reads an event stream by the letter, which is all that our writer needs.
type events struct{ r *bufio.Reader }

func newEvents(r io.Reader) *events { return &events{bufio.NewReader(r)} }

// next returns the next event. Comments are passed over.
func (s *events) next() (e event, err error) {
	for {
		line, err := s.r.ReadString('\n')
		if err != nil {
			return e, err
		}
		line = strings.TrimRight(line, "\r\n")
		if line == "" {
			if e != (event{}) {
				return e, nil
			}
			continue
		}
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			e.data += value
		case "retry":
			e.retry = value
		}
	}
}

// read reads a body and closes it.
func read(t *testing.T, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
