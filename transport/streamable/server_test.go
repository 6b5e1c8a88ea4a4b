package streamable_test

import (
	"context"
	"fmt"
	"github.com/dragoman-mcp/dragoman"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`

func TestS11_B03_ForeignHostsAndOriginsAreRefusedBeforeAnythingElse(t *testing.T) {
	s := open(t, nil).hello(protocol.LatestLegacy)
	for _, method := range []string{http.MethodPost, http.MethodGet, http.MethodDelete, http.MethodPut} {
		for _, header := range [][]string{
			{"Origin", "http://evil.example"}, {"Origin", "null"}, {"Origin", "http://localhost.evil.com"},
			{"Host", "evil.example"}, {"Host", "127.0.0.1.nip.io"},
		} {
			resp := s.with(header...).do(t.Context(), method, ping)
			if resp.StatusCode != http.StatusForbidden || resp.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s with %v: %d %v, want 403", method, header, resp.StatusCode, resp.Header)
			}
		}
	}
	s.with("Origin", "http://localhost:1234").want(ping, http.StatusOK, `"result":{}`)
}

func TestS10_B02_OtherMethodsGet405(t *testing.T) {
	s := open(t, nil)
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodHead, http.MethodOptions, "BREW"} {
		resp := s.do(t.Context(), method, "")
		if resp.StatusCode != http.StatusMethodNotAllowed || resp.Header.Get("Allow") != "GET, POST, DELETE" {
			t.Errorf("%s: %d, Allow %q", method, resp.StatusCode, resp.Header.Get("Allow"))
		}
	}
}

func TestBadRequestsAreRefusedWithAReason(t *testing.T) {
	s := open(t, &streamable.Server{MaxMessage: 10_000}).hello(protocol.LatestLegacy)
	for _, test := range []struct {
		name   string
		site   *site
		body   string
		status int
		part   string
	}{
		{"B04 Accept without event streams", s.with("Accept", "application/json"), ping, 406, "Accept must list"},
		{"B04 no Accept", s.with("Accept", ""), ping, 406, "Accept must list"},
		{"other type", s.with("Content-Type", "text/plain"), ping, 415, `"error"`},
		{"no type", s.with("Content-Type", ""), ping, 415, `"error"`},
		{"compressed", s.with("Content-Encoding", "gzip"), ping, 415, `"error"`},
		{"too large", s, `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("y", 10_000) + `"}}`, 413, `"error"`},
		{"no JSON", s, `{"jsonrpc"`, 400, `"code":-32700`},
		{"no message", s, `{"a":1}`, 400, `"code":-32600`},
		{"a request by its id", s, `{"jsonrpc":"2.0","id":"x","method":"a","params":[]}`, 400, `"id":"x"`},
		{"key smuggling", s, `{"jsonrpc":"2.0","id":1,"method":"tools/list","Method":"tools/call"}`, 400, `"code":-32600`},
		{"unknown method", s, `{"jsonrpc":"2.0","id":7,"method":"nope"}`, 200, `"code":-32601`},
		{"B05 a notification", s, `{"jsonrpc":"2.0","method":"notifications/x"}`, 202, ""},
		{"B05 a response nobody waits for", s, `{"jsonrpc":"2.0","id":99,"result":{}}`, 202, ""},
		{"bad version header", s.with(protocol.HeaderVersion, "2024-10-07"), ping, 400, "unsupported protocol version"},
		{"two session ids", s.with(protocol.HeaderSession, "a", protocol.HeaderSession, "b"), ping, 400, `"error"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.site.t = t
			test.site.want(test.body, test.status, test.part)
		})
	}
	s.t = t
	s.want(ping, http.StatusOK, `"result":{}`) // and the session continues
}

func TestS22_B12_Sessions(t *testing.T) {
	s := open(t, nil)
	s.want(ping, http.StatusBadRequest, protocol.HeaderSession+" is missing")
	seen := make(map[string]bool)
	for range 50 {
		id := s.hello(protocol.LatestLegacy).session
		if len(id) < 22 || seen[id] || strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_") != "" {
			t.Errorf("session id %q is short, not new or not plain", id)
		}
		seen[id] = true
	}
	v := s.hello(protocol.LatestLegacy)
	unknown := *v
	unknown.session = strings.Repeat("x", 26)
	unknown.want(ping, http.StatusNotFound, "Session not found")
	v.want(initialize(protocol.LatestLegacy, `{}`), http.StatusOK, `"protocolVersion"`) // a stale id is no hindrance
	v.want(ping, http.StatusOK, `"result":{}`)

	t.Run("B13 DELETE ends a session, once", func(t *testing.T) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		count := make(map[int]int)
		for range 4 {
			wg.Go(func() {
				resp := v.do(t.Context(), http.MethodDelete, "")
				mu.Lock()
				defer mu.Unlock()
				count[resp.StatusCode]++
			})
		}
		wg.Wait()
		if count[http.StatusNoContent] != 1 || count[http.StatusNotFound] != 3 {
			t.Errorf("four DELETEs at once: %v, want one 204 and three 404", count)
		}
		v.want(ping, http.StatusNotFound, "Session not found")
		if resp := v.do(t.Context(), http.MethodGet, ""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("GET afterwards: %d", resp.StatusCode)
		}
	})
}

// byUser takes the word of a header for who calls.
func byUser(r *http.Request) (*dragoman.Caller, error) {
	return &dragoman.Caller{Principal: r.Header.Get("X-User")}, nil
}

func TestS27_SessionBelongsToItsCaller(t *testing.T) {
	s := open(t, &streamable.Server{Caller: byUser})
	ada := s.with("X-User", "ada").hello(protocol.LatestLegacy)
	ada.want(ping, http.StatusOK, `"result":{}`)
	bob := s.with("X-User", "bob")
	bob.session, bob.version = ada.session, ada.version
	bob.want(ping, http.StatusNotFound, "Session not found")
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if resp := bob.do(t.Context(), method, ""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s of another's session: %d, want 404", method, resp.StatusCode)
		}
	}
	ada.want(ping, http.StatusOK, `"result":{}`)
}

func TestLimitsOfSessionsAndRequests(t *testing.T) {
	s := open(t, &streamable.Server{MaxSessions: 2, MaxRequests: 1})
	v := s.hello(protocol.LatestLegacy)
	s.hello(protocol.LatestLegacy)
	s.want(initialize(protocol.LatestLegacy, `{}`), http.StatusServiceUnavailable, fmt.Sprint(protocol.CodeOverloaded))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	begun := v.events(v.do(ctx, http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"slow","arguments":{"ms":20000,"steps":100},"_meta":{"progressToken":1}}}`))
	begun.message()
	v.want(`{"jsonrpc":"2.0","id":1,"method":"ping"}`, http.StatusBadRequest, "in use")
	v.want(`{"jsonrpc":"2.0","id":2,"method":"ping"}`, http.StatusTooManyRequests, "too many requests")
	v.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, http.StatusAccepted, "")
	for {
		if _, err := begun.r.Next(); err != nil {
			break
		}
	}
	v.want(`{"jsonrpc":"2.0","id":2,"method":"ping"}`, http.StatusOK, `"result":{}`)
}

