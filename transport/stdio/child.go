package stdio

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

const (
	// drainTime is how long what a dead server has written can still be read.
	drainTime = 500 * time.Millisecond

	// killTime is how long a killed process may take to disappear, and how long
	// those that left its group are looked for.
	killTime = 2 * time.Second
)

// A child is a running server and whatever it has started.
//
// Two goroutines belong to it beside those of its stderr: run starts the process
// and reaps it, supervise ends everything when it is to end. Both are gone when done
// is closed, unless the kernel cannot end the process.
type child struct {
	command string
	file    string    // the executable of the server
	env     []string  // what the server sees
	cmd     *exec.Cmd // the server, or its keeper
	pid     int       // of the server
	group   *processGroup
	grace   time.Duration
	log     *slog.Logger

	withheld withheld // of our variables

	stdin  *os.File
	stdout *drainingPipe
	stderr *stderrSink
	errEnd *os.File // the read end of stderr, closed by the sink

	stopOnce sync.Once
	stopping chan struct{} // closed by stop
	exited   chan struct{} // closed when the process has ended
	mayReap  chan struct{} // closed when its number is needed no more
	reaped   chan struct{} // closed when it has been reaped
	over     chan struct{} // closed when nothing is left
}

// start starts the server. The caller reads out and calls stop; nothing is left
// to close after that.
func (c *Command) start() (*child, error) {
	tag := newTag()
	cmd, err := c.prepare(tag)
	if err != nil {
		return nil, err
	}
	pipes, err := openPipes()
	if err != nil {
		return nil, c.fail(err, "")
	}
	file, env := cmd.Path, cmd.Env
	bounds, err := c.confine(cmd)
	if err != nil {
		pipes.closeTheirs()
		pipes.closeOurs()
		return nil, c.fail(err, "use a newer kernel, or set optional in the sandbox to start it without")
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = pipes.stdin.read, pipes.stdout.write, pipes.stderr.write
	p := &child{
		command:  c.Path,
		file:     file,
		env:      env,
		cmd:      cmd,
		group:    newProcessGroup(tag),
		grace:    c.grace(),
		log:      c.logger().With("command", c.Path),
		withheld: withheldFrom(os.Environ(), env),
		stdin:    pipes.stdin.write,
		stdout:   &drainingPipe{pipes.stdout.read},
		errEnd:   pipes.stderr.read,
		stopping: make(chan struct{}),
		exited:   make(chan struct{}),
		mayReap:  make(chan struct{}),
		reaped:   make(chan struct{}),
		over:     make(chan struct{}),
	}
	started := make(chan error)
	go p.run(bounds, started) // until the process has been reaped
	err = <-started
	pipes.closeTheirs()
	if err != nil {
		pipes.closeOurs()
		p.group.release()
		return nil, c.fail(err, c.adviceForStart(err))
	}
	p.log.Info("process started", "file", file, "pid", p.pid)
	onLine := c.OnStderr
	if onLine == nil {
		mask := maskOf(env)
		onLine = func(line string) { p.log.Debug("server wrote to stderr", "line", redact.Text(mask(line))) }
	}
	p.stderr = newStderrSink(p.errEnd, onLine)
	go p.supervise() // until stop or the end of the process, and then a bounded time
	return p, nil
}

// run starts the process and reaps it. On Linux the kernel ends a server without a keeper
// when the thread that started it ends, so this goroutine keeps its thread.
func (p *child) run(bounds *confinement, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer bounds.close()
	if err := p.cmd.Start(); err != nil {
		started <- err
		return
	}
	err := p.group.setProcess(p.cmd.Process)
	if err == nil {
		p.pid, err = bounds.apply(p.cmd.Process.Pid)
	}
	if err != nil {
		bounds.release()
		p.group.kill()
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.group.sweep(killTime)
		started <- err
		return
	}
	p.group.setServer(p.pid)
	started <- nil
	if bounds.awaitExit(p.pid) {
		close(p.exited)
		<-p.mayReap
	}
	bounds.release()
	_ = p.cmd.Wait() // how it ended is in ProcessState
	close(p.reaped)
}

// supervise waits until the child is to end or has ended, and then sees to it that
// nothing is left.
func (p *child) supervise() {
	select {
	case <-p.exited:
	case <-p.reaped:
	case <-p.stopping:
		p.terminateGracefully()
	}
	p.group.kill()
	if !p.waitExit(killTime) {
		p.log.Error("server does not end although it was killed", "pid", p.pid)
	}
	// As long as it has not been reaped, no other group can have its number.
	if !p.group.sweep(killTime) {
		p.log.Error("processes of the server are left although they were killed", "pid", p.pid)
	}
	close(p.mayReap)
	wait(p.reaped, killTime)
	p.group.release()

	p.stdin.Close()
	// All processes that could hold the other ends are dead, so the pipes are at
	// their ends once they are empty; this is for those that were not found.
	time.AfterFunc(drainTime, func() { closeFiles(p.stdout.File, p.errEnd) })
	wait(p.stderr.ended, 2*drainTime)
	p.log.Info("process ended", "pid", p.pid, "status", p.exit().Status, "signal", p.exit().Signal)
	close(p.over)
}

// terminateGracefully asks the child to end, first by closing its stdin.
func (p *child) terminateGracefully() {
	p.stdin.Close()
	if p.waitGroup(p.grace) {
		return
	}
	p.group.terminate()
	p.waitGroup(p.grace)
}

// waitGroup waits until the process and its group have ended, for at most d, and
// reports whether they have.
func (p *child) waitGroup(d time.Duration) bool {
	end := time.Now().Add(d)
	if !p.waitExit(d) {
		return false
	}
	for pause := time.Millisecond; p.group.alive(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Until(end) < pause {
			return false
		}
		time.Sleep(pause)
	}
	return true
}

// waitExit waits until the process has ended, for at most d.
func (p *child) waitExit(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.exited:
	case <-p.reaped:
	case <-timer.C:
		return false
	}
	return true
}

