package term

import (
	"os"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

const (
	spinAfter   = time.Second      // a shorter wait is not shown
	repeatEvery = 10 * time.Second // where each report is a line
)

var frames = []string{"⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"}

// A Waiting shows what a command waits for: on a terminal as a spinner with the elapsed time and the last
// line of the server's standard error, elsewhere as a line every ten seconds.
type Waiting struct {
	console *Console
	what    string // as in "files: connecting"
	spins   bool
	began   time.Time

	mu    sync.Mutex
	last  string // line of standard error; guarded by mu
	frame int    // guarded by mu
	ended bool   // guarded by mu
	timer *time.Timer
}

// NewWaiting returns a Waiting that begins now. The caller ends it.
func NewWaiting(v *Console, what string) *Waiting {
	w := &Waiting{console: v, what: redact.Printable(what, ""), spins: v.Spins(), began: time.Now()}
	first := repeatEvery
	if w.spins {
		first = spinAfter
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(first, w.show)
	return w
}

// Spins reports whether a console can show a spinner: it writes short lines to a terminal.
func (v *Console) Spins() bool {
	return v.lines && v.On != nil && os.Getenv("TERM") != "dumb"
}

// Stderr takes a line of the server's standard error.
func (w *Waiting) Stderr(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = redact.Printable(redact.Line(Summary(sequence().ReplaceAllString(line, ""))), "")
}

func (w *Waiting) show() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended {
		return
	}
	passed := time.Since(w.began)
	text := w.what + "  " + humanize.Duration(passed.Truncate(time.Second/10))
	if !w.spins {
		text = w.what + ": no answer after " + humanize.Duration(passed.Round(time.Second))
	}
	switch {
	case w.spins && w.last != "":
		text += "  " + w.last
	case w.last != "":
		text += "; last line on stderr: " + w.last
	}
	if !w.spins {
		w.console.Printf("%s", text)
		w.timer.Reset(repeatEvery)
		return
	}
	w.console.On.draw(frames[w.frame%len(frames)] + " " + text)
	w.frame++
	w.timer.Reset(RedrawEvery)
}

// End stops the report, and takes the spinner away.
func (w *Waiting) End() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	w.timer.Stop()
	if w.spins {
		w.console.On.clear()
	}
}
