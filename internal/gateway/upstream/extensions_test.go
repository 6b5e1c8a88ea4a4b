package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// showing is a legacy server whose sessions list a tool for each extension that their client
// has declared, and one for all.
type showing struct {
	slow    atomic.Int64 // nanoseconds that a session with extensions takes to list
	refuses atomic.Bool  // it refuses those sessions
	more    atomic.Bool  // it has another tool

	mu    sync.Mutex
	conns []dragoman.Conn
	lists int // that sessions with extensions were asked for
}

func (s *showing) Accept(_ context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	s.mu.Lock()
	s.conns = append(s.conns, client)
	s.mu.Unlock()
	var extensions json.RawMessage
	return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		switch req.Method() {
		case protocol.MethodInitialize:
			extensions = dragoman.Member(req.Get("capabilities"), "extensions")
			if extensions != nil && s.refuses.Load() {
				return nil, errors.New("no")
			}
			return req.Reply(json.RawMessage(fmt.Sprintf(`{"protocolVersion":%q,"capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"s","version":"1"}}`, protocol.LatestLegacy)))
		case protocol.MethodListTools:
			names := []string{"plain"}
			for name := range dragoman.Members(extensions) {
				names = append(names, strings.Clone(name))
			}
			if s.more.Load() {
				names = append(names, "more")
			}
			if extensions != nil {
				s.mu.Lock()
				s.lists++
				s.mu.Unlock()
				select {
				case <-time.After(time.Duration(s.slow.Load())):
				case <-ctx.Done():
				}
			}
			return req.Reply(json.RawMessage(`{"tools":[{"name":"` + strings.Join(names, `"},{"name":"`) + `"}]}`))
		case protocol.MethodPing:
			return req.Reply(nil)
		}
		return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "no"}), nil
	}}, nil
}

// changed has the server tell all sessions that its tools have changed.
func (s *showing) changed(t *testing.T) {
	t.Helper()
	note, err := dragoman.NewNotification(protocol.NoteToolsChanged, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	conns := s.conns
	s.mu.Unlock()
	for _, c := range conns {
		_ = c.Notify(t.Context(), note)
	}
}

func (s *showing) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lists
}

// tools returns what a caller with extensions is offered.
func toolsFor(t *testing.T, u *Upstream, who, extensions string) string {
	t.Helper()
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodListTools, nil)
	if err == nil {
		req, err = protocol.Envelope{Version: protocol.Latest.String(), Capabilities: json.RawMessage(`{"extensions":` + extensions + `}`)}.Put(req)
	}
	if err != nil {
		t.Fatal(err)
	}
	resp, err := u.Service().Requests().Call(dragoman.WithCaller(t.Context(), &dragoman.Caller{Address: who}), req, nil)
	if err != nil || resp.IsError() {
		t.Fatal(resp, err)
	}
	var names []string
	for _, tool := range dragoman.Items(resp.Get("tools")) {
		names = append(names, dragoman.MemberText(tool, "name"))
	}
	return strings.Join(names, " ")
}

func withShowing(t *testing.T, c *config.Server, f func(t *testing.T, s *showing, u *Upstream, opened func() int)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := new(showing)
		fake := &fake{acceptor: s}
		if c == nil {
			c = new(config.Server)
		}
		c.Health.Interval = -1
		u := one(t, fake, c)
		synctest.Wait()
		f(t, s, u, func() int { return len(fake.dialled()) })
	})
}

