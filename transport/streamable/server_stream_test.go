package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"net/http/httptest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

func TestB06_B07_AnswersAreJSONUnlessSomethingComesBefore(t *testing.T) {
	v := open(t, nil).hello(protocol.LatestLegacy)
	resp := v.do(t.Context(), http.MethodPost, echoCall(`"a"`, "hi"))
	if ct := resp.Header.Get("Content-Type"); ct != "application/json" {
		t.Errorf("a plain answer is %q", ct)
	}
	stream := v.events(v.do(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test_tool_with_progress","_meta":{"progressToken":"p"}}}`))
	last := ""
	for {
		m := stream.message()
		if m.Kind() == dragoman.Response {
			break
		}
		if got := string(m.Get("progress")); m.Method() != protocol.NoteProgress || string(m.Get("progressToken")) != `"p"` || got == last {
			t.Errorf("before the answer comes %s", m)
		} else {
			last = got
		}
	}
	if last == "" {
		t.Error("no progress came")
	}
	stream.end()
}

func TestQuestionsAreAskedOnTheRequestsStreamAndAnsweredByPost(t *testing.T) {
	v := open(t, nil).hello(protocol.LatestLegacy)
	stream := v.events(v.do(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_sampling","arguments":{"prompt":"hi"}}}`))
	q := stream.message()
	if q.Method() != protocol.MethodCreateMessage {
		t.Fatalf("asked: %s", q)
	}
	v.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"role":"assistant","content":{"type":"text","text":"forty-two"},"model":"m"}}`, q.ID()), http.StatusAccepted, "")
	if m := stream.message(); m.Kind() != dragoman.Response || !strings.Contains(m.String(), "forty-two") {
		t.Errorf("answer: %s", m)
	}
}

func TestS25_B09_B10_GetStreamCarriesWhatBelongsToNoRequestOnce(t *testing.T) {
	v := open(t, nil).hello(protocol.LatestLegacy)
	stream := v.events(v.do(t.Context(), http.MethodGet, ""))
	if resp := v.do(t.Context(), http.MethodGet, ""); resp.StatusCode != http.StatusConflict {
		t.Errorf("a second stream: %d, want 409", resp.StatusCode)
	}
	if resp := v.with("Accept", "application/json").do(t.Context(), http.MethodGet, ""); resp.StatusCode != http.StatusNotAcceptable {
		t.Errorf("without Accept: %d, want 406", resp.StatusCode)
	}
	status, text := v.post(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"test_trigger_tool_change"}}`)
	if status != http.StatusOK || strings.Contains(text, "list_changed") {
		t.Errorf("the call is answered with %d %s", status, text)
	}
	if m := stream.message(); m.Method() != protocol.NoteToolsChanged {
		t.Errorf("the stream carries %s", m)
	}
}

// talking is a server whose tool says three things, and waits before each of
// the last two, and before its answer, until proceed gets the id of the call.
func talking(t *testing.T, log eventlog.Log) (v *site, proceed map[string]chan struct{}, cancelled chan struct{}) {
	proceed = map[string]chan struct{}{"1": make(chan struct{}), "2": make(chan struct{})}
	cancelled = make(chan struct{}, 2)
	answer := func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		switch req.Method() {
		case protocol.MethodInitialize:
			return req.Reply(map[string]any{"protocolVersion": protocol.LatestLegacy.String(), "capabilities": map[string]any{}, "serverInfo": map[string]string{"name": "x", "version": "1"}})
		case protocol.MethodCallTool:
			for i := range 3 {
				note, _ := dragoman.NewNotification(protocol.NoteMessage, map[string]any{"level": "info", "data": fmt.Sprintf("%s-%d", req.ID(), i)})
				if err := from.Notify(ctx, note); err != nil {
					t.Errorf("Notify: %v", err)
				}
				select {
				case <-proceed[req.ID().String()]:
				case <-ctx.Done():
					cancelled <- struct{}{}
					return nil, ctx.Err()
				}
			}
		}
		return req.Reply(nil)
	}
	accept := dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
		return dragoman.Funcs{OnCall: answer}, nil
	})
	return open(t, &streamable.Server{Sessions: accept, Log: log}).hello(protocol.LatestLegacy), proceed, cancelled
}

const toolCall = `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"x"}}`

