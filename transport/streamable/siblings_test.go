package streamable_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// takeover is two Servers on one Store, the old one with a call under way.
type takeover struct {
	*hotel
	store    *ledger
	old      *streamable.Server
	v, w     *site // the client at the old one and at the new one
	stop     func()
	shutdown chan error // what Shutdown of the old one returned
}

func newTakeover(t *testing.T) *takeover {
	t.Helper()
	peertest.NoLeak(t)
	x := &takeover{hotel: newHotel(), store: newLedger(), shutdown: make(chan error, 1)}
	log := eventlog.NewMemory(nil)
	x.old = &streamable.Server{Sessions: x.hotel, Store: x.store, Log: log}
	var first, next *site
	first, x.stop = serve(t, x.old)
	x.v = first.hello(protocol.LatestLegacy)
	next, _ = serve(t, &streamable.Server{Sessions: x.hotel, Store: x.store, Log: log, Before: x.old})
	x.w = x.v.at(next)
	return x
}

// drain begins to shut the old one down, as a reload does.
func (x *takeover) drain(t *testing.T) {
	t.Helper()
	go func() { x.shutdown <- x.old.Shutdown(context.Background()) }() // ends when the calls have
	until(t, "the old server refuses requests", func() bool {
		status, _ := x.v.post(listTools)
		return status == http.StatusServiceUnavailable
	})
}

func (x *takeover) drained(t *testing.T) {
	t.Helper()
	if err := <-x.shutdown; err != nil {
		t.Error(err)
	}
	if _, ids := x.store.written(); len(ids) != 1 {
		t.Errorf("after the old server has ended, %q are recorded", ids)
	}
	x.w.want(listTools, http.StatusOK, said)
}

func TestCallOfTheOldServerIsFinishedAndItsStreamResumedAtTheNewOne(t *testing.T) {
	x := newTakeover(t)
	ctx, drop := context.WithCancel(t.Context())
	defer drop()
	first := x.v.events(x.v.do(ctx, http.MethodPost, fmt.Sprintf(talkCall, "1"))).next()
	x.drain(t)
	x.w.want(listTools, http.StatusOK, said)
	drop()
	resumed := x.w.events(x.w.with(protocol.HeaderLastEventID, first.ID).do(t.Context(), http.MethodGet, ""))
	for _, part := range []string{`"two"`, `"three"`, `"id":1,"result"`} {
		x.proceed <- struct{}{}
		if e := resumed.next(); !strings.Contains(string(e.Data), part) {
			t.Errorf("the stream carries %s, want %s", e.Data, part)
		}
	}
	resumed.end()
	x.drained(t)
}

func TestAnswerToAQuestionOfTheOldServerReachesIt(t *testing.T) {
	x := newTakeover(t)
	stream := x.v.events(x.v.do(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ask"}}`))
	old := stream.message()
	x.drain(t)
	other := x.w.events(x.w.do(t.Context(), http.MethodPost, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask"}}`))
	q := other.message()
	if q.ID() == old.ID() {
		t.Errorf("both servers ask under %s", q.ID())
	}
	for _, id := range []dragoman.ID{old.ID(), q.ID()} {
		x.w.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":{"roots":%[1]s}}`, id), http.StatusAccepted, "")
	}
	if m := stream.message(); m.Kind() != dragoman.Response || string(m.Get("roots")) != old.ID().String() {
		t.Errorf("the old call is answered with %s", m)
	}
	if m := other.message(); m.Kind() != dragoman.Response || string(m.Get("roots")) != q.ID().String() {
		t.Errorf("the new call is answered with %s", m)
	}
	x.drained(t)
}

func TestCallOfTheOldServerIsCancelledAtTheNewOne(t *testing.T) {
	x := newTakeover(t)
	stream := x.v.events(x.v.do(t.Context(), http.MethodPost, fmt.Sprintf(talkCall, "1")))
	stream.next()
	x.drain(t)
	x.w.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, http.StatusAccepted, "")
	stream.end()
	x.drained(t)
}

func TestDeleteAtTheNewServerEndsTheSessionAtTheOldOne(t *testing.T) {
	for _, known := range []bool{false, true} {
		x := newTakeover(t)
		stream := x.v.events(x.v.do(t.Context(), http.MethodPost, fmt.Sprintf(talkCall, "1")))
		stream.next()
		if known {
			x.w.want(listTools, http.StatusOK, said)
		}
		if resp := x.w.do(t.Context(), http.MethodDelete, ""); resp.StatusCode != http.StatusNoContent {
			t.Errorf("DELETE: %d", resp.StatusCode)
		}
		if m := stream.message(); !m.IsError() || m.RPCError().Code != protocol.CodeLost {
			t.Errorf("the call is answered with %s", m)
		}
		x.v.want(listTools, http.StatusNotFound, "Session not found")
		x.w.want(listTools, http.StatusNotFound, "Session not found")
	}
}
