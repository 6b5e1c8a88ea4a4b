package toolhttp_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
)

func itoa(n int) string { return fmt.Sprint(n) }

func TestToolsAreListedAsTheServerListsThem(t *testing.T) {
	e := builtin.New(&builtin.Options{PageSize: 7})
	s := open(t, &toolhttp.Server{Requests: e.Requests()})
	a := s.do("GET", "", "")
	var list struct {
		Tools []struct{ Name string }
	}
	if err := json.Unmarshal([]byte(a.body), &list); err != nil || a.status != 200 {
		t.Fatalf("status %d, %v: %s", a.status, err, a.body)
	}
	if len(list.Tools) < 30 || list.Tools[0].Name != "echo" || !strings.HasPrefix(a.body, `{"tools":[{`) {
		t.Errorf("%d tools: %s", len(list.Tools), a.body)
	}
	s.do("GET", "/", "").wantOK()

	const raw = `{"name":"t","x":1.0,  "inputSchema":{"type":"object"}}`
	s = open(t, &toolhttp.Server{Requests: scriptedPeer{list: func(req *dragoman.Message) (*dragoman.Message, error) {
		return req.Reply(json.RawMessage(`{"tools":[` + raw + `,` + raw + `]}`))
	}}})
	if a := s.do("GET", "", ""); a.body != `{"tools":[`+raw+`,`+raw+`]}` {
		t.Errorf("the list is %s", a.body)
	}
	s = open(t, &toolhttp.Server{Requests: lists(`{"tools":[]}`)})
	if a := s.do("GET", "", ""); a.body != `{"tools":[]}` {
		t.Errorf("the list is %s", a.body)
	}
}

func (a answer) wantOK() {
	a.t.Helper()
	if a.status != http.StatusOK {
		a.t.Errorf("status %d with %s", a.status, a.body)
	}
}

// lists is a script that answers tools/list with this result.
func lists(result string) scriptedPeer {
	return scriptedPeer{list: func(req *dragoman.Message) (*dragoman.Message, error) { return req.Reply(json.RawMessage(result)) }}
}

func TestListThatCannotBeFetchedIsAnErrorAndCallsGoUnchecked(t *testing.T) {
	for name, test := range map[string]struct {
		peer   scriptedPeer
		status int
		code   int
	}{
		"error": {scriptedPeer{list: func(req *dragoman.Message) (*dragoman.Message, error) {
			return dragoman.NoPeer.Call(t.Context(), req, nil)
		}}, 404, protocol.CodeMethodNotFound},
		"Go error":      {scriptedPeer{list: func(*dragoman.Message) (*dragoman.Message, error) { return nil, dragoman.ErrOverloaded }}, 503, protocol.CodeOverloaded},
		"panic":         {scriptedPeer{list: func(*dragoman.Message) (*dragoman.Message, error) { panic("part of the test") }}, 500, protocol.CodeInternal},
		"no tools":      {lists(`{}`), 500, protocol.CodeInternal},
		"endless pages": {lists(`{"tools":[],"nextCursor":"x"}`), 500, protocol.CodeInternal},
		"too large":     {lists(`{"tools":[{"name":"` + strings.Repeat("x", 2000) + `"}]}`), 502, protocol.CodeTooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, &toolhttp.Server{Requests: test.peer, MaxMessage: 1000, Check: func(_, _ json.RawMessage) error {
				return errors.New("nothing fits")
			}})
			s.do("GET", "", "").wantError(test.status, `null`, test.code)
			s.do("POST", "", request(`1`, "any", `{}`)).wantResult(`1`)
			s.do("POST", "/any", `{}`).wantOK()
		})
	}
}

// A countingPeer is a peer that counts how often its tools are listed. The list names
// the tool "t" and those in names.
type countingPeer struct {
	scriptedPeer
	count atomic.Int32
	mu    sync.Mutex
	names []string
	more  string // members of the result, ending with a comma
}

func newCountingPeer(more string) *countingPeer {
	c := &countingPeer{more: more}
	c.list = func(req *dragoman.Message) (*dragoman.Message, error) {
		c.count.Add(1)
		c.mu.Lock()
		defer c.mu.Unlock()
		list := `{"name":"t"}`
		for _, n := range c.names {
			list += `,{"name":"` + n + `"}`
		}
		return req.Reply(json.RawMessage(`{` + c.more + `"tools":[` + list + `]}`))
	}
	c.call = func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if req.Name() != "t" && !slices.Contains(c.names, req.Name()) {
			return req.Fail(&dragoman.Error{Code: protocol.CodeInvalidParams, Message: "Unknown tool"}), nil
		}
		return req.Reply(json.RawMessage(`{"content":[{"type":"text","text":""}]}`))
	}
	return c
}

func (c *countingPeer) add(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.names = append(c.names, name)
}

// A serveRecorded site is one without a network, for tests with a clock of their own.
func serveRecorded(t *testing.T, s *toolhttp.Server, method, path, body string, header ...string) answer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", plainJSON)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return answer{t, w.Code, w.Header(), w.Body.String()}
}

