package upstream

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

// An eventKind says what has happened to a server.
type eventKind int

const (
	eventReady eventKind = iota
	eventDegraded
	eventFailed // it is backing off, and tried again
	eventIdle
	eventRestarted // because that was asked for
	eventStopped
)

// event notes something that has happened to the upstream.
func (u *Upstream) event(kind eventKind, p *passed, text string) {
	text = u.redact(p, text)
	u.logs.add(FromUs, text)
	u.log.Log(context.Background(), u.levelOf(kind), text)
}

// levelOf returns how important an event is. That the server fails is a warning, and again
// after a while; each attempt in between is not, and neither is what went well.
func (u *Upstream) levelOf(kind eventKind) slog.Level {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	switch kind {
	case eventReady, eventRestarted:
		u.warned = time.Time{}
	case eventStopped:
		if u.broken != nil {
			return slog.LevelError
		}
	case eventDegraded, eventFailed:
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

// lastLines is the last lines of an upstream.
type lastLines struct {
	signal broadcast

	mu     sync.Mutex
	lines  []LogLine // a ring once it is full: the oldest is at count % LogLines
	count  int       // lines ever
	stderr string    // the last one of the process that was started last
}

// begin notes that a process is started, which has said nothing yet.
func (l *lastLines) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stderr = ""
}

func (l *lastLines) add(from, text string) {
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

func (l *lastLines) lastStderr() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.stderr
}

// since returns the lines behind the first n ever, how many of them are gone, and
// how many there are now.
func (l *lastLines) since(n int) (lines []LogLine, gone, count int) {
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

const (
	// StartNotice is how long a process may take over its first answer before it is said
	// that it is waited for.
	StartNotice = 2 * time.Second

	// probeEcho is how long after the answer to the probe a legacy server may still write
	// to its stderr that it does not know the method.
	probeEcho = time.Second

	// maxTextShown is how much is shown of a line on stdout that is no message.
	maxTextShown = 200
)

// An output takes what one process of a server writes beside its messages.
type output struct {
	up     *Upstream
	passed *passed // what it was given of a caller's; may be nil

	mu     sync.Mutex
	probed bool      // it was asked for its era
	until  time.Time // what it says about that is over then; zero as long as there is no answer
	hiding bool      // the last line was about that
	last   string    // line on its standard error that says something
}

// probe notes that the process is asked for its era, and answered that it has answered.
func (o *output) probe() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.probed, o.until = true, time.Time{}
}

func (o *output) answered() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.until = time.Now().Add(probeEcho)
}

var (
	// unknownMethod finds lines in which a server complains about the probe, and
	// moreOfIt those that may follow them.
	unknownMethod = lazy.Regexp(`(?i)server/discover|failed to validate request|message that failed validation|(?:unknown|unsupported|unhandled|invalid) method|method not found|-32601|\bPingRequest\b`)
	moreOfIt      = lazy.Regexp(`^\s|^\w+(?:\.\w+)+$|^For further information|^Traceback `)
)

// aboutProbe reports whether a line is what a legacy server has to say about the probe,
// which is of no interest to anybody.
func (o *output) aboutProbe(line string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.probed || !o.until.IsZero() && time.Now().After(o.until) {
		return false
	}
	o.hiding = unknownMethod().MatchString(line) || o.hiding && moreOfIt().MatchString(line)
	return o.hiding
}

// stderr takes a line that the process has written to its standard error.
func (o *output) stderr(line string) {
	u := o.up
	line = u.redact(o.passed, line)
	if o.aboutProbe(line) {
		u.log.Debug("stderr, about the probe", "line", line)
		return
	}
	if strings.TrimSpace(line) != "" {
		o.mu.Lock()
		o.last = line
		o.mu.Unlock()
	}
	u.logs.add(FromStderr, line)
	if f := u.manager.opts.Stderr; f != nil {
		f(u.name, line)
		return
	}
	u.log.Debug("stderr", "line", line)
}

// text takes a line that the process has written to its standard output and that is no
// message. The first one is told.
func (o *output) text(line string) {
	u := o.up
	line = cutText(redact.Line(u.redact(o.passed, line)))
	if !u.stray.CompareAndSwap(nil, &line) {
		u.log.Debug("the server wrote to its standard output what is no message", "line", line)
		return
	}
	u.notice(slog.LevelWarn, strayNotice(line))
}

// strayNotice is what is told of a line on standard output that is no message.
func strayNotice(line string) string {
	return fmt.Sprintf("the server wrote to its standard output what is no message: %q; it is skipped. Only messages belong there: have the server log to standard error", line)
}

// cutText returns what is shown of a line.
func cutText(line string) string { return redact.Cut(strings.TrimSpace(line), maxTextShown) }

// notice tells what a user should know at once.
func (u *Upstream) notice(level slog.Level, text string) {
	u.logs.add(FromUs, text)
	if f := u.manager.opts.Notice; f != nil {
		f(u.name, level, text)
		return
	}
	u.log.Log(context.Background(), level, text)
}

// strayText says what the server has written where messages belong, or nothing.
func (u *Upstream) strayText() string {
	line := u.stray.Load()
	if line == nil {
		return ""
	}
	return fmt.Sprintf("it wrote to its standard output what is no message (%q): have it log to standard error", *line)
}

// hang is why a server is given up that does not answer when it starts.
func (u *Upstream) hang() error {
	if text := u.strayText(); text != "" {
		return fmt.Errorf("%w; %s", u.set.hangs(), text)
	}
	return u.set.hangs()
}

// lastLine returns the last line of the process's standard error.
func (o *output) lastLine() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

// tellWaiting says that the first answer of the process is waited for, once for each start.
func (o *output) tellWaiting() {
	u := o.up
	s := u.supervisor
	s.mu.Lock()
	answers := s.healthy() // on another conversation
	s.mu.Unlock()
	if answers || u.waiting.Swap(true) {
		return
	}
	c := u.conf.Load()
	text := fmt.Sprintf("no answer yet after %v", StartNotice)
	if command := append([]string{c.Command}, c.Args...); target.Installs(command) {
		text = "no answer yet, it may still be installing"
	}
	name := "connectTimeout"
	if u.manager.opts.CommandLine {
		name = "--connect-timeout"
	}
	text += fmt.Sprintf("; waiting for up to %v (%s)", u.set.connect, name)
	if last := o.lastLine(); last != "" && u.manager.opts.Stderr == nil {
		text += "; last line on its stderr: " + last
	}
	u.notice(slog.LevelInfo, text)
}
