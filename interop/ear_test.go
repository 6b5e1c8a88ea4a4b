package interop_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"
)

// An ear notes what a server tells its client. Any number of goroutines may
// use it.
type ear struct {
	mu    sync.Mutex
	heard []note
	more  chan struct{} // closed when something comes
}

type note struct {
	method string
	params string // JSON text
}

func newEar() *ear { return &ear{more: make(chan struct{})} }

// hear notes a notification.
func (e *ear) hear(method string, params any) {
	text, err := json.Marshal(params)
	if err != nil {
		text = []byte(err.Error())
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard = append(e.heard, note{method, string(text)})
	close(e.more)
	e.more = make(chan struct{})
}

// count returns how many notifications of a method came whose params contain a
// text, and a channel that tells of the next.
func (e *ear) count(method, containing string) (int, <-chan struct{}) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := 0
	for _, h := range e.heard {
		if h.method == method && strings.Contains(h.params, containing) {
			n++
		}
	}
	return n, e.more
}

// wait waits until at least n notifications of a method came whose params
// contain a text.
func (e *ear) wait(t *testing.T, n int, method, containing string) {
	t.Helper()
	timeout := time.After(patience)
	for {
		got, more := e.count(method, containing)
		if got >= n {
			return
		}
		select {
		case <-more:
		case <-timeout:
			e.mu.Lock()
			defer e.mu.Unlock()
			t.Fatalf("%d times %s with %q came, want %d; heard: %v", got, method, containing, n, e.heard)
		}
	}
}

// only fails the test unless exactly n have come.
func (e *ear) only(t *testing.T, n int, method, containing string) {
	t.Helper()
	if got, _ := e.count(method, containing); got != n {
		t.Errorf("%d times %s with %q came, want %d", got, method, containing, n)
	}
}
