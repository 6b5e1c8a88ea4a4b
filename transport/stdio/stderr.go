package stdio

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
)

const (
	stderrKept    = 64 << 10 // how much of the end is remembered
	stderrLine    = 64 << 10 // where a line is cut
	stderrWaiting = 1 << 20  // how far the callback may fall behind, in bytes
)

// A stderrSink takes everything that a server writes to stderr, as fast as it
// comes, so that the server never blocks on it. It remembers the end and hands
// the lines to a callback.
type stderrSink struct {
	onLine func(string)
	ended  chan struct{} // closed when stderr is at its end and the callback has had every line

	// Owned by drain.
	line []byte // a line without its end yet
	skip bool   // the rest of this line was cut

	mu      sync.Mutex
	ready   *sync.Cond // there are lines, or there will be none
	tail    []byte     // guarded by mu; the last stderrKept bytes are of interest
	lines   []string   // guarded by mu; not yet with the callback
	waiting int        // guarded by mu; the bytes in lines
	dropped int        // guarded by mu; lines the callback will not see
	over    bool       // guarded by mu; no more lines will come
}

// newStderrSink starts to drain r, and closes it at its end.
func newStderrSink(r io.ReadCloser, onLine func(string)) *stderrSink {
	s := &stderrSink{onLine: onLine, ended: make(chan struct{})}
	s.ready = sync.NewCond(&s.mu)
	go s.drain(r)  // until the end of r
	go s.deliver() // until drain has ended
	return s
}

func (s *stderrSink) drain(r io.ReadCloser) {
	defer r.Close()
	buf := make([]byte, 16<<10)
	for {
		n, err := r.Read(buf)
		s.appendTail(buf[:n])
		s.split(buf[:n])
		if err != nil {
			break
		}
	}
	if len(s.line) > 0 {
		s.put(s.line)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	s.ready.Signal()
}

// appendTail appends text to the tail.
func (s *stderrSink) appendTail(text []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tail)+len(text) > 2*stderrKept {
		s.tail = append(s.tail[:0], s.tail[len(s.tail)-stderrKept:]...)
	}
	s.tail = append(s.tail, text...)
}

// split finds the lines in text.
func (s *stderrSink) split(text []byte) {
	for len(text) > 0 {
		part, rest, whole := bytes.Cut(text, []byte{'\n'})
		text = rest
		if !s.skip {
			room := stderrLine - len(s.line)
			s.line = append(s.line, part[:min(room, len(part))]...)
			s.skip = len(part) > room
			if whole || s.skip {
				s.put(s.line)
				s.line = s.line[:0]
			}
		}
		if whole {
			s.skip = false
		}
	}
}

// put queues a line for the callback.
func (s *stderrSink) put(line []byte) {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting+len(line) > stderrWaiting {
		s.dropped++
		return
	}
	s.lines = append(s.lines, string(line))
	s.waiting += len(line) + 1 // so that empty lines are not free
	s.ready.Signal()
}

// deliver calls the callback, without holding up drain.
func (s *stderrSink) deliver() {
	defer close(s.ended)
	for {
		s.mu.Lock()
		for len(s.lines) == 0 && !s.over {
			s.ready.Wait()
		}
		lines, dropped, over := s.lines, s.dropped, s.over
		s.lines, s.waiting, s.dropped = nil, 0, 0
		s.mu.Unlock()
		for _, line := range lines {
			s.onLine(line)
		}
		if dropped > 0 {
			s.onLine(fmt.Sprintf("(%d lines were dropped: they came faster than they were taken)", dropped))
		}
		if over {
			return
		}
	}
}

// last returns a copy of the end of what was written.
func (s *stderrSink) last() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.tail[max(0, len(s.tail)-stderrKept):])
}

const (
	// causeLines is how many of the last lines of a server's stderr are looked at
	// for the one that says why it ended.
	causeLines = 60

	// maxCause is how much of that line is repeated.
	maxCause = 1024
)

