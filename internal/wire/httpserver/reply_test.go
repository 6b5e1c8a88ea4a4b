package httpserver_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestS10_B04_AcceptMustNameAllTypes(t *testing.T) {
	const both = "application/json, text/event-stream"
	for _, test := range []struct {
		accept []string
		types  string
		want   bool
	}{
		{[]string{both}, both, true},
		{[]string{"text/event-stream,application/json"}, both, true},
		{[]string{"application/json", "text/event-stream"}, both, true},
		{[]string{"Application/JSON;q=0.5 , Text/Event-Stream; charset=utf-8"}, both, true},
		{[]string{"*/*"}, both, true},
		{[]string{"application/*, text/*"}, both, true},
		{[]string{"application/*"}, both, false},
		{[]string{"application/json"}, both, false},
		{[]string{"text/event-stream"}, both, false},
		{[]string{"text/event-stream"}, "text/event-stream", true},
		{[]string{both + ";q=0"}, both, false},
		{[]string{both + "; Q=0.000"}, both, false},
		{[]string{both + ";q=0.001"}, both, true},
		{[]string{both + ";q=x"}, both, false},
		{[]string{both + ";q=-1"}, both, false},
		{[]string{"*/*, text/event-stream;q=0"}, both, false},
		{[]string{"text/event-stream;q=0, */*"}, both, false},
		{[]string{"text/*;q=0, text/event-stream, application/json"}, both, true},
		{[]string{"*/*;q=0, " + both}, both, true},
		{[]string{"application/json-seq, text/event-stream"}, both, false},
		{[]string{",,;,=;q"}, both, false},
		{[]string{""}, both, false},
		{nil, both, false},
		{nil, "", true},
	} {
		r := httptest.NewRequest("POST", "/mcp", nil)
		r.Header["Accept"] = test.accept
		types := strings.FieldsFunc(test.types, func(c rune) bool { return c == ',' || c == ' ' })
		if got := httpserver.Accepts(r, types...); got != test.want {
			t.Errorf("Accept %q admits %q: %t, want %t", test.accept, types, got, test.want)
		}
	}
}

func TestC14_LongAnswersAreCompressedForThoseWhoAcceptIt(t *testing.T) {
	const far = "192.0.2.1:1234"
	long := []byte(`"` + strings.Repeat("x", 16<<10-2) + `"`)
	for _, test := range []struct {
		name     string
		from     string
		body     []byte
		accept   string
		choice   bool
		compress bool
	}{
		{"long", far, long, "gzip, deflate", true, true},
		{"long, anything", far, long, "*", true, true},
		{"long, with weight", far, long, "br;q=1, GZIP;q=0.2", true, true},
		{"long, refused", far, long, "gzip;q=0, *", true, false},
		{"long, something else", far, long, "br", true, false},
		{"long, nothing said", far, long, "", true, false},
		{"long, from this machine", "127.0.0.1:1234", long, "gzip", false, false},
		{"long, from this machine by IPv6", "[::1]:1234", long, "gzip", false, false},
		{"long, from this machine by both", "[::ffff:127.0.0.1]:1234", long, "gzip", false, false},
		{"long, over a Unix socket", "@", long, "gzip", false, false},
		{"short", far, long[1:], "gzip", false, false},
		{"empty", far, nil, "gzip", false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := request("POST", "localhost", "Accept-Encoding", test.accept)
			r.RemoteAddr = test.from
			w := httptest.NewRecorder()
			if err := httpserver.WriteJSON(w, r, http.StatusAccepted, test.body); err != nil {
				t.Fatal(err)
			}
			h := w.Header()
			if w.Code != http.StatusAccepted || h.Get("Content-Type") != plainJSON {
				t.Errorf("status %d, header %v", w.Code, h)
			}
			if varies := h.Get("Vary") == "Accept-Encoding"; varies != test.choice {
				t.Errorf("Vary is %q", h.Get("Vary"))
			}
			got := w.Body.Bytes()
			if compressed := h.Get("Content-Encoding") == "gzip"; compressed != test.compress {
				t.Errorf("Content-Encoding is %q", h.Get("Content-Encoding"))
			} else if compressed {
				got = gunzip(t, got)
			} else if length := h.Get("Content-Length"); length != fmt.Sprint(len(test.body)) && len(test.body) > 0 {
				t.Errorf("Content-Length is %q", h.Get("Content-Length"))
			}
			if !bytes.Equal(got, test.body) {
				t.Errorf("the body is %d bytes, want %d", len(got), len(test.body))
			}
		})
	}
}

