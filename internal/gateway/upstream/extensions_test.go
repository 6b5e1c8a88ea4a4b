package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/catalog"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// showing is a legacy server whose sessions list a tool for each extension that their client
// has declared, and one for all.
type showing struct {
	more atomic.Bool // it has another tool

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

// toolsFor returns what a caller with extensions is offered.
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

func TestClientsWithExtensionsShareASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := new(showing)
		f := &fake{acceptor: s}
		u := one(t, f, &config.Server{Health: config.Health{Interval: -1}})
		synctest.Wait()
		opened := func() int { return len(f.dialled()) }
		before := opened()
		for i := range 20 {
			who := fmt.Sprint("client ", i)
			for extensions, want := range map[string]string{`{"ui":{"a":1}}`: "plain ui", `{}`: "plain"} {
				if got := toolsFor(t, u, who, extensions); got != want {
					t.Fatalf("%s: got %q", extensions, got)
				}
			}
		}
		if n, asked := opened()-before, s.asked(); n != 1 || asked != 1 {
			t.Errorf("%d sessions were opened and %d lists asked for, want 1 each", n, asked)
		}
		s.more.Store(true)
		s.changed(t)
		time.Sleep(time.Second)
		if got := toolsFor(t, u, "a", `{"ui":{"a":1}}`); got != "plain ui more" {
			t.Errorf("after a change: got %q", got)
		}
		before = opened()
		if got := toolsFor(t, u, "b", `{"long":"`+strings.Repeat("x", catalog.MaxExtensions)+`"}`); got != "plain long more" || opened() != before+1 {
			t.Errorf("beyond the limits, in the client's own session: got %q", got)
		}
	})
}
