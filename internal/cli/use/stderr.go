package use

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
)

// maxTail is how many lines of a server's standard error are shown if it does not come up, of
// the first and of the last: the reason is often the first, and a stack follows.
const maxTail = 20

// stderrAge is how old a line of standard error is before who waits sees it: what a server says just
// before it answers is its greeting.
const stderrAge = time.Second

// A stderrTail keeps the first and the last lines of the standard error of a server's process, and
// shows them if the server does not come up.
type stderrTail struct {
	print func(string)
	seen  func(string) // gets each line as it comes, if not nil; set before the server is started

	mu      sync.Mutex
	lines   []stderrLine // guarded by mu
	leftOut int          // between the first and the last; guarded by mu
	timer   *time.Timer  // until older ones are shown; guarded by mu
	ended   bool         // nothing is shown any more; guarded by mu

	shown  []string // of the last process; guarded by mu
	before []string // shown of those before it; guarded by mu
}

type stderrLine struct {
	text string
	at   time.Time
}

// again returns a dialer each of whose processes has its own lines. A server may be started again
// while its era is found out, and says the same again: that is not shown twice.
func (t *stderrTail) again(d dragoman.Dialer) dragoman.Dialer {
	return dragoman.DialFunc(func(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
		t.mu.Lock()
		t.lines, t.leftOut = nil, 0
		t.before, t.shown = append(t.before, t.shown...), nil
		t.mu.Unlock()
		return d.Dial(ctx, local)
	})
}

func (t *stderrTail) add(line string) {
	if t.seen != nil {
		t.seen(line)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lines = append(t.lines, stderrLine{line, time.Now()}); len(t.lines) > 2*maxTail {
		t.lines = slices.Delete(t.lines, maxTail, maxTail+1)
		t.leftOut++
	}
}

// follow shows what is said from now on, and was, once it is old enough. It ends with end.
func (t *stderrTail) follow() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ended {
		return
	}
	young := slices.IndexFunc(t.lines, func(l stderrLine) bool { return time.Since(l.at) < stderrAge })
	if young < 0 {
		young = len(t.lines)
	}
	t.show(young)
	t.timer = time.AfterFunc(stderrAge, t.follow)
}

// rest shows what has not been shown yet.
func (t *stderrTail) rest() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.show(len(t.lines))
}

// show shows the first n lines, and forgets them. The caller holds mu.
func (t *stderrTail) show(n int) {
	for i, line := range t.lines[:n] {
		if i == maxTail && t.leftOut > 0 {
			t.print(fmt.Sprintf("… (%s)", humanize.Count(t.leftOut, "more line")))
			t.leftOut = 0
		}
		if t.shown = append(t.shown, line.text); !slices.Contains(t.before, line.text) {
			t.print(line.text)
		}
	}
	t.lines = slices.Delete(t.lines, 0, n)
}

// end has nothing more shown.
func (t *stderrTail) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	if t.timer != nil {
		t.timer.Stop()
	}
}
