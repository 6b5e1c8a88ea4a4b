package gatewaytest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A Process is the program while it runs.
type Process struct {
	t     testing.TB
	args  []string
	own   string // directory of its sockets and caches
	cmd   *exec.Cmd
	ended chan struct{}

	mu     sync.Mutex
	stderr bytes.Buffer
	wrote  chan struct{} // is closed and made again with each write
}

// A Launch is what the program is started with beside its arguments. The zero value
// is an environment that has little more than PATH.
type Launch struct {
	Env    []string   // added
	Files  []*os.File // inherited
	Prefix []string   // program that starts it, with arguments
}

// Start starts the program. It is killed at the end of the test, if it is still
// there.
func Start(t testing.TB, with Launch, args ...string) *Process {
	t.Helper()
	// Its sockets and caches are of this process. The path of a socket must be short.
	own, err := os.MkdirTemp("", "k")
	if err != nil {
		t.Fatal(err)
	}
	p := &Process{t: t, args: args, own: own, ended: make(chan struct{}), wrote: make(chan struct{})}
	all := slices.Concat(with.Prefix, []string{Binary(t)}, args)
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), all[0], all[1:]...)
	p.cmd.ExtraFiles = with.Files
	p.cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + own, "TMPDIR=" + os.TempDir(), "XDG_RUNTIME_DIR=" + own, "GORACE=atexit_sleep_ms=0",
	}, with.Env...)
	p.cmd.Stderr = p
	p.cmd.WaitDelay = time.Second // a server that outlives it may hold its stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Ends with the process.
	go func() {
		_ = p.cmd.Wait() // ProcessState says how
		close(p.ended)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // if it is still there
		<-p.ended
		_ = os.RemoveAll(own)
		if t.Failed() {
			t.Logf("dragoman %q said:\n%s", args, tail(p.Stderr()))
			if err := p.Unwell(); err != nil {
				t.Log(err) // which the end of a long text may not show
			}
		}
	})
	return p
}

// tail returns the end of a text that is too long to be read.
func tail(text string) string {
	const most = 6 << 10
	if len(text) > most {
		return "…" + text[len(text)-most:]
	}
	return text
}

// Write takes what the program writes to standard error.
func (p *Process) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.wrote)
	p.wrote = make(chan struct{})
	return p.stderr.Write(text)
}

// Stderr returns what it has written to standard error.
func (p *Process) Stderr() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

// PID returns its number.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Own returns the directory of its sockets and caches.
func (p *Process) Own() string { return p.own }

// Await waits until it has said something, as a whole line, and returns that line.
func (p *Process) Await(part string) string {
	p.t.Helper()
	limit := time.NewTimer(Patience)
	defer limit.Stop()
	for {
		p.mu.Lock()
		text, more := p.stderr.String(), p.wrote
		p.mu.Unlock()
		for line := range strings.Lines(text) {
			if strings.Contains(line, part) && strings.HasSuffix(line, "\n") {
				return line
			}
		}
		select {
		case <-more:
		case <-p.ended:
			if !strings.Contains(p.Stderr(), part) {
				p.t.Fatalf("dragoman %q ends and never says %q:\n%s", p.args, part, p.Stderr())
			}
		case <-limit.C:
			p.t.Fatalf("dragoman %q does not say %q:\n%s", p.args, part, p.Stderr())
		}
	}
}

// Signal sends it a signal.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Fatal(err)
	}
}

// Wait waits for its end, for so long, and returns its status, which is -1 if a
// signal ended it.
func (p *Process) Wait(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(limit):
		p.t.Fatalf("dragoman %q does not end within %v:\n%s", p.args, limit, tail(p.Stderr()))
	}
	return p.cmd.ProcessState.ExitCode()
}

// Over reports whether it has ended.
func (p *Process) Over() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// Unwell returns what it must never say, with what it says about that.
func (p *Process) Unwell() error {
	text := p.Stderr()
	for _, sign := range []string{"panic", "DATA RACE", "fatal error"} {
		if i := strings.Index(text, sign); i >= 0 {
			return fmt.Errorf("dragoman says %s", text[i:min(len(text), i+4000)])
		}
	}
	return nil
}
