// Package storetest tests that implementations of [eventlog.Log] keep the promises of the interface, as
// peertest does for peers. Every implementation runs the same tests, so that one can take the place
// of another.
package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
)

// Log tests a log. open returns an empty one, which is closed by t.Cleanup.
func Log(t *testing.T, open func(*testing.T) eventlog.Log) {
	run(t, open, []promise[eventlog.Log]{
		{"a stream is resumed behind a position, and with no other stream", resume},
		{"an event is appended behind the expected position only", expect},
		{"what a writer knows to be lost is a gap", loseEvents},
		{"a dropped stream is unknown", drop},
		{"of writers that expect one position one succeeds", compete},
		{"streams are used by many goroutines", appendTogether},
	})
}

// A promise is one that an interface makes, by its name, and the test of it with an empty store.
type promise[T any] struct {
	name string
	test func(*testing.T, T)
}

// run tests promises, each with a store of its own.
func run[T any](t *testing.T, open func(*testing.T) T, promises []promise[T]) {
	for _, p := range promises {
		t.Run(p.name, func(t *testing.T) { p.test(t, open(t)) })
	}
}

// LogExpiry tests that log, which is empty and keeps events for ttl after the last of their stream, forgets
// them. It sleeps.
func LogExpiry(t *testing.T, log eventlog.Log, ttl time.Duration) {
	Append(t, log, "s", "1")
	time.Sleep(ttl - ttl/10)
	Append(t, log, "s", "2")
	time.Sleep(ttl - ttl/10)
	if got := After(t, log, "s", 0); got != "1 2" {
		t.Errorf("before the time is over: %q", got)
	}
	time.Sleep(ttl / 10)
	if got := After(t, log, "s", 1); got != "lost" {
		t.Errorf("when the time is over: %q", got)
	}
	if n, err := log.Append(t.Context(), "s", 2, []byte("3")); n != 3 || err != nil {
		t.Errorf("the next event has position %d, %v", n, err)
	}
	if got := After(t, log, "s", 1); got != "lost" {
		t.Errorf("a client that missed an event gets %q", got)
	}
	if got := After(t, log, "s", 2); got != "3" {
		t.Errorf("a client that missed none gets %q", got)
	}
}

// Append appends events to the end of a stream.
func Append(t *testing.T, log eventlog.Log, stream string, events ...string) (last int64) {
	t.Helper()
	for _, e := range events {
		n, err := log.Append(t.Context(), stream, eventlog.End, []byte(e))
		if err != nil {
			t.Fatalf("Append(%q, %q): %v", stream, e, err)
		}
		last = n
	}
	return last
}

// After returns what a client that comes back gets: events, or "lost" or "unknown".
func After(t *testing.T, log eventlog.Log, stream string, position int64) string {
	t.Helper()
	events, err := log.After(t.Context(), stream, position)
	switch {
	case errors.Is(err, eventlog.ErrLost):
		return "lost"
	case errors.Is(err, eventlog.ErrUnknown):
		return "unknown"
	case err != nil:
		t.Fatalf("After(%q, %d): %v", stream, position, err)
	}
	return string(bytes.Join(events, []byte(" ")))
}

func resume(t *testing.T, log eventlog.Log) {
	for i, e := range []string{"a1", "a2", "a3"} {
		if n := Append(t, log, "a", e); n != int64(i+1) {
			t.Errorf("position of %s is %d, want %d", e, n, i+1)
		}
		Append(t, log, "b", strings.Replace(e, "a", "b", 1))
	}
	for _, test := range []struct {
		stream   string
		position int64
		want     string
	}{
		{"a", 0, "a1 a2 a3"},
		{"a", 1, "a2 a3"},
		{"a", 2, "a3"},
		{"b", 2, "b3"},
		{"a", 3, ""},
		{"a", 4, "unknown"},
		{"a", math.MaxInt64, "unknown"},
		{"a", -1, "unknown"},
		{"a", math.MinInt64, "unknown"},
		{"c", 0, "unknown"},
		{"", 0, "unknown"},
	} {
		if got := After(t, log, test.stream, test.position); got != test.want {
			t.Errorf("After(%q, %d) is %q, want %q", test.stream, test.position, got, test.want)
		}
	}
}

