package stdio

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
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

const (
	launchName = "dragoman-launch"     // its argv[0]
	launchVar  = "DRAGOMAN_LAUNCH=yes" // its environment
	launchTime = 20 * time.Second      // how long it may take, on a machine that is very busy

	launchSpecFile   = 3 // where it reads what to do
	launchStatusFile = 4 // where it says what went wrong; executing the server closes it
)

// A launcher starts a server by way of our own executable, in the process that becomes
// the server: limits and sandbox are in force before the first instruction of the server.
// It goes so:
//
//	we start ourselves as launchName, in the server's group and with its streams
//	we write the launchSpec, it limits itself and executes the server
//	we read how that went: nothing if it worked
type launcher struct {
	spec         launchSpec
	read, write  *os.File // of the spec; it has the first
	status, told *os.File // of the status; it has the second
}

// A launchSpec is what a launcher does. Texts are bytes, which JSON does not change.
type launchSpec struct {
	Path, Dir []byte
	Args, Env [][]byte
	Parent    int // our process
	Limits    []resourceLimit
	User      *syscall.Credential
	Sandbox   *landlock
}

// A launchFailure is why a launcher did not work.
type launchFailure struct {
	Text  string
	Errno syscall.Errno // if it is one, with what the system says of it left out of Text
}

// newLauncher makes cmd one that starts its server by a launcher. close must follow.
func newLauncher(cmd *exec.Cmd, limits []resourceLimit, sandbox *landlock) (*launcher, error) {
	l := &launcher{spec: launchSpec{
		Path: []byte(cmd.Path), Dir: []byte(cmd.Dir), Args: toBytes(cmd.Args), Env: toBytes(cmd.Env),
		Parent: os.Getpid(), Limits: limits, User: cmd.SysProcAttr.Credential, Sandbox: sandbox,
	}}
	var err error
	if l.read, l.write, err = os.Pipe(); err == nil {
		l.status, l.told, err = os.Pipe()
	}
	if err != nil {
		l.close()
		return nil, err
	}
	env := []string{launchVar, "GOMAXPROCS=1", "GOGC=off", "GOTRACEBACK=none", tagVar + "=" + valueOf(cmd.Env, tagVar)}
	cmd.Path, cmd.Args, cmd.Env, cmd.Dir = "/proc/self/exe", []string{launchName}, env, ""
	cmd.ExtraFiles = []*os.File{l.read, l.told}
	cmd.SysProcAttr.Credential = nil // it changes the user itself, when it has done what that one may not
	return l, nil
}

// finish waits until the server is executed, after cmd was started.
func (l *launcher) finish() error {
	closeFiles(l.read, l.told)
	end := time.Now().Add(launchTime)
	_ = l.write.SetWriteDeadline(end) // pipes of ours have deadlines
	_ = l.status.SetReadDeadline(end)
	err := json.NewEncoder(l.write).Encode(&l.spec)
	closeFiles(l.write)
	text, readErr := io.ReadAll(l.status)
	var failure launchFailure
	switch {
	case len(text) > 0 && json.Unmarshal(text, &failure) == nil && failure.Errno != 0:
		return fmt.Errorf("%s%w", failure.Text, failure.Errno)
	case failure.Text != "":
		return errors.New(failure.Text)
	case err != nil || readErr != nil || len(text) > 0:
		return fmt.Errorf("the step before the server did not end well: %w", errors.Join(err, readErr))
	}
	return nil
}

func (l *launcher) close() { closeFiles(l.read, l.write, l.status, l.told) }

// becomeServer does what a launcher says, if this process was started by one.
func becomeServer() {
	if os.Args[0] != launchName || !slices.Contains(os.Environ(), launchVar) {
		return
	}
	// What follows is a matter of the thread that executes the server.
	runtime.LockOSThread()
	syscall.CloseOnExec(launchSpecFile)
	syscall.CloseOnExec(launchStatusFile)
	step, err := launchServer(os.NewFile(launchSpecFile, "spec"))
	failure := launchFailure{Text: step + err.Error()}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		failure = launchFailure{strings.TrimSuffix(failure.Text, errno.Error()), errno}
	}
	_ = json.NewEncoder(os.NewFile(launchStatusFile, "status")).Encode(failure) // who reads it may be gone
	syscall.Exit(1)
}

// launchServer returns only if it fails, and says what it was about then.
func launchServer(r *os.File) (step string, err error) {
	var spec launchSpec
	if err := json.NewDecoder(r).Decode(&spec); err != nil {
		return "read what to start: ", err
	}
	ruleset := -1
	if spec.Sandbox != nil {
		if ruleset, err = spec.Sandbox.open(); err != nil {
			return "", err
		}
	}
	for _, l := range spec.Limits {
		if err := l.setEarly(); err != nil {
			return "", err
		}
	}
	if spec.User != nil {
		if err := changeUser(spec.User); err != nil {
			return "change the user: ", err
		}
	}
	if len(spec.Dir) > 0 {
		if err := syscall.Chdir(string(spec.Dir)); err != nil {
			return fmt.Sprintf("enter %s: ", spec.Dir), err
		}
	}
	if err := dieWithParent(spec.Parent); err != nil {
		return "", err
	}
	path, args, env := string(spec.Path), toStrings(spec.Args), toStrings(spec.Env)
	closeInheritedFiles()
	if spec.Sandbox != nil {
		if err := spec.Sandbox.enter(ruleset); err != nil {
			return "", err
		}
	}
	makeRoom(spec.Limits)
	for _, l := range spec.Limits {
		if err := l.setLate(); err != nil {
			return "", err
		}
	}
	return "", syscall.Exec(path, args, env)
}

// changeUser is what syscall.SysProcAttr.Credential does.
func changeUser(c *syscall.Credential) error {
	groups := make([]int, len(c.Groups))
	for i, g := range c.Groups {
		groups[i] = int(g)
	}
	if err := syscall.Setgroups(groups); err != nil {
		return err
	}
	if err := syscall.Setgid(int(c.Gid)); err != nil {
		return err
	}
	return syscall.Setuid(int(c.Uid))
}

// dieWithParent has the kernel end us with our parent. That we were started so is
// forgotten when the user changes, and holds for the first thread only.
func dieWithParent(parent int) error {
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, syscall.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("end with the parent: %w", errno)
	}
	if os.Getppid() != parent {
		return errors.New("the one who wanted the server has ended")
	}
	return nil
}

// closeInheritedFiles has all files but the standard streams closed by exec.
func closeInheritedFiles() {
	const (
		closeRange = 436 // SYS_CLOSE_RANGE
		onExec     = 4   // CLOSE_RANGE_CLOEXEC
	)
	if _, _, errno := syscall.Syscall(closeRange, 3, uintptr(^uint32(0)), onExec); errno != 0 {
		keepInheritedFiles() // the kernel is older than 5.11
	}
}

// makeRoom sees to it that there is memory left for the way to exec, when the limit of
// memory is less than what this process has already.
func makeRoom(limits []resourceLimit) {
	if !slices.ContainsFunc(limits, func(l resourceLimit) bool { return l.Resource == syscall.RLIMIT_AS }) {
		return
	}
	const room = 8 << 20
	b := make([]byte, room)
	runtime.KeepAlive(b)
	runtime.GC() // now the room is free, and stays mapped
}

func toBytes(list []string) [][]byte {
	out := make([][]byte, len(list))
	for i, s := range list {
		out[i] = []byte(s)
	}
	return out
}

func toStrings(list [][]byte) []string {
	out := make([]string, len(list))
	for i, b := range list {
		out[i] = string(b)
	}
	return out
}
