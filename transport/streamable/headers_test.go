package streamable_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// regional is a modern server with a tool whose argument a header repeats. Its
// lists are what list makes of them.
type regional struct {
	lists atomic.Int32
	list  func(n int32, req *dragoman.Message) (*dragoman.Message, error)
}

const regionalTools = `{"resultType":"complete","tools":[{"name":"t","inputSchema":{"properties":{"region":{"type":"string","x-mcp-header":"Region"}}}}]}`

func (p *regional) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	if req.Method() != protocol.MethodListTools {
		return req.Reply(map[string]string{"resultType": "complete"})
	}
	n := p.lists.Add(1)
	if p.list != nil {
		return p.list(n, req)
	}
	return req.Reply(json.RawMessage(regionalTools))
}

func (p *regional) Notify(context.Context, *dragoman.Message) error { return nil }

// callRegional calls the tool, with the header if it is not empty, and with more of them.
func callRegional(t *testing.T, s *streamable.Server, header string, more ...string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp",
		strings.NewReader(modernCall("1", "tools/call", `"name":"t","arguments":{"region":"eu"}`)))
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		protocol.HeaderVersion: protocol.Latest.String(), protocol.HeaderMethod: "tools/call", protocol.HeaderName: "t",
	} {
		r.Header.Set(name, value)
	}
	if header != "" {
		r.Header.Set("Mcp-Param-Region", header)
	}
	for i := 0; i < len(more); i += 2 {
		r.Header.Add(more[i], more[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// What is wrong with a header is said in plain words, by the id of the request.
func TestHeaderThatIsThereTwiceIsRefusedByTheID(t *testing.T) {
	s := &streamable.Server{Requests: new(regional)}
	for _, header := range []string{protocol.HeaderVersion, protocol.HeaderMethod, protocol.HeaderName, "Mcp-Param-Region"} {
		status, text := callRegional(t, s, "eu", header, "x")
		m := peertest.Parse(t, text)
		if status != http.StatusBadRequest || m.ID().String() != "1" || m.RPCError().Code != protocol.CodeHeaderMismatch {
			t.Errorf("%s twice is answered with %d %s", header, status, text)
		}
		if got, want := m.RPCError().Message, "the header "+http.CanonicalHeaderKey(header)+" is there more than once"; got != want {
			t.Errorf("%s twice is answered with %q, want %q", header, got, want)
		}
	}
	_ = s.Shutdown(t.Context())
}

func TestOneListForManyCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &regional{list: func(_ int32, req *dragoman.Message) (*dragoman.Message, error) {
			time.Sleep(time.Second)
			return req.Reply(json.RawMessage(regionalTools))
		}}
		s := &streamable.Server{Requests: p}
		var wg sync.WaitGroup
		for range 32 {
			wg.Go(func() {
				if status, text := callRegional(t, s, "eu"); status != http.StatusOK || !strings.Contains(text, "complete") {
					t.Errorf("answered with %d %s", status, text)
				}
			})
		}
		wg.Wait()
		if n := p.lists.Load(); n != 1 {
			t.Errorf("%d lists were fetched, want 1", n)
		}
		_ = s.Shutdown(t.Context())
	})
}

func TestFailedListDoesNotSwitchTheHeaderCheckOff(t *testing.T) {
	fail := func(code int) func(*dragoman.Message) (*dragoman.Message, error) {
		return func(req *dragoman.Message) (*dragoman.Message, error) {
			return req.Fail(&dragoman.Error{Code: code, Message: "no"}), nil
		}
	}
	for name, first := range map[string]func(req *dragoman.Message) (*dragoman.Message, error){
		"no answer": func(*dragoman.Message) (*dragoman.Message, error) { return nil, dragoman.ErrClosed },
		"refused":   fail(protocol.CodeInternal),
		"panic":     func(*dragoman.Message) (*dragoman.Message, error) { panic("part of the test") },
		"page lost": func(req *dragoman.Message) (*dragoman.Message, error) {
			if req.Get("cursor") != nil {
				return nil, dragoman.ErrClosed
			}
			return req.Reply(json.RawMessage(`{"tools":[],"nextCursor":"2"}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var works atomic.Bool
				p := &regional{list: func(_ int32, req *dragoman.Message) (*dragoman.Message, error) {
					if works.Load() {
						return req.Reply(json.RawMessage(regionalTools))
					}
					return first(req)
				}}
				s := &streamable.Server{Requests: p}
				status, text := callRegional(t, s, "eu")
				if status != http.StatusOK || !strings.Contains(text, `"code":-31001`) || !strings.Contains(text, `"outcome":"not_sent"`) {
					t.Errorf("without a list: %d %s", status, text)
				}
				works.Store(true)
				time.Sleep(time.Second)
				if status, text := callRegional(t, s, ""); status != http.StatusBadRequest || !strings.Contains(text, `"code":-32020`) {
					t.Errorf("without the header: %d %s", status, text)
				}
				works.Store(false)
				time.Sleep(time.Minute)
				if status, text := callRegional(t, s, ""); status != http.StatusBadRequest || !strings.Contains(text, `"code":-32020`) {
					t.Errorf("without the header, when the list cannot be had again: %d %s", status, text)
				}
				if status, text := callRegional(t, s, "eu"); status != http.StatusOK || !strings.Contains(text, "complete") {
					t.Errorf("with the header, when the list cannot be had again: %d %s", status, text)
				}
				_ = s.Shutdown(t.Context())
			})
		})
	}
}

func TestServerWithoutAListOfToolsHasNoHeadersToCheck(t *testing.T) {
	p := &regional{list: func(_ int32, req *dragoman.Message) (*dragoman.Message, error) {
		return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "no"}), nil
	}}
	s := &streamable.Server{Requests: p}
	for range 3 {
		if status, text := callRegional(t, s, ""); status != http.StatusOK || !strings.Contains(text, "complete") {
			t.Errorf("answered with %d %s", status, text)
		}
	}
	_ = s.Shutdown(t.Context())
}

// A schema that has changed since the list was fetched is not held against a call.
func TestCallThatDoesNotFitAnOldListIsCheckedAgainstANewOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &regional{list: func(n int32, req *dragoman.Message) (*dragoman.Message, error) {
			if n == 1 {
				return req.Reply(json.RawMessage(strings.Replace(regionalTools, `"tools"`, `"ttlMs":3600000,"tools"`, 1)))
			}
			return req.Reply(json.RawMessage(`{"tools":[{"name":"t","inputSchema":{}}]}`))
		}}
		s := &streamable.Server{Requests: p}
		if status, text := callRegional(t, s, "us"); status != http.StatusBadRequest {
			t.Errorf("by the old list: %d %s", status, text)
		}
		time.Sleep(10 * time.Minute)
		if status, text := callRegional(t, s, "us"); status != http.StatusOK {
			t.Errorf("by the new list: %d %s", status, text)
		}
		if n := p.lists.Load(); n != 2 {
			t.Errorf("%d lists were fetched, want 2", n)
		}
		_ = s.Shutdown(t.Context())
	})
}