// in is the child's stdin. Closing it unblocks a write in progress. To end the
// child call stop, which closes it: a child that ends without stop takes its
// group with it at once.
func (p *child) in() io.WriteCloser { return p.stdin }

// out is the child's stdout. Its end comes when the child has ended and it has
// been read, and at most drainTime after done. Closing it unblocks a read.
func (p *child) out() io.ReadCloser { return p.stdout }

// done is closed when the child has been reaped and nothing of its group is left.
func (p *child) done() <-chan struct{} { return p.over }

// stop ends the child: it closes its stdin, waits, asks it to end, waits, kills
// it and everything that it has started. It returns when nothing is left. Any
// number of goroutines may call it, any number of times.
func (p *child) stop() {
	p.stopOnce.Do(func() { close(p.stopping) })
	<-p.over
}

// exit says how the child ended. It may be called when done is closed.
func (p *child) exit() *ExitError {
	var state *os.ProcessState
	select {
	case <-p.reaped:
		state = p.cmd.ProcessState
	default:
	}
	tail := p.stderr.last()
	e := newExitError(p.command, state, tail)
	if e.Status != 0 {
		e.Withheld = p.withheld.neededBy(tail)
	}
	return e
}

// stderrTail returns the last 64 KiB that the child wrote to stderr.
func (p *child) stderrTail() []byte { return p.stderr.last() }

// A drainingPipe is the read end of a pipe. It closes itself at the end of what
// can be read, which also comes when it is closed from elsewhere.
type drainingPipe struct{ *os.File }

// Read implements io.Reader.
func (d *drainingPipe) Read(p []byte) (int, error) {
	n, err := d.File.Read(p)
	if err != nil {
		_ = d.Close() // closed already
		if errors.Is(err, os.ErrClosed) {
			err = io.EOF
		}
	}
	return n, err
}

// A pipePair is both ends of a pipe.
type pipePair struct{ read, write *os.File }

// childPipes are the three standard streams. They are files and not readers and
// writers of ours, so that waiting for the process does not mean waiting for
// everybody who inherited them.
type childPipes struct{ stdin, stdout, stderr pipePair }

func openPipes() (*childPipes, error) {
	ps := &childPipes{}
	for _, p := range []*pipePair{&ps.stdin, &ps.stdout, &ps.stderr} {
		var err error
		if p.read, p.write, err = os.Pipe(); err != nil {
			ps.closeTheirs()
			ps.closeOurs()
			return nil, err
		}
	}
	return ps, nil
}

func (ps *childPipes) closeTheirs() { closeFiles(ps.stdin.read, ps.stdout.write, ps.stderr.write) }
func (ps *childPipes) closeOurs()   { closeFiles(ps.stdin.write, ps.stdout.read, ps.stderr.read) }

func closeFiles(files ...*os.File) {
	for _, f := range files {
		_ = f.Close() // a nil file says so and does nothing
	}
}

func (c *Command) adviceForStart(err error) string {
	switch {
	case c.User != "" && errors.Is(err, syscall.EPERM):
		return "only root can start a server as somebody else: run as root, or remove the user"
	case errors.Is(err, syscall.ENOEXEC):
		return "it is not a program for this system, or a script without a first line that names its interpreter"
	case errors.Is(err, os.ErrNotExist):
		return "the interpreter that its first line names does not exist"
	case errors.Is(err, os.ErrPermission):
		return "check who may execute it, enter its directory, and change the user"
	}
	return ""
}

func newTag() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// wait waits for c, for at most d.
func wait(c <-chan struct{}, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-c:
	case <-timer.C:
	}
}

// An ExitError says how a server's process ended.
type ExitError struct {
	Command string // as it was given in Command.Path
	Status  int    // -1 if a signal ended it, or if it would not end
	Signal  string // the signal in words, "killed", if one ended it
	Stderr  string // the line on its stderr that says why, as far as that can be told, printable

	// Withheld names variables of ours that were not passed on to it and that it may
	// have needed: those that its stderr names, and those that look like secrets of
	// installers. Error does not name them: it may be told to somebody else.
	Withheld []string
}

// Error implements error.
func (e *ExitError) Error() string {
	var text string
	switch {
	case e.Signal != "":
		text = fmt.Sprintf("server %q was ended by a signal (%s)", e.Command, e.Signal)
	case e.Status < 0:
		text = fmt.Sprintf("server %q does not end although it was killed", e.Command)
	default:
		text = fmt.Sprintf("server %q exited with status %d", e.Command, e.Status)
	}
	if e.Stderr != "" {
		text += ": stderr: " + e.Stderr
	}
	return text
}

// newExitError describes state, which is nil for a process that is still there.
func newExitError(command string, state *os.ProcessState, tail []byte) *ExitError {
	e := &ExitError{Command: command, Status: -1, Stderr: causeOf(tail)}
	if state != nil {
		e.Status = state.ExitCode()
		e.Signal = signalOf(state)
	}
	return e
}