func TestListsForExtensionsAreKeptForAllClientsWithThem(t *testing.T) {
	withShowing(t, nil, func(t *testing.T, s *showing, u *Upstream, opened func() int) {
		before := opened()
		for i := range 20 {
			who := fmt.Sprint("client ", i)
			if got := toolsFor(t, u, who, `{"ui":{"a":1,"b":2.0},"io.modelcontextprotocol/tasks":{}}`); got != "plain ui" {
				t.Fatalf("got %q", got)
			}
			if got := toolsFor(t, u, who, `{"ui":{"b":2.0,"a":1}}`); got != "plain ui" {
				t.Fatalf("spelled otherwise: got %q", got)
			}
			for _, none := range []string{`{}`, `{"io.modelcontextprotocol/tasks":{}}`, `[]`, `null`} {
				if got := toolsFor(t, u, who, none); got != "plain" {
					t.Fatalf("%s: got %q", none, got)
				}
			}
		}
		if n, asked := opened()-before, s.asked(); n != 1 || asked != 1 {
			t.Errorf("%d sessions were opened and %d lists asked for, want 1 each", n, asked)
		}
		s.more.Store(true)
		s.changed(t)
		time.Sleep(time.Second)
		if got := toolsFor(t, u, "a", `{"ui":{"a":1,"b":2.0}}`); got != "plain ui more" {
			t.Errorf("after a change: got %q", got)
		}
	})
}

func TestListForExtensionsThatTakesLongIsAnnouncedWhenItIsThere(t *testing.T) {
	withShowing(t, nil, func(t *testing.T, s *showing, u *Upstream, _ func() int) {
		s.slow.Store(int64(3 * time.Second))
		told := make(chan string, 8)
		defer u.Service().OnChange(func(note string) { told <- note })()
		began := time.Now()
		if got := toolsFor(t, u, "a", `{"ui":{}}`); got != "plain" || time.Since(began) != extensionWait {
			t.Errorf("after %v: got %q", time.Since(began), got)
		}
		if len(told) != 0 {
			t.Errorf("announced: %q", <-told)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if len(told) != 1 || <-told != protocol.NoteToolsChanged {
			t.Error("the list was not announced, once")
		}
		if got := toolsFor(t, u, "a", `{"ui":{}}`); got != "plain ui" {
			t.Errorf("afterwards: got %q", got)
		}
	})
}

func TestClientsWithExtensionsGetThePlainListIfThereIsNoOther(t *testing.T) {
	withShowing(t, nil, func(t *testing.T, s *showing, u *Upstream, _ func() int) {
		s.refuses.Store(true)
		if got := toolsFor(t, u, "a", `{"ui":{}}`); got != "plain" {
			t.Errorf("got %q", got)
		}
		s.refuses.Store(false)
		began := time.Now()
		if got := toolsFor(t, u, "a", `{"ui":{}}`); got != "plain" || time.Since(began) != 0 {
			t.Errorf("again, after %v: got %q", time.Since(began), got)
		}
		time.Sleep(extensionRetry)
		if got := toolsFor(t, u, "a", `{"ui":{}}`); got != "plain ui" {
			t.Errorf("after a while: got %q", got)
		}
	})
}

func TestSetsOfExtensionsAreBounded(t *testing.T) {
	withShowing(t, nil, func(t *testing.T, _ *showing, u *Upstream, opened func() int) {
		set := func(i int) string { return fmt.Sprintf(`{"x%d":{}}`, i) }
		for i := range MaxExtensionSets {
			toolsFor(t, u, "a", set(i))
		}
		before := opened()
		for _, extensions := range []string{set(100), set(101), `{"long":"` + strings.Repeat("x", maxExtensions) + `"}`} {
			want := "plain " + extensions[2:strings.Index(extensions, `":`)]
			if got := toolsFor(t, u, "b", extensions); got != want {
				t.Errorf("beyond the limit: got %q, want %q", got, want)
			}
		}
		if n := opened() - before; n != 3 {
			t.Errorf("%d sessions were opened, want the client's own, 3", n)
		}
		u.lists.mu.Lock()
		n := len(u.lists.sets)
		u.lists.mu.Unlock()
		if n != MaxExtensionSets {
			t.Errorf("lists are kept for %d sets", n)
		}
		time.Sleep(extensionIdle + time.Second)
		for _, who := range []string{"c", "d"} {
			if got := toolsFor(t, u, who, set(100)); got != "plain x100" {
				t.Errorf("when others are not used any more: got %q", got)
			}
		}
	})
}
