//go:build unix && !race

package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// TestAllocationsOfACall counts the allocations of one call of a tool at each stage of its path.
// Each figure includes those of the server at the end, and those of a gateway both ends of the
// socket to it ("connection"). The race detector and coverage change the figures.
//
// The ceilings are 15 % above what was measured with Go 1.26. Lower them when a figure falls.
func TestAllocationsOfACall(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("coverage is measured")
	}
	const legacy, modern = protocol.Legacy, protocol.Modern
	both := insideBoth(t, nil)
	handler := both.Handler(nil)
	bare := &streamable.Server{Requests: &fixedServer{era: modern}}
	t.Cleanup(func() { _ = bare.Shutdown(context.Background()) })
	for _, stage := range []struct {
		name string
		most float64
		call func() error
	}{
		{"parse and splice", 6, parseAndSplice(t)},
		{"streamable.Server", 18, handlerCall(t, bare, "/", modern, "echo")},
		{"streamable.Client", 64, clientCall(t)},
		{"connection", 25, peerCall(t, &stdio.Address{Network: "unix", Address: openSocket(t, &stdio.Server{Acceptor: &fixedServer{era: modern}})}, modern)},
		{"era, legacy client, modern server", 29, eraCall(t, legacy, modern)},
		{"era, modern client, legacy server", 44, eraCall(t, modern, legacy)},
		{"server, legacy client, legacy server", 36, handlerCall(t, handler, "/servers/legacy/mcp", legacy, "echo")},
		{"server, legacy client, modern server", 42, handlerCall(t, handler, "/servers/modern/mcp", legacy, "echo")},
		{"server, modern client, legacy server", 61, handlerCall(t, handler, "/servers/legacy/mcp", modern, "echo")},
		{"server, modern client, modern server", 45, handlerCall(t, handler, "/servers/modern/mcp", modern, "echo")},
		{"aggregate, legacy client, legacy server", 66, handlerCall(t, handler, "/mcp", legacy, "legacy_echo")},
		{"aggregate, legacy client, modern server", 60, handlerCall(t, handler, "/mcp", legacy, "modern_echo")},
		{"aggregate, modern client, legacy server", 81, handlerCall(t, handler, "/mcp", modern, "legacy_echo")},
		{"aggregate, modern client, modern server", 65, handlerCall(t, handler, "/mcp", modern, "modern_echo")},
	} {
		t.Run(stage.name, func(t *testing.T) {
			for range 20 { // caches and pools are filled
				if err := stage.call(); err != nil {
					t.Fatal(err)
				}
			}
			var failed error
			n := testing.AllocsPerRun(500, func() {
				if err := stage.call(); err != nil {
					failed = err
				}
			})
			t.Logf("%v allocations, at most %v", n, stage.most)
			if failed != nil {
				t.Error(failed)
			}
			if n > stage.most {
				t.Errorf("%v allocations, want at most %v", n, stage.most)
			}
		})
	}
}

// echoRequest returns a call of a tool with a small argument.
func echoRequest(t *testing.T, era protocol.Era, tool string) *dragoman.Message {
	t.Helper()
	c := &gatewaytest.Client{Name: "guest", Revision: protocol.Latest}
	if era == protocol.Legacy {
		c.Revision = protocol.LatestLegacy
	}
	req, err := c.Message(protocol.MethodCallTool, object{"name": tool, "arguments": object{"text": "hello"}})
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// parseAndSplice reads a request, and gives it another id, name and progress token, as a gateway does.
func parseAndSplice(t *testing.T) func() error {
	text, id := echoRequest(t, protocol.Modern, "demo_echo").Bytes(), dragoman.IntID(12345)
	out := make([]byte, 0, 2*len(text))
	return func() error {
		m, err := dragoman.Parse(text)
		if err == nil {
			m, err = m.Edit().Set("name", []byte(`"echo"`)).SetMeta(protocol.MetaProgressToken, []byte("7")).Message()
		}
		if err == nil {
			out = m.AppendWithID(out[:0], id)
		}
		return err
	}
}

// peerCall calls echo on a connection.
func peerCall(t *testing.T, d dragoman.Dialer, era protocol.Era) func() error {
	t.Helper()
	ctx := context.Background()
	c, err := gatewaytest.Dial(ctx, d, "guest", era)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Conn.Close() })
	req := echoRequest(t, era, "echo")
	return func() error {
		resp, err := c.Conn.Call(ctx, req, nil)
		if err == nil && !bytes.Contains(resp.Bytes(), []byte(`"hello"`)) {
			err = fmt.Errorf("the response is %s", resp)
		}
		return err
	}
}