func TestB08_B11_LostStreamIsResumedWhereItBroke(t *testing.T) {
	v, proceed, cancelled := talking(t, nil)
	ctx, drop := context.WithCancel(t.Context())
	first := v.events(v.do(ctx, http.MethodPost, fmt.Sprintf(toolCall, 1))).next()
	other := v.events(v.do(t.Context(), http.MethodPost, fmt.Sprintf(toolCall, 2)))
	other.next()
	drop()
	proceed["1"] <- struct{}{} // 1-1 is said to nobody
	resumed := v.events(v.with(protocol.HeaderLastEventID, first.ID).do(t.Context(), http.MethodGet, ""))
	want := func(stream *eventsOf, part string) {
		t.Helper()
		if e := stream.next(); !strings.Contains(string(e.Data), part) {
			t.Errorf("the stream carries %s, want %s", e.Data, part)
		}
	}
	want(resumed, `"1-1"`)
	proceed["2"] <- struct{}{}
	want(other, `"2-1"`)
	proceed["1"] <- struct{}{}
	want(resumed, `"1-2"`)
	proceed["1"] <- struct{}{}
	want(resumed, `"id":1,"result"`)
	resumed.end()
	proceed["2"] <- struct{}{}
	proceed["2"] <- struct{}{}
	want(other, `"2-2"`)
	want(other, `"id":2,"result"`)
	again := v.events(v.with(protocol.HeaderLastEventID, first.ID).do(t.Context(), http.MethodGet, ""))
	for _, part := range []string{`"1-1"`, `"1-2"`, `"id":1,"result"`} {
		want(again, part)
	}
	again.end()
	if len(cancelled) > 0 {
		t.Error("B08: the disconnect was taken for a cancel")
	}
}

func TestLostRangeIsAnErrorAndNoGap(t *testing.T) {
	v, proceed, _ := talking(t, eventlog.NewMemory(&eventlog.MemoryOptions{MaxEvents: 1}))
	stream := v.events(v.do(t.Context(), http.MethodPost, fmt.Sprintf(toolCall, 1)))
	first := stream.next()
	proceed["1"] <- struct{}{}
	stream.next()
	proceed["1"] <- struct{}{}
	stream.next()
	for _, id := range []string{first.ID, "9_1", "nonsense", "0_99", "1_-1", "1_99999999999999999999"} {
		resp := v.with(protocol.HeaderLastEventID, id).do(t.Context(), http.MethodGet, "")
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("Last-Event-ID %s: %d, want 400", id, resp.StatusCode)
		}
	}
	proceed["1"] <- struct{}{}
	stream.next()
}

func TestStreamsArePrimedWhereTheRevisionHasThat(t *testing.T) {
	s := open(t, nil)
	for _, rev := range protocol.Revisions() {
		if !rev.HasSessions() || !rev.HasStreamableHTTP() {
			continue
		}
		v := s.hello(rev)
		stream := v.events(v.do(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test_tool_with_progress","_meta":{"progressToken":"p"}}}`))
		e, err := stream.r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if primed := len(e.Data) == 0 && e.ID != ""; primed != rev.PrimesStreams() || e.ID == "" {
			t.Errorf("%s: the first event is %+v", rev, e)
		}
	}
}

func TestS22_IdleSessionIsEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := builtin.New(nil)
		s := &streamable.Server{Sessions: e, IdleTimeout: time.Minute}
		send := func(session, body string) *httptest.ResponseRecorder {
			r := httptest.NewRequest(http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Accept", "application/json, text/event-stream")
			if session != "" {
				r.Header.Set(protocol.HeaderSession, session)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w
		}
		id := send("", initialize(protocol.LatestLegacy, "{}")).Header().Get(protocol.HeaderSession)
		for range 3 {
			time.Sleep(50 * time.Second)
			if w := send(id, ping); w.Code != http.StatusOK {
				t.Fatalf("in use: %d %s", w.Code, w.Body)
			}
		}
		time.Sleep(2 * time.Minute)
		if w := send(id, ping); w.Code != http.StatusNotFound {
			t.Errorf("after the timeout: %d %s, want 404", w.Code, w.Body)
		}
		_ = s.Shutdown(t.Context())
	})
}

func TestSilentAnswerBecomesAStreamThatIsKeptAlive(t *testing.T) {
	proceed := make(chan struct{})
	s := open(t, &streamable.Server{KeepAlive: 20 * time.Millisecond, Requests: dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		<-proceed
		return req.Reply(map[string]string{"resultType": "complete"})
	}}})
	resp := s.modern("server/discover", "").do(t.Context(), http.MethodPost, modernCall("1", "server/discover", ""))
	b := make([]byte, len(": ok\n\n: keep-alive\n\n"))
	for n := 0; n < len(b); {
		m, err := resp.Body.Read(b[n:])
		if err != nil {
			t.Fatal(err)
		}
		n += m
	}
	if string(b) != ": ok\n\n: keep-alive\n\n" {
		t.Errorf("read %q", b)
	}
	close(proceed)
	if m := s.events(resp).message(); m.Kind() != dragoman.Response {
		t.Errorf("then comes %s", m)
	}
}
