package sessions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/sessions"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A server answers initialize and notes all that it is told.
type server struct {
	refuses string // a method
	fails   string // likewise
	told    []string
}

func (s *server) Call(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	s.told = append(s.told, req.Method()+" "+string(req.Get("level"))+string(req.Get("uri")))
	switch req.Method() {
	case s.fails:
		return nil, dragoman.ErrClosed
	case s.refuses:
		return req.Fail(&dragoman.Error{Code: protocol.CodeInvalidParams, Message: "not any more"}), nil
	case protocol.MethodInitialize:
		return dragoman.NewResult(req.ID(), json.RawMessage(`{"protocolVersion":"`+protocol.LatestLegacy.String()+`","capabilities":{"tools":{"listChanged":true}}}`))
	}
	return dragoman.NewResult(req.ID(), json.RawMessage(`{}`))
}

func (s *server) Notify(_ context.Context, note *dragoman.Message) error {
	s.told = append(s.told, note.Method())
	return nil
}

// tell has a server answer a request, and the memory learn from that.
func tell(t *testing.T, m *sessions.Memory, s *server, method, params string) bool {
	t.Helper()
	req, err := dragoman.NewRequest(dragoman.IntID(1), method, json.RawMessage(params))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Call(t.Context(), req, nil)
	if err != nil {
		t.Fatal(err)
	}
	if method == protocol.MethodInitialize {
		m.Opened(req, resp)
		return true
	}
	return m.Learn(req, resp)
}

// session is a memory of a session that has a level and two subscriptions.
func session(t *testing.T) *sessions.Memory {
	t.Helper()
	m, s := new(sessions.Memory), new(server)
	tell(t, m, s, protocol.MethodInitialize, `{"protocolVersion":"`+protocol.LatestLegacy.String()+`"}`)
	m.Initialized()
	tell(t, m, s, protocol.MethodSetLevel, `{"level":"error"}`)
	for _, uri := range []string{"a:1", "a:2", "a:3"} {
		tell(t, m, s, protocol.MethodSubscribe, `{"uri":"`+uri+`"}`)
	}
	tell(t, m, s, protocol.MethodUnsubscribe, `{"uri":"a:2"}`)
	tell(t, m, &server{refuses: protocol.MethodSubscribe}, protocol.MethodSubscribe, `{"uri":"refused:"}`)
	return m
}

var wholeSession = []string{
	protocol.MethodInitialize + " ", protocol.NoteInitialized, protocol.MethodSetLevel + ` "error"`,
	protocol.MethodSubscribe + ` "a:1"`, protocol.MethodSubscribe + ` "a:3"`,
}

func replay(t *testing.T, m *sessions.Memory, s *server, accept func(*dragoman.Message) error) error {
	t.Helper()
	n := 0
	newID := func() dragoman.ID { n++; return dragoman.StringID(fmt.Sprint("again-", n)) }
	return m.Replay(t.Context(), s, newID, accept, slog.New(slog.DiscardHandler))
}

func anything(*dragoman.Message) error { return nil }

func TestAnotherServerIsToldWhatTheFirstKnew(t *testing.T) {
	s := new(server)
	if err := replay(t, session(t), s, anything); err != nil || !slices.Equal(s.told, wholeSession) {
		t.Errorf("told %q, error %v", s.told, err)
	}
}

func TestRecordHoldsTheWholeSession(t *testing.T) {
	text, err := json.Marshal(session(t).Record())
	if err != nil {
		t.Fatal(err)
	}
	var r sessions.Handshake
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	m, err := r.Restore(dragoman.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	s := new(server)
	if err := replay(t, m, s, anything); err != nil || !slices.Equal(s.told, wholeSession) || r.Revision != protocol.LatestLegacy.String() {
		t.Errorf("told %q, error %v, revision %q", s.told, err, r.Revision)
	}
	for _, hello := range []string{"", "{", `{"jsonrpc":"2.0","method":"initialize"}`, `{"jsonrpc":"2.0","id":1,"method":"ping"}`} {
		if _, err := (&sessions.Handshake{Hello: []byte(hello)}).Restore(dragoman.Limits{}); err == nil {
			t.Errorf("a record that begins with %q was taken", hello)
		}
	}
}

func TestReplayOfASessionThatWasNeverOpenedSendsNothing(t *testing.T) {
	s := new(server)
	if err := replay(t, new(sessions.Memory), s, anything); err != nil || s.told != nil {
		t.Errorf("told %q, error %v", s.told, err)
	}
}

func TestReplayContinuesAfterARefusalAndEndsWithAFailure(t *testing.T) {
	refused := new(dragoman.Error)
	no := errors.New("another server")
	for _, c := range []struct {
		name   string
		server server
		accept func(*dragoman.Message) error
		is     func(error) bool
		told   []string
	}{
		{"the level is refused", server{refuses: protocol.MethodSetLevel}, anything, func(err error) bool { return err == nil }, wholeSession},
		{"the subscriptions are refused", server{refuses: protocol.MethodSubscribe}, anything, func(err error) bool { return err == nil }, wholeSession},
		{"the handshake is refused", server{refuses: protocol.MethodInitialize}, anything, func(err error) bool { return errors.As(err, &refused) }, wholeSession[:1]},
		{"the handshake is not accepted", server{}, func(*dragoman.Message) error { return no }, func(err error) bool { return errors.Is(err, no) }, wholeSession[:1]},
		{"the level gets no answer", server{fails: protocol.MethodSetLevel}, anything, func(err error) bool { return errors.Is(err, dragoman.ErrClosed) }, wholeSession[:3]},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := replay(t, session(t), &c.server, c.accept); !c.is(err) || !slices.Equal(c.server.told, c.told) {
				t.Errorf("told %q, error %v", c.server.told, err)
			}
		})
	}
}

func TestMissedChangesAreThoseOfListsAndSubscriptions(t *testing.T) {
	missed := session(t).Missed()
	if !missed.Tools || missed.Prompts || missed.Resources || !slices.Equal(missed.URIs, []string{"a:1", "a:3"}) {
		t.Errorf("got %+v", missed)
	}
}

func TestSubscriptionsThatAreRememberedAreBounded(t *testing.T) {
	for name, uri := range map[string]func(int) string{
		"many": func(i int) string { return fmt.Sprint("a:", i) },
		"long": func(i int) string { return fmt.Sprint("a:", i, strings.Repeat("x", sessions.MaxSubscriptionBytes/8)) },
	} {
		t.Run(name, func(t *testing.T) {
			m, s := new(sessions.Memory), new(server)
			learnt, again := 0, false
			for i := range sessions.MaxSubscriptions + 10 {
				if tell(t, m, s, protocol.MethodSubscribe, `{"uri":"`+uri(i)+`"}`) {
					learnt++
				}
			}
			if tell(t, m, s, protocol.MethodUnsubscribe, `{"uri":"`+uri(0)+`"}`) {
				again = tell(t, m, s, protocol.MethodSubscribe, `{"uri":"`+uri(0)+`"}`)
			}
			missed, bytes := m.Missed(), 0
			for _, u := range missed.URIs {
				bytes += len(u)
			}
			if learnt != len(missed.URIs) || learnt == 0 || learnt > sessions.MaxSubscriptions || bytes > sessions.MaxSubscriptionBytes || !again {
				t.Errorf("%d learnt, %d remembered, %d bytes, room after one less: %t", learnt, len(missed.URIs), bytes, again)
			}
		})
	}
}