// eraCall calls echo across the eras.
func eraCall(t *testing.T, client, server protocol.Era) func() error {
	t.Helper()
	s := &era.Server{Dialer: dragoman.Local(&fixedServer{era: server})}
	t.Cleanup(func() { _ = s.Close() })
	return peerCall(t, dragoman.Local(s), client)
}

// clientCall calls echo by a client of Streamable HTTP whose requests get their responses in memory.
func clientCall(t *testing.T) func() error {
	t.Helper()
	server, header := &fixedServer{era: protocol.Modern}, http.Header{"Content-Type": {"application/json"}}
	way := roundTrip(func(r *http.Request) (*http.Response, error) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		_ = r.Body.Close()
		req, err := dragoman.Parse(text)
		if err != nil {
			return nil, err
		}
		resp, err := server.Call(r.Context(), req, nil)
		if err != nil {
			return nil, err
		}
		return &http.Response{
			StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Header: header, Request: r,
			ContentLength: int64(resp.Len()), Body: io.NopCloser(bytes.NewReader(resp.Bytes())),
		}, nil
	})
	return peerCall(t, &streamable.Client{URL: "http://localhost/mcp", HTTP: &http.Client{Transport: way}, NoToolList: true}, protocol.Modern)
}

// handlerCall calls a tool by a handler of Streamable HTTP, without a connection.
func handlerCall(t *testing.T, h http.Handler, path string, era protocol.Era, tool string) func() error {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, http.NoBody)
	r.RemoteAddr = "127.0.0.1:1"
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	w := &memoryWriter{header: make(http.Header)}
	var reader bytes.Reader
	body := io.NopCloser(&reader)
	post := func(text []byte) error {
		clear(w.header)
		w.status, w.body = http.StatusOK, w.body[:0]
		reader.Reset(text)
		r.Body, r.ContentLength = body, int64(len(text))
		h.ServeHTTP(w, r)
		if w.status >= 300 {
			return fmt.Errorf("%d %s", w.status, w.body)
		}
		return nil
	}
	req := echoRequest(t, era, tool)
	if era == protocol.Legacy {
		if err := post([]byte(helloText())); err != nil {
			t.Fatal(err)
		}
		r.Header.Set(protocol.HeaderSession, w.header.Get(protocol.HeaderSession))
		if err := post([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)); err != nil {
			t.Fatal(err)
		}
		r.Header.Set(protocol.HeaderVersion, protocol.LatestLegacy.String())
	} else {
		r.Header.Set(protocol.HeaderVersion, protocol.Latest.String())
		r.Header.Set(protocol.HeaderMethod, protocol.MethodCallTool)
		r.Header.Set(protocol.HeaderName, tool)
	}
	text := req.Bytes()
	return func() error {
		if err := post(text); err != nil {
			return err
		}
		if !bytes.Contains(w.body, []byte(`"hello"`)) {
			return errors.New(string(w.body))
		}
		return nil
	}
}

// A memoryWriter takes a response, and can what that of a server can.
type memoryWriter struct {
	header http.Header
	status int
	body   []byte
}

func (w *memoryWriter) Header() http.Header { return w.header }

func (w *memoryWriter) WriteHeader(status int) { w.status = status }

func (w *memoryWriter) Write(text []byte) (int, error) {
	w.body = append(w.body, text...)
	return len(text), nil
}

func (w *memoryWriter) Flush() {}

func (w *memoryWriter) SetReadDeadline(time.Time) error { return nil }

func (w *memoryWriter) SetWriteDeadline(time.Time) error { return nil }

func (w *memoryWriter) EnableFullDuplex() error { return nil }