func TestListIsCachedForItsTTL(t *testing.T) {
	call := request(`1`, "t", `{}`)
	for _, test := range []struct {
		name, more string
		ttl        time.Duration // for checks
		listed     time.Duration // for GET
	}{
		{"by its ttl", `"ttlMs":120000,"cacheScope":"public",`, 2 * time.Minute, 2 * time.Minute},
		{"no ttl", ``, 30 * time.Second, 0},
		{"no time at all", `"ttlMs":0,`, 30 * time.Second, 0},
		{"a ttl that is no number", `"ttlMs":"x",`, 30 * time.Second, 0},
		{"very long", `"ttlMs":999999999999999999,`, time.Hour, time.Hour},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCountingPeer(test.more)
				s := &toolhttp.Server{Requests: c}
				for range 3 {
					serveRecorded(t, s, "POST", "/", call).wantOK()
				}
				time.Sleep(test.ttl - time.Millisecond)
				serveRecorded(t, s, "POST", "/", call).wantOK()
				if got := c.count.Load(); got != 1 {
					t.Fatalf("listed %d times, want once", got)
				}
				time.Sleep(time.Millisecond)
				serveRecorded(t, s, "POST", "/", call).wantOK()
				if got := c.count.Load(); got != 2 {
					t.Fatalf("listed %d times, want twice", got)
				}
				serveRecorded(t, s, "GET", "/", "").wantOK()
				if got, want := c.count.Load(), map[bool]int32{true: 3, false: 2}[test.listed == 0]; got != want {
					t.Errorf("listed %d times after GET, want %d", got, want)
				}
			})
		})
	}
}

func TestServerIsAskedForAToolThatItDoesNotList(t *testing.T) {
	for _, test := range []struct {
		name, answer string
		status       int
	}{
		{"an error", `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Unknown tool"}}`, 404},
		{"a result of a tool that has failed", `{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[{"type":"text","text":"Unknown tool"}]}}`, 200},
		{"another error", `{"jsonrpc":"2.0","id":1,"error":{"code":-31004,"message":"later"}}`, 503},
		{"an answer after all", `{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"x"}]}}`, 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			asked := 0
			s := &toolhttp.Server{Requests: scriptedPeer{call: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
				asked++
				m, err := dragoman.Parse([]byte(test.answer))
				return m.WithID(req.ID()), err
			}}}
			for _, accept := range []string{plainJSON, "text/event-stream"} {
				got := serveRecorded(t, s, "POST", "/hidden", `{}`, "Accept", accept)
				if want := test.status; got.status != want && (accept == plainJSON || want == 404 || got.status != 200) {
					t.Errorf("%s: status %d, want %d", accept, got.status, want)
				}
			}
			if asked != 2 {
				t.Errorf("the server was asked %d times for two calls", asked)
			}
		})
	}
}

func TestUnknownToolIsSearchedInANewListOncePerSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCountingPeer(`"ttlMs":600000,`)
		s := &toolhttp.Server{Requests: c}
		for range 5 {
			serveRecorded(t, s, "POST", "/new", `{}`).wantError(404, `null`, protocol.CodeInvalidParams)
		}
		if got := c.count.Load(); got != 1 {
			t.Errorf("listed %d times, want once", got)
		}
		c.add("new")
		time.Sleep(time.Second)
		serveRecorded(t, s, "POST", "/new", `{}`).wantOK()
		if got := c.count.Load(); got != 2 {
			t.Errorf("listed %d times, want twice", got)
		}
	})
}

func TestS30_PrivateListsAreCachedForEachCaller(t *testing.T) {
	caller := func(r *http.Request) (*dragoman.Caller, error) {
		return &dragoman.Caller{Principal: r.Header.Get("Who")}, nil
	}
	for more, want := range map[string]int32{``: 2, `"cacheScope":"private",`: 2, `"cacheScope":"public",`: 1} {
		c := newCountingPeer(more)
		s := &toolhttp.Server{Requests: c, Caller: caller}
		for range 3 {
			for _, who := range []string{"a", "b"} {
				serveRecorded(t, s, "POST", "/t", `{}`, "Who", who).wantOK()
			}
		}
		if got := c.count.Load(); got != want {
			t.Errorf("%s listed %d times for two callers, want %d", more, got, want)
		}
	}
}

func TestOneListIsFetchedForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCountingPeer(``)
		list := c.list
		c.list = func(req *dragoman.Message) (*dragoman.Message, error) {
			time.Sleep(time.Second)
			return list(req)
		}
		s := &toolhttp.Server{Requests: c}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() { serveRecorded(t, s, "POST", "/t", `{}`).wantOK() })
		}
		wg.Wait()
		if got := c.count.Load(); got != 1 {
			t.Errorf("listed %d times, want once", got)
		}
	})
}

func TestListThatTakesTooLongIsNotFetchedAgainForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		peer := dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			if req.Method() == protocol.MethodListTools {
				asked++
				<-ctx.Done()
				return nil, context.Cause(ctx)
			}
			return req.Reply(nil)
		}}
		s := &toolhttp.Server{Requests: peer}
		start := time.Now()
		serveRecorded(t, s, "POST", "/any", `{}`).wantOK()
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("the first call took %v", took)
		}
		serveRecorded(t, s, "POST", "/any", `{}`).wantOK()
		if took := time.Since(start); took != 5*time.Second || asked != 1 {
			t.Errorf("the second call came after %v, when %d lists had been asked for", took, asked)
		}
	})
}
