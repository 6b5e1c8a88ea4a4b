package program

import (
	"bufio"
	"bytes"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
)

// soon is how long anything may take that is expected to happen.
const soon = 30 * time.Second

// A process is dragoman in a process of its own.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	ended  chan struct{}

	mu     sync.Mutex
	stderr bytes.Buffer
	wrote  chan struct{} // is closed and made again with each write to stderr
}

// startMain starts the command. It is killed at the end of the test.
func startMain(t *testing.T, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, cmd: exec.Command(self, args...), ended: make(chan struct{}), wrote: make(chan struct{})}
	p.cmd.Env = environ(t, mainVariable+"=1", term.DebugVariable+"=", markVariable+"="+t.Name())
	p.cmd.Stderr = p
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, in := io.Pipe()
	p.cmd.Stdout, p.stdout = in, bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Ends with the process.
	go func() {
		_ = p.cmd.Wait() // ProcessState says how
		_ = in.Close()
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // if it is still there
		_ = out.Close()
		<-p.ended
		if t.Failed() {
			t.Logf("%q said:\n%s", args, p.said())
		}
	})
	return p
}

// markVariable holds a text by which the processes of a test are found.
const markVariable = "DRAGOMAN_TEST_MARK"

// Write takes what the process writes to standard error.
func (p *process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.wrote)
	p.wrote = make(chan struct{})
	return p.stderr.Write(text)
}

// said returns what it has said, as people read it, and logged as it is.
func (p *process) said() string { return asRead(p.logged()) }

func (p *process) logged() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// record finds the parts of a record in key=value: level, text, and what belongs to it.
var record = regexp.MustCompile(`^time=\S+ level=(\S+) msg=("(?:[^"\\]|\\.)*"|\S+)(.*)$`)

// stderrAttrs finds whose line of standard error a record is, and the line.
var stderrAttrs = regexp.MustCompile(`^ server=(\S+) line=("(?:[^"\\]|\\.)*"|\S*)$`)

// asRead returns records in key=value as people read them, with a word for what is wrong, and
// all else as it is.
func asRead(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		parts := record.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if parts == nil {
			b.WriteString(line)
			continue
		}
		unquoted := func(s string) string {
			if plain, err := strconv.Unquote(s); err == nil {
				return plain
			}
			return s
		}
		text := unquoted(parts[2])
		if of := stderrAttrs.FindStringSubmatch(parts[3]); text == term.StderrRecord && of != nil {
			b.WriteString("[" + of[1] + "] " + unquoted(of[2]) + "\n")
			continue
		}
		word := map[string]string{"DEBUG": "debug: ", "DEBUG-4": "debug: ", "WARN": "warning: "}[parts[1]]
		b.WriteString("dragoman: " + word + text + parts[3] + "\n")
	}
	return b.String()
}

// await waits until standard error has a part, and returns all of it, both as people read it.
func (p *process) await(part string) string {
	p.t.Helper()
	limit := time.NewTimer(soon)
	defer limit.Stop()
	for {
		p.mu.Lock()
		text, more := asRead(p.stderr.String()), p.wrote
		p.mu.Unlock()
		if i := strings.Index(text, part); i >= 0 && strings.Contains(text[i:], "\n") {
			return text
		}
		select {
		case <-more:
		case <-p.ended:
			if text = p.said(); strings.Contains(text, part) {
				return text
			}
			p.t.Fatalf("it ends and never says %q:\n%s", part, text)
		case <-limit.C:
			p.t.Fatalf("it does not say %q:\n%s", part, text)
		}
	}
}

// place returns where it says that it is, by the beginning of that.
func (p *process) place(prefix string) string {
	p.t.Helper()
	_, places, _ := strings.Cut(p.await("ready: "), "ready: ")
	places, _, _ = strings.Cut(places, "\n")
	for place := range strings.SplitSeq(places, ", ") {
		where, _, _ := strings.Cut(place, " ")
		if strings.HasPrefix(where, prefix) {
			return where
		}
	}
	p.t.Fatalf("it is not at %s…: %s", prefix, places)
	return ""
}

// say writes a line to standard input, and returns the next line of standard
// output.
func (p *process) say(line string) string {
	p.t.Helper()
	if _, err := io.WriteString(p.stdin, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
	watch := time.AfterFunc(soon, func() { _ = p.cmd.Process.Kill() })
	defer watch.Stop()
	answer, err := p.stdout.ReadString('\n')
	if err != nil {
		p.t.Fatalf("no answer to %s: %v", line, err)
	}
	return strings.TrimSpace(answer)
}

// wait waits for the end, and returns the status.
func (p *process) wait() int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(soon):
		p.t.Fatal("it does not end")
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop sends a signal and returns the status.
func (p *process) stop(signal os.Signal) int {
	p.t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		p.t.Fatal(err)
	}
	return p.wait()
}

// builtIn returns how to start the built-in server as a child of ours.
func builtIn(t *testing.T, args ...string) []string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"-e", mainVariable, "-e", markVariable, "-e", "GORACE", "--", self, "everything"}, args...)
}
