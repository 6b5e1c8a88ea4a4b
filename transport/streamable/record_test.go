package streamable_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

func TestRecordsAreWrittenWhenSomethingChangesAndOnceAMinute(t *testing.T) {
	store := newLedger()
	inBubble(t, &streamable.Server{Sessions: newHotel(), Store: store}, func(t *testing.T, b *bubble) {
		w := b.dial()
		headers := w.hello()
		written := func(want int, when string) {
			t.Helper()
			synctest.Wait()
			if puts, _ := store.written(); puts != want {
				t.Errorf("%s: written %d times, want %d", when, puts, want)
			}
		}
		written(2, "opened and initialized")
		for range 50 {
			w.roundTrip(headers, listTools)
		}
		w.roundTrip(headers, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		w.roundTrip(headers, fmt.Sprintf(unsubscribe, "never"))
		written(2, "used")
		w.roundTrip(headers, setLevel)
		w.roundTrip(headers, fmt.Sprintf(subscribe, "a"))
		w.roundTrip(headers, fmt.Sprintf(unsubscribe, "a"))
		written(5, "changed")
		time.Sleep(70 * time.Second)
		written(5, "not used since the change")
		w.roundTrip(headers, listTools)
		time.Sleep(time.Minute)
		written(6, "used a minute ago")
		time.Sleep(10 * time.Minute)
		written(6, "not used for long")
		get := b.dial()
		if _, err := io.WriteString(get, request(http.MethodGet, headers, "")); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = io.Copy(io.Discard, get) }() // ends with the connection
		time.Sleep(5 * time.Minute)
		written(11, "a stream is open for five minutes")
		_ = get.Close()
		time.Sleep(streamable.DefaultIdleTimeout + 2*time.Minute)
		if _, ids := store.written(); len(ids) != 0 {
			t.Errorf("idle for too long, it is recorded still")
		}
		if resp, _ := w.roundTrip(headers, listTools); resp.StatusCode != http.StatusNotFound {
			t.Errorf("then it is answered with %d", resp.StatusCode)
		}
	})
}

func TestSessionThatIsIdleHereAndUsedElsewhereIsNotForgotten(t *testing.T) {
	store := newLedger()
	h := newHotel()
	inBubble(t, &streamable.Server{Sessions: h, Store: store, IdleTimeout: 10 * time.Minute}, func(t *testing.T, old *bubble) {
		headers := old.dial().hello()
		s := &streamable.Server{Sessions: h, Store: store, IdleTimeout: 10 * time.Minute}
		use := func() int {
			r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(request(http.MethodPost, headers, listTools))))
			if err != nil {
				t.Fatal(err)
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			return w.Code
		}
		for range 6 {
			time.Sleep(4 * time.Minute)
			if code := use(); code != http.StatusOK {
				t.Fatalf("at the new server: %d", code)
			}
		}
		if resp, _ := old.dial().roundTrip(headers, listTools); resp.StatusCode != http.StatusOK {
			t.Errorf("back at the old one: %d", resp.StatusCode)
		}
		_ = s.Shutdown(t.Context())
		time.Sleep(15 * time.Minute)
		if _, ids := store.written(); len(ids) != 0 {
			t.Error("used nowhere, it is recorded still")
		}
	})
}

// A log that is full costs the resuming, and nothing else.
type fullLog struct {
	eventlog.Log
	full bool
}

func (l *fullLog) Append(ctx context.Context, stream string, after int64, event []byte) (int64, error) {
	if l.full {
		return 0, errors.New("no space left on device")
	}
	return l.Log.Append(ctx, stream, after, event)
}

func TestS41_StreamThatCannotBeLoggedIsDeliveredAndCannotBeResumed(t *testing.T) {
	h, log := newHotel(), &fullLog{Log: eventlog.NewMemory(nil)}
	s, _ := serve(t, &streamable.Server{Sessions: h, Log: log})
	v := s.hello(protocol.LatestLegacy)
	stream := v.events(v.do(t.Context(), http.MethodPost, fmt.Sprintf(talkCall, "1")))
	first := stream.next()
	log.full = true
	h.proceed <- struct{}{}
	if e := stream.next(); !strings.Contains(string(e.Data), "two") || e.ID != first.ID { // which is the last that was given out
		t.Errorf("then comes %s with id %q", e.Data, e.ID)
	}
	if resp := v.with(protocol.HeaderLastEventID, first.ID).do(t.Context(), http.MethodGet, ""); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("resumed behind what was logged last: %d", resp.StatusCode)
	}
	log.full = false
	h.proceed <- struct{}{}
	third := stream.next()
	if !strings.Contains(string(third.Data), "three") || third.ID == first.ID {
		t.Errorf("then comes %s with id %q", third.Data, third.ID)
	}
	if resp := v.with(protocol.HeaderLastEventID, first.ID).do(t.Context(), http.MethodGet, ""); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("resumed before the gap: %d", resp.StatusCode)
	}
	h.proceed <- struct{}{}
	if e := stream.next(); !strings.Contains(string(e.Data), `"id":1,"result"`) {
		t.Errorf("the answer is %s", e.Data)
	}
	stream.end()
	wantTold(t, v.resume(third.ID), `"id":1,"result"`)
}