func TestPagesAreToldNotToGuessTheType(t *testing.T) {
	for origin, want := range map[string]string{"": "", "http://localhost:3000": "nosniff", "null": "nosniff"} {
		r := request("POST", "localhost")
		if origin != "" {
			r.Header.Set("Origin", origin)
		}
		w := httptest.NewRecorder()
		if err := httpserver.WriteJSON(w, r, http.StatusOK, []byte("{}")); err != nil {
			t.Fatal(err)
		}
		if got := w.Header().Get("X-Content-Type-Options"); got != want || w.Header().Get("Content-Type") != plainJSON {
			t.Errorf("origin %q gets %q, header %v", origin, got, w.Header())
		}
	}
}

func gunzip(t *testing.T, b []byte) []byte {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Error(err)
		return nil
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Error(err)
	}
	return text
}

// Compressors are used again: also after a failure, and by many at once.
func TestCompressedAnswersDoNotMix(t *testing.T) {
	r := request("POST", "localhost", "Accept-Encoding", "gzip")
	if err := httpserver.WriteJSON(brokenWriter{}, r, http.StatusOK, make([]byte, 1<<20)); err == nil {
		t.Error("a failed write is not reported")
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			body := bytes.Repeat([]byte{byte('a' + g)}, 20000)
			for range 50 {
				w := httptest.NewRecorder()
				_ = httpserver.WriteJSON(w, r, http.StatusOK, body)
				if !bytes.Equal(gunzip(t, w.Body.Bytes()), body) {
					t.Error("an answer is not its own")
				}
			}
		})
	}
	wg.Wait()
}

type brokenWriter struct{}

func (brokenWriter) Header() http.Header       { return http.Header{} }
func (brokenWriter) WriteHeader(int)           {}
func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestRefusalIsAJSONRPCError(t *testing.T) {
	for _, test := range []struct {
		name    string
		refusal httpserver.Refusal
		status  int
		header  map[string]string
		body    string
	}{
		{
			"with everything", httpserver.Refusal{Status: 404, Code: -32601, Message: "no \"x\"", ID: dragoman.StringID("a"), Data: json.RawMessage(`{"k":1}`)},
			404, map[string]string{"Content-Type": plainJSON, "Connection": "", "Allow": "", "Retry-After": ""},
			`{"jsonrpc":"2.0","id":"a","error":{"code":-32601,"message":"no \"x\"","data":{"k":1}}}`,
		},
		{
			"without an id", httpserver.Refusal{Status: 405, Code: -32600, Message: "no", Allow: "POST"},
			405, map[string]string{"Allow": "POST", "X-Content-Type-Options": "nosniff"},
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`,
		},
		{
			"zero", httpserver.Refusal{}, 400, nil,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":""}}`,
		},
		{
			"too large", httpserver.Refusal{Status: 413, Code: -32600, Message: "no", ID: dragoman.IntID(7)},
			413, map[string]string{"Connection": "close"},
			`{"jsonrpc":"2.0","id":7,"error":{"code":-32600,"message":"no"}}`,
		},
		{
			"for now", httpserver.Refusal{Status: 503, Code: -31005, Message: "no"},
			503, map[string]string{"Retry-After": "1"},
			`{"jsonrpc":"2.0","id":null,"error":{"code":-31005,"message":"no"}}`,
		},
		{
			"too many", httpserver.Refusal{Status: 429, Code: -31004, Message: "no"},
			429, map[string]string{"Retry-After": "1"},
			`{"jsonrpc":"2.0","id":null,"error":{"code":-31004,"message":"no"}}`,
		},
		{
			"a limit that says when", *httpserver.Unavailable(protocol.Limited(protocol.LimitCaller, "no", 2001*time.Millisecond)),
			429, map[string]string{"Retry-After": "3"},
			`{"jsonrpc":"2.0","id":null,"error":{"code":-31004,"message":"no","data":{"source":"gateway","outcome":"not_sent","limit":"caller","retryMs":2001}}}`,
		},
		{
			"a limit that is not the caller's", *httpserver.Unavailable(protocol.Limited(protocol.LimitTool, "no", time.Millisecond)),
			503, map[string]string{"Retry-After": "1"},
			`{"jsonrpc":"2.0","id":null,"error":{"code":-31004,"message":"no","data":{"source":"gateway","outcome":"not_sent","limit":"tool","retryMs":1}}}`,
		},
		{
			"with data that is no JSON", httpserver.Refusal{Status: 400, Code: -32600, Message: "no", Data: json.RawMessage(`{`)},
			400, nil,
			`{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no"}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			test.refusal.Write(w)
			if w.Code != test.status {
				t.Errorf("status is %d, want %d", w.Code, test.status)
			}
			for name, want := range test.header {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			if got := w.Body.String(); got != test.body {
				t.Errorf("the body is\n%s, want\n%s", got, test.body)
			}
			if text := test.refusal.Error(); !strings.Contains(text, fmt.Sprint(test.status)) {
				t.Errorf("the error is %q", text)
			}
		})
	}
}
