package main

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/manager"
	"github.com/dragoman-mcp/dragoman/internal/people"
	"github.com/dragoman-mcp/dragoman/internal/redact"
)

// How often progress is shown.
const (
	redrawEvery = 100 * time.Millisecond // on a terminal
	tellEvery   = time.Second            // elsewhere, where each is a line
)

// A screen is standard error. On a terminal its last line may be a bar, which is drawn over
// itself, and taken away for everything else that is written.
type screen struct {
	file *os.File

	mu    sync.Mutex
	drawn bool // guarded by mu
	held  int  // how many want no bar now; guarded by mu
}

// Write writes in place of the bar.
func (s *screen) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
	return s.file.Write(text)
}

// wipe takes the bar away. The caller holds mu.
func (s *screen) wipe() {
	if s.drawn {
		fmt.Fprint(s.file, "\r\x1b[K")
		s.drawn = false
	}
}

// clear takes the bar away.
func (s *screen) clear() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wipe()
}

// draw draws the bar, cut to the width of the terminal.
func (s *screen) draw(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held > 0 {
		return
	}
	if width, _ := terminalWidth(s.file); width > 0 {
		text = cutTo(text, width-1)
	}
	fmt.Fprint(s.file, "\r\x1b[K", text)
	s.drawn = true
}

// hold leaves the terminal to somebody else, until release is called.
func (s *screen) hold() (release func()) {
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

// A progress shows on standard error how far a call is: as a bar on a terminal, as lines
// elsewhere.
type progress struct {
	on    *screen
	name  string
	bar   bool
	began time.Time

	mu   sync.Mutex
	last time.Time // guarded by mu
}

func newProgress(on *screen, name string) *progress {
	return &progress{on: on, name: redact.Printable(name, ""), bar: toTerminal(on) && os.Getenv("TERM") != "dumb", began: time.Now()}
}

// barWidth is how wide a bar is.
const barWidth = 20

// show shows how far the call is.
func (p *progress) show(at client.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	every, now := tellEvery, time.Now()
	if p.bar {
		every = redrawEvery
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
		text += "  " + redact.Printable(summary(at.Message), "")
	}
	if !p.bar {
		fmt.Fprintf(p.on, "%s: %s\n", p.name, text)
		return
	}
	if at.Total > 0 {
		full := int(min(max(at.Progress/at.Total, 0), 1) * barWidth)
		text = strings.Repeat("█", full) + strings.Repeat("░", barWidth-full) + "  " + text
	}
	p.on.draw(p.name + "  " + text + "  " + people.Duration(now.Sub(p.began)))
}

// clear takes the bar away.
func (p *progress) clear() { p.on.clear() }

// steps tell on standard error what a command is at, as far as that takes longer than a moment.
type steps struct {
	console *console
	name    string
	timer   *time.Timer // until the step is told

	mu   sync.Mutex
	now  string // guarded by mu
	told bool   // one was; guarded by mu
}

// newSteps returns steps of what is done. The caller ends them.
func newSteps(v *console, name string) *steps {
	s := &steps{console: v, name: name}
	s.timer = time.AfterFunc(manager.StartNotice, s.tell)
	return s
}

// next says what is done from now on.
func (s *steps) next(what string) {
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
		s.console.printf("%s …", s.name)
		return
	}
	s.console.printf("%s: %s …", s.name, s.now)
}

// found tells what was found, if the end is not near.
func (s *steps) found(what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.told {
		s.console.printf("%s: found: %s", s.name, what)
	}
}

func (s *steps) end() { s.timer.Stop() }
