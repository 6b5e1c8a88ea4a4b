package streamable_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

const (
	setLevel    = `{"jsonrpc":"2.0","id":5,"method":"logging/setLevel","params":{"level":"debug"}}`
	subscribe   = `{"jsonrpc":"2.0","id":6,"method":"resources/subscribe","params":{"uri":"x:%s"}}`
	unsubscribe = `{"jsonrpc":"2.0","id":7,"method":"resources/unsubscribe","params":{"uri":"x:%s"}}`
	listTools   = `{"jsonrpc":"2.0","id":"adopt-1","method":"tools/list"}`
	talkCall    = `{"jsonrpc":"2.0","id":%s,"method":"tools/call","params":{"name":"talk"}}`
	said        = `"said":"tools/list"`
)

func TestPain2_SessionContinuesAfterARestart(t *testing.T) {
	streamables(t, func(t *testing.T, rev protocol.Revision) {
		peertest.NoLeak(t)
		h, store := newHotel(), newLedger()
		first, stop := serve(t, &streamable.Server{Sessions: h, Store: store})
		v := first.hello(rev)
		v.want(setLevel, http.StatusOK, "result")
		for _, uri := range []string{"a", "b", "c", "b"} {
			v.want(fmt.Sprintf(subscribe, uri), http.StatusOK, "result")
		}
		v.want(fmt.Sprintf(unsubscribe, "a"), http.StatusOK, "result")
		stop()
		for guest := 1; guest <= 2; guest++ { // and once more
			next, stop := serve(t, &streamable.Server{Sessions: h, Store: store})
			v.at(next).want(listTools, http.StatusOK, said)
			want := []string{"initialize", "notifications/initialized", "logging/setLevel debug", "resources/subscribe x:b", "resources/subscribe x:c", "tools/list"}
			if got := h.heard(guest); !slices.Equal(got, want) {
				t.Errorf("the new server heard %q, want %q", got, want)
			}
			v.at(next).want(`{"jsonrpc":"2.0","id":8,"method":"ping"}`, http.StatusOK, `"said":"ping"`)
			if guest == 2 {
				resp := v.at(next).do(t.Context(), http.MethodDelete, "")
				if _, ids := store.written(); resp.StatusCode != http.StatusNoContent || len(ids) > 0 {
					t.Errorf("DELETE: %d, and %q are recorded", resp.StatusCode, ids)
				}
				v.at(next).want(listTools, http.StatusNotFound, "Session not found")
			}
			stop()
		}
		if h.count() != 3 {
			t.Errorf("%d conversations were opened, want 3", h.count())
		}
	})
}

func TestPain2_HandshakeIsRepeatedAsItWas(t *testing.T) {
	const hello = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"x":12345678901234567890,"<&>":1.0},"clientInfo":{"name":"t","version":"1"}}}`
	var mu sync.Mutex
	var heard []*dragoman.Message
	peer := dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		mu.Lock()
		defer mu.Unlock()
		heard = append(heard, req)
		return req.Reply(map[string]string{"protocolVersion": "2025-11-25"})
	}}
	accept := dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) { return peer, nil })
	store := newLedger()
	first, stop := serve(t, &streamable.Server{Sessions: accept, Store: store})
	v := *first
	v.session = first.do(t.Context(), http.MethodPost, hello).Header.Get(protocol.HeaderSession)
	stop()
	next, _ := serve(t, &streamable.Server{Sessions: accept, Store: store})
	v.at(next).want(listTools, http.StatusOK, "result")
	mu.Lock()
	defer mu.Unlock()
	if len(heard) != 3 || string(heard[0].Params()) != string(heard[1].Params()) {
		t.Fatalf("heard %v", heard)
	}
	if heard[1].ID() == heard[0].ID() || heard[1].ID() == heard[2].ID() {
		t.Errorf("the repeated request has the id %s, which another has", heard[1].ID())
	}
}

func TestPain2_ManyRequestsAtOnceAdoptOnce(t *testing.T) {
	peertest.NoLeak(t)
	h, store := newHotel(), newLedger()
	first, stop := serve(t, &streamable.Server{Sessions: h, Store: store})
	v := first.hello(protocol.LatestLegacy)
	stop()
	next, _ := serve(t, &streamable.Server{Sessions: h, Store: store})
	v = v.at(next)
	hold := make(chan struct{})
	h.set(func() { h.hold = hold })
	// A client that leaves in the middle takes nobody with it.
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() { // ends when leave is called
		defer close(left)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, v.url, http.NoBody)
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Accept", "text/event-stream")
		req.Header.Set(protocol.HeaderSession, v.session)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
			t.Error("answered before the session was there")
		}
	}()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			v.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`, i+10), http.StatusOK, said)
		})
	}
	leave()
	<-left
	close(hold)
	wg.Wait()
	if h.count() != 2 {
		t.Errorf("%d conversations were opened, want 2", h.count())
	}
}

