package stdio

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	guardName = "dragoman-guard"     // its argv[0]
	guardMark = "DRAGOMAN_GUARD=yes" // its environment
	guardTime = 5 * time.Second      // how long it looks for what is left
	tellTime  = time.Second          // how long it may take to read
)

// guard is the one variable of this package that outlives a call: there is one
// guard for a process, as there is one pipe that closes when a process is killed.
var guard guardian

// A guardian tells the guard process what to end should we not be able to. It
// writes one line for each family that comes or goes:
//
//   - MARK PGID   watch this family; PGID is 0 before it is known
//   - MARK        it is gone
type guardian struct {
	wanted atomic.Bool // Guard was called

	// mu also orders what is written, which takes no longer than tellTime.
	mu      sync.Mutex
	watched map[string]int // guarded by mu; groups by mark
	process *exec.Cmd      // guarded by mu; nil if there is none
	pipe    *os.File       // guarded by mu
}

// watch has the family killed if this process ends before forget.
func (g *guardian) watch(mark string, pgid int) error {
	if !g.wanted.Load() {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.watched == nil {
		g.watched = make(map[string]int)
	}
	g.watched[mark] = pgid
	if g.process != nil && g.tell(watchLine(mark, pgid)) == nil {
		return nil
	}
	// There is none yet, or somebody has killed it.
	g.dismiss()
	return g.hire()
}

// forget says that nothing is left of the family.
func (g *guardian) forget(mark string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.watched[mark]; !ok {
		return
	}
	delete(g.watched, mark)
	if g.process != nil && g.tell("- "+mark+"\n") != nil {
		g.dismiss() // the next watch starts another
	}
}

func watchLine(mark string, pgid int) string { return "+ " + mark + " " + strconv.Itoa(pgid) + "\n" }

// tell writes one line, whole or not at all: it is short enough for a pipe. The
// caller holds mu.
func (g *guardian) tell(line string) error {
	_ = g.pipe.SetWriteDeadline(time.Now().Add(tellTime)) // a pipe of ours has deadlines
	_, err := io.WriteString(g.pipe, line)
	return err
}

// hire starts the guard and tells it all that it must know. The caller holds mu.
func (g *guardian) hire() error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	g.process = &exec.Cmd{
		Path:        "/proc/self/exe", // also when the file has been replaced since
		Args:        []string{guardName},
		Env:         []string{guardMark, "GOMAXPROCS=1", "GOTRACEBACK=none"},
		Dir:         "/",
		Stdin:       read,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	g.pipe = write
	if err := g.process.Start(); err != nil {
		g.process = nil
		write.Close()
		return fmt.Errorf("start the guard: %w", err)
	}
	for mark, pgid := range g.watched {
		if err := g.tell(watchLine(mark, pgid)); err != nil {
			g.dismiss()
			return fmt.Errorf("tell the guard: %w", err)
		}
	}
	return nil
}

// dismiss ends a guard that does not listen. It is killed before its pipe is
// closed, so that it cannot take that for our end. The caller holds mu.
func (g *guardian) dismiss() {
	if g.process == nil {
		return
	}
	_ = g.process.Process.Kill() // it is dead already
	_ = g.process.Wait()
	g.pipe.Close()
	g.process, g.pipe = nil, nil
}

// becomeGuard does the guard's work if this process was started for it, and
// otherwise notes that there is to be one.
func becomeGuard() {
	if os.Args[0] == guardName && slices.Contains(os.Environ(), guardMark) {
		signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
		families := readOrders(os.Stdin)
		if len(families) > 0 {
			sweep(families, guardTime)
		}
		syscall.Exit(0) // there is nothing to tidy up first
	}
	if !guard.wanted.Swap(true) {
		keepInheritedFiles()
	}
}

// readOrders reads what the guardian writes until it ends, and returns the
// families that are left then.
func readOrders(r io.Reader) []*family {
	left := make(map[string]*family)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		switch words := strings.Fields(lines.Text()); {
		case len(words) == 3 && words[0] == "+":
			pgid, _ := strconv.Atoi(words[2]) // 0 is nobody's
			left[words[1]] = &family{mark: words[1], pgid: pgid}
		case len(words) == 2 && words[0] == "-":
			delete(left, words[1])
		}
	}
	return slices.Collect(maps.Values(left))
}

// keepInheritedFiles marks every open file but the standard streams to be closed
// in processes that we start. Go does so for the files that it opens itself.
func keepInheritedFiles() {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil && !errors.Is(err, io.EOF) {
		return
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && fd > 2 {
			syscall.CloseOnExec(fd)
		}
	}
}
