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
	guardName         = "dragoman-guard"     // its argv[0]
	guardVar          = "DRAGOMAN_GUARD=yes" // its environment
	guardTime         = 5 * time.Second      // how long it looks for what is left
	guardWriteTimeout = time.Second          // how long it may take to read
)

// guard is the one variable of this package that outlives a call: there is one
// guard for a process, as there is one pipe that closes when a process is killed.
var guard guardClient

// A guardClient tells the guard process what to end should we not be able to. It
// writes one line for each group that comes or goes:
//
//   - TAG PGID   watch this group; PGID is 0 before it is known
//   - TAG        it is gone
type guardClient struct {
	wanted atomic.Bool // Guard was called

	// mu also orders what is written, which takes no longer than guardWriteTimeout.
	mu      sync.Mutex
	watched map[string]int // guarded by mu; groups by tag
	process *exec.Cmd      // guarded by mu; nil if there is none
	pipe    *os.File       // guarded by mu
}

// watch has the group killed if this process ends before forget.
func (g *guardClient) watch(tag string, pgid int) error {
	if !g.wanted.Load() {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.watched == nil {
		g.watched = make(map[string]int)
	}
	g.watched[tag] = pgid
	if g.process != nil && g.tell(watchLine(tag, pgid)) == nil {
		return nil
	}
	// There is none yet, or somebody has killed it.
	g.stopGuard()
	return g.startGuard()
}

// forget says that nothing is left of the group.
func (g *guardClient) forget(tag string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, ok := g.watched[tag]; !ok {
		return
	}
	delete(g.watched, tag)
	if g.process != nil && g.tell("- "+tag+"\n") != nil {
		g.stopGuard() // the next watch starts another
	}
}

func watchLine(tag string, pgid int) string { return "+ " + tag + " " + strconv.Itoa(pgid) + "\n" }

// tell writes one line, whole or not at all: it is short enough for a pipe. The
// caller holds mu.
func (g *guardClient) tell(line string) error {
	_ = g.pipe.SetWriteDeadline(time.Now().Add(guardWriteTimeout)) // a pipe of ours has deadlines
	_, err := io.WriteString(g.pipe, line)
	return err
}

// startGuard starts the guard and tells it all that it must know. The caller holds mu.
func (g *guardClient) startGuard() error {
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	g.process = &exec.Cmd{
		Path:        "/proc/self/exe", // also when the file has been replaced since
		Args:        []string{guardName},
		Env:         []string{guardVar, "GOMAXPROCS=1", "GOTRACEBACK=none"},
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
	for tag, pgid := range g.watched {
		if err := g.tell(watchLine(tag, pgid)); err != nil {
			g.stopGuard()
			return fmt.Errorf("tell the guard: %w", err)
		}
	}
	return nil
}

// stopGuard ends a guard that does not listen. It is killed before its pipe is
// closed, so that it cannot take that for our end. The caller holds mu.
func (g *guardClient) stopGuard() {
	if g.process == nil {
		return
	}
	_ = g.process.Process.Kill() // it is dead already
	_ = g.process.Wait()
	g.pipe.Close()
	g.process, g.pipe = nil, nil
}

// guarded reports whether Guard was called.
func guarded() bool { return guard.wanted.Load() }

// becomeGuard does the work of the guard or of a launcher if this process was started
// for that, and otherwise notes that there is to be a guard.
func becomeGuard() {
	becomeServer()
	if os.Args[0] == guardName && slices.Contains(os.Environ(), guardVar) {
		signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
		groups := readGroups(os.Stdin)
		if len(groups) > 0 {
			sweep(groups, guardTime)
		}
		syscall.Exit(0) // there is nothing to tidy up first
	}
	if !guard.wanted.Swap(true) {
		keepInheritedFiles()
	}
}

// readGroups reads what the guardClient writes until it ends, and returns the
// groups that are left then.
func readGroups(r io.Reader) []*processGroup {
	left := make(map[string]*processGroup)
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		switch words := strings.Fields(lines.Text()); {
		case len(words) == 3 && words[0] == "+":
			pgid, _ := strconv.Atoi(words[2]) // 0 is nobody's
			left[words[1]] = &processGroup{tag: words[1], pgid: pgid}
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
