package streamable_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// killed opens a session, calls a tool, lets it say so many things more than one
// and kills the server. It returns the events that came, and the client at the
// next server.
func killed(t *testing.T, log eventlog.Log, call string, more int) (seen []*sse.Event, w *site) {
	t.Helper()
	peertest.NoLeak(t)
	h, store := newHotel(), newLedger()
	life := &mortal{Log: log}
	first, stop := serve(t, &streamable.Server{Sessions: h, Store: store, Log: life})
	v := first.hello(protocol.LatestLegacy)
	stream := v.events(v.do(t.Context(), http.MethodPost, call))
	seen = append(seen, stream.next())
	for range more {
		h.proceed <- struct{}{}
		seen = append(seen, stream.next())
	}
	life.die()
	stop()
	next, _ := serve(t, &streamable.Server{Sessions: h, Store: store, Log: log})
	return seen, v.at(next)
}

// resume returns what a client that has seen an event is told, to the end.
func (s *site) resume(id string) []string {
	s.t.Helper()
	stream := s.events(s.with(protocol.HeaderLastEventID, id).do(s.t.Context(), http.MethodGet, ""))
	var told []string
	for {
		e, err := stream.r.Next()
		if err != nil {
			return told
		}
		if len(e.Data) > 0 {
			told = append(told, string(e.Data))
		}
	}
}

// wantTold checks what was told by a part of each.
func wantTold(t *testing.T, told []string, parts ...string) {
	t.Helper()
	if len(told) != len(parts) {
		t.Fatalf("told %d things, want %d: %q", len(told), len(parts), told)
	}
	for i, part := range parts {
		if !strings.Contains(told[i], part) {
			t.Errorf("told %s, want %s", told[i], part)
		}
	}
}

func TestS49_StreamIsReplayedAfterARestartAndItsCallEndsWithUnknownOutcome(t *testing.T) {
	for _, id := range []string{`1`, `"a/_.\u0000 \\"`, `-9007199254740993`} {
		seen, w := killed(t, eventlog.NewMemory(nil), fmt.Sprintf(talkCall, id), 2)
		want := []string{`"two"`, `"three"`, `"id":` + id + `,"error":{"code":-31003`}
		for range 2 { // and again the same
			for i, e := range seen {
				told := w.resume(e.ID)
				wantTold(t, told, want[i:]...)
				if last := told[len(told)-1]; !strings.Contains(last, `"outcome":"unknown"`) {
					t.Errorf("the call ends with %s", last)
				}
			}
		}
		w.want(listTools, http.StatusOK, said)
	}
}

func TestS49_CallThatWasAnsweredIsNotAnsweredTwice(t *testing.T) {
	seen, w := killed(t, eventlog.NewMemory(nil), fmt.Sprintf(talkCall, "1"), 3)
	want := []string{`"two"`, `"three"`, `"id":1,"result"`}
	for i := len(seen) - 1; i >= 0; i-- {
		wantTold(t, w.resume(seen[i].ID), want[i:]...)
	}
}

func TestS49_ManyResumeOneStreamAndItsCallEndsOnce(t *testing.T) {
	log := eventlog.NewMemory(nil)
	seen, w := killed(t, log, fmt.Sprintf(talkCall, "1"), 0)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			// One of them at a time has the stream, the others are sent away.
			resp := w.with(protocol.HeaderLastEventID, seen[0].ID).do(t.Context(), http.MethodGet, "")
			_, _ = io.Copy(io.Discard, resp.Body)
		})
	}
	wg.Wait()
	wantTold(t, w.resume(seen[0].ID), `"code":-31003`)
}

func TestS49_EventsThatAreGoneAreAnErrorAndNoGap(t *testing.T) {
	seen, w := killed(t, eventlog.NewMemory(&eventlog.MemoryOptions{MaxEvents: 1}), fmt.Sprintf(talkCall, "1"), 2)
	for _, id := range []string{seen[0].ID, "9_1", "1.GEFA_99", "x-1.GEFA_1", "1.G_1", "1._1", strings.Replace(seen[0].ID, "1.", "7.", 1)} {
		resp := w.with(protocol.HeaderLastEventID, id).do(t.Context(), http.MethodGet, "")
		if text := w.read(resp); resp.StatusCode != http.StatusBadRequest || !strings.Contains(text, "message") {
			t.Errorf("Last-Event-ID %s: %d %s, want 400 with a reason", id, resp.StatusCode, text)
		}
	}
	wantTold(t, w.resume(seen[2].ID), `"code":-31003`)
}

func TestS49_StreamsInFiles(t *testing.T) {
	dir := t.TempDir()
	log, err := eventlog.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	seen, w := killed(t, log, fmt.Sprintf(talkCall, "1"), 1)
	wantTold(t, w.resume(seen[0].ID), `"two"`, `"code":-31003`)
}

func TestS49_BatchEndsWithAnErrorForEachRequest(t *testing.T) {
	peertest.NoLeak(t)
	h, store := newHotel(), newLedger()
	log := eventlog.NewMemory(nil)
	life := &mortal{Log: log}
	first, stop := serve(t, &streamable.Server{Sessions: h, Store: store, Log: life})
	v := first.hello(protocol.ParseRevision("2025-03-26"))
	batch := "[" + fmt.Sprintf(talkCall, "1") + `,{"jsonrpc":"2.0","method":"notifications/n"},` + fmt.Sprintf(talkCall, `"b"`) + "]"
	seen := v.events(v.do(t.Context(), http.MethodPost, batch)).next()
	life.die()
	stop()
	next, _ := serve(t, &streamable.Server{Sessions: h, Store: store, Log: log})
	ends := make(map[string]bool)
	for _, text := range v.at(next).resume(seen.ID) {
		var m struct {
			ID    json.RawMessage
			Error struct{ Code int }
		}
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		if m.Error.Code == protocol.CodeLost {
			ends[string(m.ID)] = true
		}
	}
	if len(ends) != 2 || !ends["1"] || !ends[`"b"`] {
		t.Errorf("ended: %v", ends)
	}
}

// What is said through the new server has ids of its own, also if the old one
// counted as far.
func TestStreamsOfTwoServersHaveDifferentNames(t *testing.T) {
	seen, w := killed(t, eventlog.NewMemory(nil), fmt.Sprintf(talkCall, "1"), 0)
	ctx, drop := context.WithCancel(t.Context())
	first := w.events(w.do(ctx, http.MethodPost, fmt.Sprintf(talkCall, "1"))).next()
	drop()
	if first.ID == seen[0].ID {
		t.Errorf("both are %s", first.ID)
	}
	wantTold(t, w.resume(seen[0].ID), `"code":-31003`)
	w.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, http.StatusAccepted, "")
	wantTold(t, w.resume(first.ID))
}