func TestB04_BatchesByRevision(t *testing.T) {
	const batch = `[{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/n"},{"jsonrpc":"2.0","id":"2","method":"tools/list"}]`
	s := open(t, nil)
	for _, rev := range protocol.Revisions() {
		if !rev.HasSessions() || !rev.HasStreamableHTTP() {
			continue
		}
		t.Run(rev.String(), func(t *testing.T) {
			c := *s
			c.t = t
			v := c.hello(rev)
			if !rev.HasBatch() {
				v.want(batch, http.StatusBadRequest, `"code":-32600`)
				return
			}
			status, text := v.post(batch)
			if status != http.StatusOK || text[0] != '[' || !strings.Contains(text, `"id":1,"result"`) || !strings.Contains(text, `"id":"2","result"`) {
				t.Errorf("answered with %d %s", status, text)
			}
			v.want(`[{"jsonrpc":"2.0","method":"notifications/n"}]`, http.StatusAccepted, "")
			v.want(`[]`, http.StatusBadRequest, `"code":-32600`)
			v.want(`[{"jsonrpc":"2.0","method":"notifications/n"},{"jsonrpc":"1.0","method":"notifications/n"}]`, http.StatusBadRequest, `"message 1 of the batch: Invalid request: jsonrpc must be \"2.0\" at byte 11"`)
			v.want(`[`+initialize(rev, `{}`)+`]`, http.StatusBadRequest, `"code":-32600`)
			v.want(`[`+modernCall("1", "tools/list", "")+`]`, http.StatusBadRequest, `"code":-32600`)
		})
	}
}

func TestNothingIsCompressedOnThisMachine(t *testing.T) {
	s := open(t, nil).hello(protocol.LatestLegacy)
	zip := s.with("Accept-Encoding", "gzip")
	const large = 64 << 10
	if resp := zip.do(t.Context(), http.MethodPost, echoCall("1", strings.Repeat("x", large))); resp.Header.Get("Content-Encoding") != "" || resp.ContentLength < large {
		t.Errorf("a large answer has %v", resp.Header)
	}
	if resp := zip.do(t.Context(), http.MethodPost, ping); resp.Header.Get("Content-Encoding") != "" {
		t.Errorf("a small answer has %v", resp.Header)
	}
	resp := zip.do(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test_tool_with_progress","_meta":{"progressToken":1}}}`)
	if resp.Header.Get("Content-Encoding") != "" || resp.Header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("a stream has %v", resp.Header)
	}
	zip.events(resp).message()
}

func TestHandlerWorksUnderAnyPrefix(t *testing.T) {
	s := open(t, nil)
	s.url += "/a/b/c/mcp"
	s.hello(protocol.LatestLegacy).want(echoCall("1", "hi"), http.StatusOK, `"text":"hi"`)
}
