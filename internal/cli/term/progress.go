package term

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

// How often progress is shown.
const (
	RedrawEvery = 100 * time.Millisecond // on a terminal
	tellEvery   = time.Second            // elsewhere, where each is a line
)

// A Screen is standard error. On a terminal its last line may be a bar, which is drawn over
// itself, and taken away for everything else that is written.
type Screen struct {
	File *os.File

	mu    sync.Mutex
	drawn bool // guarded by mu
	held  int  // how many want no bar now; guarded by mu
}

// Write writes in place of the bar.
func (s *Screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	return s.File.Write(text)
}

// wipe takes the bar away. The caller holds mu.
func (s *Screen) wipe() {
	if s.drawn {
		fmt.Fprint(s.File, "\r\x1b[K")
		s.drawn = false
	}
}

// clear takes the bar away.
func (s *Screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
}

// draw draws the bar, cut to the width of the terminal.
func (s *Screen) draw(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held > 0 {
		return
	}
	if width, _ := terminalWidth(s.File); width > 0 {
		text = cutTo(text, width-1)
	}
	fmt.Fprint(s.File, "\r\x1b[K", text)
	s.drawn = true
}

// Hold leaves the terminal to somebody else, until release is called.
func (s *Screen) Hold() (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	s.held++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held--
	}
}

// cutTo returns a text of so many characters at most.
func cutTo(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:max(most-1, 0)]) + "…"
	}
	return text
}

// A Progress shows on standard error how far a call is: as a bar on a terminal, as lines
// elsewhere.
type Progress struct {
	on    *Screen
	name  string
	bar   bool
	Began time.Time

	mu   sync.Mutex
	last time.Time // guarded by mu
}

// NewProgress returns the progress of what has a name. Nothing is drawn yet.
func NewProgress(on *Screen, name string) *Progress {
	return &Progress{on: on, name: redact.Printable(name, ""), bar: ToTerminal(on) && os.Getenv("TERM") != "dumb", Began: time.Now()}
}

// barWidth is how wide a bar is.
const barWidth = 20

// Show shows how far the call is.
func (p *Progress) Show(at client.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	every, now := tellEvery, time.Now()
	if p.bar {
		every = RedrawEvery
	}
	if now.Sub(p.last) < every && (at.Total == 0 || at.Progress < at.Total) {
		return
	}
	p.last = now
	text := fmt.Sprintf("%g", at.Progress)
	if at.Total > 0 {
		text = fmt.Sprintf("%g/%g", at.Progress, at.Total)
	}
	if at.Message != "" {
		text += "  " + redact.Printable(Summary(at.Message), "")
	}
	if !p.bar {
		fmt.Fprintf(p.on, "%s: %s\n", p.name, text)
		return
	}
	if at.Total > 0 {
		full := int(min(max(at.Progress/at.Total, 0), 1) * barWidth)
		text = strings.Repeat("█", full) + strings.Repeat("░", barWidth-full) + "  " + text
	}
	p.on.draw(p.name + "  " + text + "  " + humanize.Duration(now.Sub(p.Began)))
}

// Clear takes the bar away.
func (p *Progress) Clear() { p.on.clear() }

// steps tell on standard error what a command is at, as far as that takes longer than a moment.
type steps struct {
	console *Console
	name    string
	timer   *time.Timer // until the step is told

	mu   sync.Mutex
	now  string // guarded by mu
	told bool   // one was; guarded by mu
}

// NewSteps returns steps of what is done. The caller ends them.
func NewSteps(v *Console, name string) *steps {
	s := &steps{console: v, name: name}
	s.timer = time.AfterFunc(upstream.StartNotice, s.tell)
	return s
}

// Next says what is done from now on.
func (s *steps) Next(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if what == s.now {
		return
	}
	if s.now = what; s.told {
		s.timer.Reset(tellEvery)
	}
}

func (s *steps) tell() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told = true; s.now == "" {
		s.console.Printf("%s …", s.name)
		return
	}
	s.console.Printf("%s: %s …", s.name, s.now)
}

// Found tells what was found, if the end is not near.
func (s *steps) Found(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told {
		s.console.Printf("%s: found: %s", s.name, what)
	}
}

func (s *steps) End() { s.timer.Stop() }