var (
	// installer is what npm puts before each line.
	installer = lazy.Regexp(`^npm (?:error|ERR!)\s*`)

	// decoration is what stands before a line without being part of what it says.
	decoration = lazy.Regexp(`^[\s×│╰├─▶>*|-]+`)

	// reason is what stands before each line that says why the line before it is so.
	reason = lazy.Regexp(`^\s+(?i:caused by|cause):\s+`)

	// Lines by what they are worth, the best first. In a line of npm its prefix is
	// left out.
	causes = []struct {
		score int
		line  func() *regexp.Regexp
	}{
		{0, lazy.Regexp(`^$|A complete log of this run|^Node\.js v\d|^npm (?:warn|WARN|notice)|^Run 'docker|^For (?:more|further) information|^(?:See|Usage|hint)\b|^\d+$|^[\^~]+$|^[})\]]`)},
		{1, lazy.Regexp(`^(?:code|syscall|errno|path|dest) |^network (?:This|In most|If)|If you are behind a proxy|^Note that you can|tarball, folder|^Traceback |^The above exception|^During handling of`)},
		{6, lazy.Regexp(`(?i)is not in this registry|requested resource .* could not be found|failed, reason:|could not determine executable|was not found in the package registry|is not provided by package|No module named|Cannot find (?:module|package)`)},
		{5, lazy.Regexp(`^(?:Uncaught )?[\w.$]*(?:Error|Exception|KeyboardInterrupt|SystemExit|Warning)\b(?: \[\w+\])?(?::|$)|^panic: |^(?i:error|fatal)(?:\[\w+\])?: |^docker: |^thread '.*' panicked`)},
		{4, lazy.Regexp(`(?i)\b(?:E[A-Z]{4,}|error|fail(?:ed|ure|s)?|fatal|cannot|can't|could not|couldn't|unable|denied|not found|no such|refused|missing|required|must be set|not set|invalid|unauthorized|expired|unknown)\b`)},
	}
)

// causeOf returns the line of what a server wrote to stderr that says why it ended, as
// far as that can be told, without what could play tricks on a terminal or in a log.
// Installers and runtimes have a last line that says something else. Of lines that are
// as good the last one counts. If it is followed by its reasons, the first and the last
// of them say what and why.
func causeOf(text []byte) string {
	lines := strings.Split(strings.ToValidUTF8(string(text), ""), "\n")
	lines = lines[max(0, len(lines)-causeLines):]
	best, top, at := "", -1, 0
	for i, line := range lines {
		line = printable(strings.TrimRight(line, " \t\r"))
		if lines[i] = line; strings.TrimSpace(line) == "" || reason().MatchString(line) {
			continue
		}
		if score := scoreOf(line); score >= top {
			best, top, at = line, score, i
		}
	}
	best = decoration().ReplaceAllString(best, "")
	var reasons []string
	for _, line := range lines[min(at+1, len(lines)):] {
		before := reason().FindString(line)
		if before == "" {
			break
		}
		reasons = append(reasons, line[len(before):])
	}
	if len(reasons) > 0 {
		best += ": " + reasons[0]
	}
	if len(reasons) > 1 {
		best += ": " + reasons[len(reasons)-1]
	}
	return strings.ToValidUTF8(best[:min(len(best), maxCause)], "")
}

// scoreOf tells how likely a line says why a program ended.
func scoreOf(line string) int {
	rest := installer().ReplaceAllString(line, "")
	bare := decoration().ReplaceAllString(rest, "")
	for _, c := range causes {
		if !c.line().MatchString(bare) {
			continue
		}
		if c.score > 1 && c.score < 6 && rest != bare && strings.TrimLeft(rest, " \t") == bare {
			return 1 // indented: a part of a stack trace, or a piece of source
		}
		return c.score
	}
	if rest != bare {
		return 1
	}
	return 2
}

// printable returns a line without control characters.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\t' || r >= 0x7f && r < 0xa0 {
			return -1
		}
		return r
	}, line)
}
