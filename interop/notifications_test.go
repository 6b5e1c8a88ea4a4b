package interop_test

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"
)

// notifications are those that a client has received. Any number of goroutines may
// use it.
type notifications struct {
	mu    sync.Mutex
	notes []note
	more  chan struct{} // closed when something comes
}

type note struct {
	method string
	params string // JSON text
}

func newNotifications() *notifications { return &notifications{more: make(chan struct{})} }

// add records a notification.
func (l *notifications) add(method string, params any) {
	text, err := json.Marshal(params)
	if err != nil {
		text = []byte(err.Error())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = append(l.notes, note{method, string(text)})
	close(l.more)
	l.more = make(chan struct{})
}

// count returns how many notifications of a method came whose params contain a
// text, and a channel that is closed when the next comes.
func (l *notifications) count(method, containing string) (int, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, h := range l.notes {
		if h.method == method && strings.Contains(h.params, containing) {
			n++
		}
	}
	return n, l.more
}

// came waits until at least n notifications of a method came whose params contain a
// text, but no longer than limit, and reports whether they did.
func (l *notifications) came(n int, method, containing string, limit time.Duration) bool {
	timeout := time.After(limit)
	for {
		got, more := l.count(method, containing)
		if got >= n {
			return true
		}
		select {
		case <-more:
		case <-timeout:
			return false
		}
	}
}

// wait fails the test unless they come.
func (l *notifications) wait(t *testing.T, n int, method, containing string) {
	t.Helper()
	if !l.came(n, method, containing, patience) {
		got, _ := l.count(method, containing)
		l.mu.Lock()
		defer l.mu.Unlock()
		t.Fatalf("%d times %s with %q came, want %d; got: %v", got, method, containing, n, l.notes)
	}
}

// only fails the test unless exactly n have come.
func (l *notifications) only(t *testing.T, n int, method, containing string) {
	t.Helper()
	if got, _ := l.count(method, containing); got != n {
		t.Errorf("%d times %s with %q came, want %d", got, method, containing, n)
	}
}