func TestPain3_LostSessionIs404ForEveryMethod(t *testing.T) {
	peertest.NoLeak(t)
	h, store := newHotel(), newLedger()
	first, stop := serve(t, &streamable.Server{Sessions: h, Store: store, Caller: byUser})
	ada := first.with("X-User", "ada")
	sessions := make(map[string]*site)
	for _, name := range []string{"another's", "deleted", "expired", "damaged", "of no revision", "good"} {
		sessions[name] = ada.hello(protocol.LatestLegacy)
	}
	stop()
	if strings.Contains(fmt.Sprint(store.records), "ada") {
		t.Error("the caller can be read in the records")
	}
	next, _ := serve(t, &streamable.Server{Sessions: h, Store: store, Caller: byUser})
	sessions["another's"] = sessions["another's"].with("X-User", "bob")
	sessions["another's"].header["X-User"] = []string{"bob"}
	_ = store.Delete(t.Context(), sessions["deleted"].session, eventlog.AnyRevision)
	store.edit(sessions["expired"].session, `"used":"2`, `"used":"1`)
	store.edit(sessions["damaged"].session, `{`, `[`)
	store.edit(sessions["of no revision"].session, protocol.LatestLegacy.String(), "1999-01-01")
	sessions["never known"] = ada.at(next)
	sessions["never known"].session = strings.Repeat("x", 26)
	sessions["much too long"] = ada.at(next)
	sessions["much too long"].session = strings.Repeat("x", 10_000)
	for name, v := range sessions {
		if name == "good" {
			continue
		}
		v = v.at(next)
		v.want(listTools, http.StatusNotFound, "Session not found")
		v.want(`{"jsonrpc":"2.0","method":"notifications/x"}`, http.StatusNotFound, "Session not found")
		for _, method := range []string{http.MethodGet, http.MethodDelete} {
			if resp := v.do(t.Context(), method, ""); resp.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %s is answered with %d, want 404", name, method, resp.StatusCode)
			}
		}
		if resp := v.with(protocol.HeaderLastEventID, "0_1").do(t.Context(), http.MethodGet, ""); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: GET with Last-Event-ID is answered with %d, want 404", name, resp.StatusCode)
		}
	}
	if h.count() != len(sessions)-2 {
		t.Errorf("%d conversations were opened", h.count())
	}
	sessions["good"].at(next).want(listTools, http.StatusOK, said)
	next.want(listTools, http.StatusBadRequest, protocol.HeaderSession+" is missing")
}

func TestPain3_ServerThatIsAwayDoesNotCostTheSession(t *testing.T) {
	peertest.NoLeak(t)
	h, store := newHotel(), newLedger()
	first, stop := serve(t, &streamable.Server{Sessions: h, Store: store})
	v := first.hello(protocol.LatestLegacy)
	stop()
	next, _ := serve(t, &streamable.Server{Sessions: h, Store: store})
	v = v.at(next)
	for name, away := range map[string]func(){
		"not accepted": func() { h.closed = true },
		"no handshake": func() { h.away = errors.New("down") },
		"no records":   func() { store.fail(errors.New("disk")) },
	} {
		h.set(away)
		status, text := v.post(listTools)
		if status != http.StatusOK || !strings.Contains(text, `"id":"adopt-1"`) || !strings.Contains(text, fmt.Sprint(protocol.CodeUnavailable)) || !strings.Contains(text, `"not_sent"`) {
			t.Errorf("%s: a request is answered with %d %s", name, status, text)
		}
		for _, resp := range []*http.Response{
			v.do(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","method":"notifications/x"}`),
			v.do(t.Context(), http.MethodGet, ""),
		} {
			if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") != "1" {
				t.Errorf("%s: what is no request is answered with %d %v", name, resp.StatusCode, resp.Header)
			}
		}
		h.set(func() { h.closed, h.away = false, nil })
		store.fail(nil)
	}
	v.want(listTools, http.StatusOK, said)
}

func TestSessionIsNotTakenUpInAnotherRevision(t *testing.T) {
	h, store := newHotel(), newLedger()
	first, stop := serve(t, &streamable.Server{Sessions: h, Store: store})
	v := first.hello(protocol.LatestLegacy)
	stop()
	h.set(func() { h.rev = protocol.ParseRevision("2025-03-26") })
	next, _ := serve(t, &streamable.Server{Sessions: h, Store: store})
	v.at(next).want(listTools, http.StatusNotFound, "Session not found")
	if _, ids := store.written(); len(ids) != 0 {
		t.Errorf("%q are recorded still", ids)
	}
}

func TestSessionsAreNotTakenUpBeyondTheLimit(t *testing.T) {
	h, store := newHotel(), newLedger()
	first, stop := serve(t, &streamable.Server{Sessions: h, Store: store})
	v, w := first.hello(protocol.LatestLegacy), first.hello(protocol.LatestLegacy)
	stop()
	next, _ := serve(t, &streamable.Server{Sessions: h, Store: store, MaxSessions: 1})
	v.at(next).want(listTools, http.StatusOK, said)
	w.at(next).want(listTools, http.StatusServiceUnavailable, fmt.Sprint(protocol.CodeOverloaded))
	v.at(next).do(t.Context(), http.MethodDelete, "")
	w.at(next).want(listTools, http.StatusOK, said)
}

