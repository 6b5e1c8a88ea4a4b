package manager

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// An Event is something that has happened to a server. It has no secrets in it.
type Event struct {
	Time   time.Time
	Server string
	Kind   EventKind
	Text   string // for people; may be empty

	// Of calls: what was asked for, and how long that took and what came of it when it
	// has ended.
	Method, Name string
	Took         time.Duration
	Failed       bool
}

// An EventKind says what has happened.
type EventKind string

// The kinds of events.
const (
	EventStarting      EventKind = "starting"
	EventReady         EventKind = "ready"
	EventDegraded      EventKind = "degraded"
	EventFailed        EventKind = "failed" // it is backing off, and tried again
	EventIdle          EventKind = "idle"
	EventRestarted     EventKind = "restarted" // because that was asked for
	EventStopped       EventKind = "stopped"
	EventListChanged   EventKind = "list changed"
	EventSessionOpened EventKind = "session opened" // with the server
	EventSessionClosed EventKind = "session closed"
	EventCallBegun     EventKind = "call begun"
	EventCallEnded     EventKind = "call ended"
)

// events tells those who follow what happens.
type events struct {
	count atomic.Int32 // of followers, so that an event that nobody follows costs nothing

	mu        sync.Mutex
	followers map[*int]func(Event) // guarded by mu
}

// Follow has f called with everything that happens to the servers from now on, until
// stop is called. f must not block.
func (m *Manager) Follow(f func(Event)) (stop func()) {
	e := &m.events
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.followers == nil {
		e.followers = make(map[*int]func(Event))
	}
	key := new(int)
	e.followers[key] = f
	e.count.Add(1)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		if _, ok := e.followers[key]; ok {
			delete(e.followers, key)
			e.count.Add(-1)
		}
	}
}

// emit tells the followers, if there are any.
func (e *events) emit(make func() Event) {
	if e.count.Load() == 0 {
		return
	}
	what := make()
	what.Time = time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, f := range e.followers {
		f(what)
	}
}

// event notes something that has happened to the upstream.
func (u *Upstream) event(kind EventKind, p *passed, text string) {
	text = u.redact(p, text)
	u.logs.add(FromUs, text)
	u.log.Log(context.Background(), u.levelOf(kind), text)
	u.manager.events.emit(func() Event { return Event{Server: u.name, Kind: kind, Text: text} })
}

// levelOf returns how important an event is. That the server fails is a warning, and again
// after a while; each attempt in between is not, and neither is what went well.
func (u *Upstream) levelOf(kind EventKind) slog.Level {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	switch kind {
	case EventReady, EventRestarted:
		u.warned = time.Time{}
	case EventStopped:
		if u.broken != nil {
			return slog.LevelError
		}
	case EventDegraded, EventFailed:
		if now.Sub(u.warned) < warnAgain {
			return slog.LevelDebug
		}
		u.warned = now
		return slog.LevelWarn
	}
	return slog.LevelInfo
}

// warnAgain is how long a server may fail before that is a warning once more.
const warnAgain = 5 * time.Minute

// A LogLine is a line of what a server writes to its standard error, or of what
// happens to it. It has no secrets in it, as far as they can be told.
type LogLine struct {
	Time time.Time `json:"time"`
	From string    `json:"from"` // "stderr" or "dragoman"
	Text string    `json:"text"`
}

// Who a LogLine is from.
const (
	FromStderr = "stderr"
	FromUs     = "dragoman"
)

// logs is the last lines of an upstream.
type logs struct {
	signal broadcast

	mu     sync.Mutex
	lines  []LogLine // a ring once it is full: the oldest is at count % LogLines
	count  int       // lines ever
	stderr string    // the last one of the process that was started last
}

// begin notes that a process is started, which has said nothing yet.
func (l *logs) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stderr = ""
}

func (l *logs) add(from, text string) {
	l.mu.Lock()
	line := LogLine{time.Now(), from, text}
	if len(l.lines) < LogLines {
		l.lines = append(l.lines, line)
	} else {
		l.lines[l.count%LogLines] = line
	}
	l.count++
	if from == FromStderr && strings.TrimSpace(text) != "" {
		l.stderr = text
	}
	l.mu.Unlock()
	l.signal.fire()
}

func (l *logs) lastStderr() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stderr
}

// since returns the lines behind the first n ever, how many of them are gone, and
// how many there are now.
func (l *logs) since(n int) (lines []LogLine, gone, count int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := max(n, l.count-len(l.lines))
	for i := first; i < l.count; i++ {
		lines = append(lines, l.lines[i%LogLines])
	}
	return lines, first - n, l.count
}

// Logs returns the last lines, oldest first.
func (u *Upstream) Logs() []LogLine {
	lines, _, _ := u.logs.since(0)
	return lines
}

// Follow calls f with the lines that Logs would return and then with each that
// comes, until ctx ends. If f is so slow that lines get lost, it is told how many.
func (u *Upstream) Follow(ctx context.Context, f func(LogLine)) {
	_, at, _ := u.logs.since(0) // what is gone by now is no loss
	for {
		more := u.logs.signal.wait()
		lines, gone, count := u.logs.since(at)
		if gone > 0 {
			f(LogLine{time.Now(), FromUs, fmt.Sprintf("%d lines were lost, because they were not read in time", gone)})
		}
		for _, line := range lines {
			f(line)
		}
		at = count
		select {
		case <-more:
		case <-ctx.Done():
			return
		}
	}
}
