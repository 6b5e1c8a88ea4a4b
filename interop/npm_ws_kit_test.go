//go:build npm

package interop_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// languages are how to run a script of which there is one in ts and one in py, and
// the arguments before its own.
var languages = map[string]func(t *testing.T, script string) []string{
	"node": func(t *testing.T, script string) []string {
		return []string{"node", filepath.Join("ts", script+".mjs"), filepath.Dir(npmFolder(t))}
	},
	"python": func(t *testing.T, script string) []string {
		return []string{python(t), filepath.Join("py", script+".py")}
	},
}

// eachLanguage runs a test with a script in each language.
func eachLanguage(t *testing.T, script string, f func(t *testing.T, program []string)) {
	for name, program := range languages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, program(t, script))
		})
	}
}

// A wsPeer is a library's socket that is driven line by line; see ts/ws.mjs.
type wsPeer struct {
	t     *testing.T
	stdin io.WriteCloser
	lines chan string // what it tells and what comes; closed when the process has ended
}

// openPeer opens a library's socket.
func openPeer(t *testing.T, program []string, args ...string) *wsPeer {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program[0], append(slices.Clone(program[1:]), args...)...)
	cmd.Stdout, cmd.Stderr = w, w
	p := &wsPeer{t: t, lines: make(chan string, 4096)}
	if p.stdin, err = cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() { // ends with the process
		defer close(p.lines)
		defer r.Close()
		lines := bufio.NewReader(r)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			p.lines <- strings.TrimSpace(line)
		}
	}()
	t.Cleanup(func() {
		p.stdin.Close()
		kill := time.AfterFunc(patience, func() { cmd.Process.Kill() })
		defer kill.Stop()
		for range p.lines { // until it has ended
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s did not end in good order: %v", program[0], err)
		}
	})
	return p
}

// say has a message sent, or a command done.
func (p *wsPeer) say(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

// next returns the next line.
func (p *wsPeer) next() string {
	p.t.Helper()
	select {
	case line, ok := <-p.lines:
		if !ok {
			p.t.Fatal("the library's process has ended")
		}
		return line
	case <-time.After(3 * patience): // interpreters start slowly on a busy machine
		p.t.Fatal("the library's socket says nothing")
	}
	return ""
}

// expect takes lines until one begins so.
func (p *wsPeer) expect(begin string) {
	p.t.Helper()
	for {
		line := p.next()
		if strings.HasPrefix(line, begin) {
			return
		}
		if line != "!pinged" {
			p.t.Fatalf("the library's socket says %q, want %q", line, begin)
		}
	}
}