func TestClientThatListensIsToldWhatMayHaveChanged(t *testing.T) {
	h, store := newHotel(), newLedger()
	log := eventlog.NewMemory(nil)
	first, stop := serve(t, &streamable.Server{Sessions: h, Store: store, Log: log})
	v := first.hello(protocol.LatestLegacy)
	v.want(fmt.Sprintf(subscribe, "a"), http.StatusOK, "result")
	primer, err := v.events(v.do(t.Context(), http.MethodGet, "")).r.Next()
	if err != nil {
		t.Fatal(err)
	}
	stop()
	next, _ := serve(t, &streamable.Server{Sessions: h, Store: store, Log: log})
	stream := v.events(v.at(next).with(protocol.HeaderLastEventID, primer.ID).do(t.Context(), http.MethodGet, ""))
	if m := stream.message(); m.Method() != protocol.NoteToolsChanged {
		t.Errorf("told %s", m)
	}
	if m := stream.message(); m.Method() != protocol.NoteResourceUpdated || m.URI() != "x:a" {
		t.Errorf("then %s", m)
	}
}

func TestLimitsOfRecords(t *testing.T) {
	h, store := newHotel(), newLedger()
	first, stop := serve(t, &streamable.Server{Sessions: h, Store: store})
	v := first.hello(protocol.LatestLegacy)
	for i := range 1030 {
		v.want(fmt.Sprintf(subscribe, fmt.Sprint(i)), http.StatusOK, "result")
	}
	resp := first.do(t.Context(), http.MethodPost, initialize(protocol.LatestLegacy, `{"x":"`+strings.Repeat("y", 70_000)+`"}`))
	large := *first
	large.session = resp.Header.Get(protocol.HeaderSession)
	large.want(listTools, http.StatusOK, said)
	if _, ids := store.written(); len(ids) != 1 {
		t.Errorf("%d sessions are recorded, want 1", len(ids))
	}
	stop()
	next, _ := serve(t, &streamable.Server{Sessions: h, Store: store})
	large.at(next).want(listTools, http.StatusNotFound, "Session not found")
	v.at(next).want(listTools, http.StatusOK, said)
	if got := h.heard(2); len(got) != 2+1024+1 || got[1025] != "resources/subscribe x:1023" {
		t.Errorf("the new server was asked %d things, the last but one %q", len(got), got[len(got)-2])
	}
}

// Two DELETEs at once of a session that nobody has used since the restart.
func TestB13_RecordedSessionIsDeletedOnceAndNobodyIsAsked(t *testing.T) {
	h, store := newHotel(), newLedger()
	first, stop := serve(t, &streamable.Server{Sessions: h, Store: store})
	v := first.hello(protocol.LatestLegacy)
	stop()
	next, _ := serve(t, &streamable.Server{Sessions: h, Store: store})
	var wg sync.WaitGroup
	var mu sync.Mutex
	count := make(map[int]int)
	for range 8 {
		wg.Go(func() {
			resp := v.at(next).do(t.Context(), http.MethodDelete, "")
			mu.Lock()
			defer mu.Unlock()
			count[resp.StatusCode]++
		})
	}
	wg.Wait()
	if count[http.StatusNoContent] != 1 || count[http.StatusNotFound] != 7 || h.count() != 1 {
		t.Errorf("eight DELETEs at once: %v; %d conversations", count, h.count())
	}
}

// A slowLedger is one whose deletes wait.
type slowLedger struct {
	*ledger
	deleting chan struct{} // gets a value when a delete begins
	release  chan struct{}
}

func (l *slowLedger) Delete(ctx context.Context, id string, revision uint64) error {
	l.deleting <- struct{}{}
	<-l.release
	return l.ledger.Delete(ctx, id, revision)
}

func TestSessionIsGoneAsSoonAsItIsDeleted(t *testing.T) {
	l := &slowLedger{newLedger(), make(chan struct{}, 3), make(chan struct{})}
	site, _ := serve(t, &streamable.Server{Sessions: newHotel(), Store: l})
	v := site.hello(protocol.LatestLegacy)
	deleted := make(chan int, 1)
	go func() { deleted <- v.do(t.Context(), http.MethodDelete, "").StatusCode }() // ends with release
	<-l.deleting
	statuses := make(chan int, 2)
	for _, method := range []string{http.MethodDelete, http.MethodPost} {
		go func() { statuses <- v.do(t.Context(), method, listTools).StatusCode }() // ends with its response
	}
	for range cap(statuses) {
		select {
		case status := <-statuses:
			if status != http.StatusNotFound {
				t.Errorf("a request while the record is being deleted gets %d", status)
			}
		case <-l.deleting:
			t.Error("the record is deleted twice")
		}
	}
	close(l.release)
	if status := <-deleted; status != http.StatusNoContent {
		t.Errorf("the first DELETE: %d", status)
	}
}