func expect(t *testing.T, log eventlog.Log) {
	for i, e := range []string{"1", "2", "3"} {
		if n, err := log.Append(t.Context(), "s", int64(i), []byte(e)); n != int64(i+1) || err != nil {
			t.Fatalf("Append behind %d: %d, %v", i, n, err)
		}
	}
	for _, after := range []int64{0, 2, -2, math.MinInt64} {
		if _, err := log.Append(t.Context(), "s", after, []byte("x")); !errors.Is(err, eventlog.ErrConflict) {
			t.Errorf("Append behind %d: %v", after, err)
		}
	}
	if _, err := log.Append(t.Context(), "new", -2, []byte("x")); !errors.Is(err, eventlog.ErrConflict) {
		t.Errorf("Append to a new stream behind -2: %v", err)
	}
	if got := After(t, log, "s", 0); got != "1 2 3" {
		t.Errorf("then the stream has %q", got)
	}
	if n := Append(t, log, "s", "4"); n != 4 {
		t.Errorf("position at the end is %d", n)
	}
}

func loseEvents(t *testing.T, log eventlog.Log) {
	Append(t, log, "known", "1", "2")
	for _, stream := range []string{"known", "unknown"} {
		if n, err := log.Append(t.Context(), stream, 5, []byte("6")); n != 6 || err != nil {
			t.Fatalf("%s: %d, %v", stream, n, err)
		}
		Append(t, log, stream, "7")
		for position, want := range []string{"lost", "lost", "lost", "lost", "lost", "6 7", "7", "", "unknown"} {
			if got := After(t, log, stream, int64(position)); got != want {
				t.Errorf("After(%q, %d) is %q, want %q", stream, position, got, want)
			}
		}
	}
}

func drop(t *testing.T, log eventlog.Log) {
	Append(t, log, "kept", "k")
	Append(t, log, "full", "1", "2")
	for _, name := range []string{"full", "full", "never"} {
		if err := log.Drop(t.Context(), name); err != nil {
			t.Errorf("Drop(%q): %v", name, err)
		}
		if got := After(t, log, name, 0); got != "unknown" {
			t.Errorf("After(%q) is %q", name, got)
		}
	}
	if got := After(t, log, "kept", 0); got != "k" {
		t.Errorf("another stream has %q", got)
	}
}

func compete(t *testing.T, log eventlog.Log) {
	const writers, events = 4, 25
	var wg sync.WaitGroup
	var mu sync.Mutex
	won := make(map[int64]string)
	for w := range writers {
		wg.Go(func() {
			for after := int64(0); after < events; after++ {
				event := fmt.Sprint(w, "-", after)
				n, err := log.Append(t.Context(), "s", after, []byte(event))
				if errors.Is(err, eventlog.ErrConflict) {
					continue
				}
				mu.Lock()
				if other := won[n]; err != nil || n != after+1 || other != "" {
					t.Errorf("Append behind %d: %d, %v; %q is there", after, n, err, other)
				}
				won[n] = event
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	var want []string
	for n := range int64(events) {
		want = append(want, won[n+1])
	}
	if got := After(t, log, "s", 0); got != strings.Join(want, " ") {
		t.Errorf("the stream has %q, want %q", got, want)
	}
}

func appendTogether(t *testing.T, log eventlog.Log) {
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			own := fmt.Sprint("own", g)
			for i := range int64(100) {
				n, err := log.Append(t.Context(), own, i, []byte(own))
				if err != nil || n != i+1 {
					t.Errorf("position %d, %v, want %d", n, err, i+1)
				}
				if _, err := log.Append(t.Context(), "shared", eventlog.End, []byte("x")); err != nil {
					t.Error(err)
				}
				if got, err := log.After(t.Context(), own, i); err == nil && len(got) != 1 {
					t.Errorf("%d events behind the last but one", len(got))
				}
			}
			if err := log.Drop(t.Context(), own); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if events, err := log.After(t.Context(), "shared", 0); len(events) != 800 || err != nil {
		t.Errorf("the stream of all has %d events, %v", len(events), err)
	}
}
