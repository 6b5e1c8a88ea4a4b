package stdio

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// guard says whether Guard was called. It is the one variable of this package that outlives
// a call.
var guard struct{ wanted atomic.Bool }

// guarded reports whether Guard was called.
func guarded() bool { return guard.wanted.Load() }

// becomeGuard does the work of a keeper or of a launcher if this process was started
// for that, and otherwise notes that servers are to have keepers.
func becomeGuard() {
	becomeServer()
	becomeKeeper()
	if !guard.wanted.Swap(true) {
		keepInheritedFiles()
	}
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

	launchSpecFile   = 3 // where a stage reads what to do
	launchStatusFile = 4 // where it reports; executing the server closes it
)

// A launcher starts a server by way of our own executable, in the process that becomes
// the server: limits and sandbox are in force before the first instruction of the server.
// It goes so:
//
//	its keeper starts our executable as launchName, in the server's group and with its streams
//	the keeper writes the launchSpec; the process limits itself and executes the server
//	the keeper reads how that went: nothing if it worked
type launcher struct{ stage }

// newLauncher makes cmd one that starts its server by a launcher. close must follow.
func newLauncher(cmd *exec.Cmd, spec *launchSpec) (*launcher, error) {
	l := &launcher{}
	// The tag is there from the start, for whoever looks for the server.
	env := []string{launchVar, "GOMAXPROCS=1", "GOGC=off", "GOTRACEBACK=none", tagVar + "=" + valueOf(cmd.Env, tagVar)}
	if err := l.prepare(cmd, spec, launchName, env); err != nil {
		return nil, err
	}
	cmd.SysProcAttr.Credential = nil // it changes the user itself, when it has done what that one may not
	return l, nil
}

// finish waits until the server is executed, after cmd was started.
func (l *launcher) finish() error {
	err := l.begin()
	closeFiles(l.write)
	text, readErr := io.ReadAll(l.status)
	var failure launchFailure
	if len(text) > 0 && json.Unmarshal(text, &failure) == nil {
		return failure.err()
	}
	if err != nil || readErr != nil || len(text) > 0 {
		return fmt.Errorf("the step before the server did not end well: %w", errors.Join(err, readErr))
	}
	return nil
}

// A launchSpec is what a keeper or a launcher does. Texts are bytes, which JSON does not change.
type launchSpec struct {
	Path, Dir []byte
	Args, Env [][]byte
	Parent    int // the process that starts it
	Limits    []resourceLimit
	User      *syscall.Credential
	Sandbox   *landlock
}

// newLaunchSpec returns what is to be done to start cmd.
func newLaunchSpec(cmd *exec.Cmd, limits []resourceLimit, sandbox *landlock) *launchSpec {
	return &launchSpec{
		Path: []byte(cmd.Path), Dir: []byte(cmd.Dir), Args: toBytes(cmd.Args), Env: toBytes(cmd.Env),
		Parent: os.Getpid(), Limits: limits, User: cmd.SysProcAttr.Credential, Sandbox: sandbox,
	}
}

// A launchFailure is why a launcher or a keeper did not work.
type launchFailure struct {
	Text  string
	Errno syscall.Errno // if it is one, with what the system says of it left out of Text
}

func newLaunchFailure(step string, err error) launchFailure {
	failure := launchFailure{Text: step + err.Error()}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		failure = launchFailure{strings.TrimSuffix(failure.Text, errno.Error()), errno}
	}
	return failure
}

// err returns the failure as an error, nil if there is none.
func (f *launchFailure) err() error {
	switch {
	case f.Errno != 0:
		return fmt.Errorf("%s%w", f.Text, f.Errno)
	case f.Text != "":
		return errors.New(f.Text)
	}
	return nil
}

// A stage is a process of our own executable that starts the next one. It reads what to do
// from one pipe, and writes what comes of it to another.
type stage struct {
	spec         *launchSpec
	read, write  *os.File // of the spec; it has the first
	status, told *os.File // of the status; it has the second
}

// prepare makes cmd one that starts the stage.
func (s *stage) prepare(cmd *exec.Cmd, spec *launchSpec, name string, env []string) (err error) {
	s.spec = spec
	if s.read, s.write, err = os.Pipe(); err == nil {
		s.status, s.told, err = os.Pipe()
	}
	if err != nil {
		s.close()
		return err
	}
	cmd.Path, cmd.Args, cmd.Env, cmd.Dir = "/proc/self/exe", []string{name}, env, ""
	cmd.ExtraFiles = []*os.File{s.read, s.told}
	return nil
}

// begin writes the spec, after the stage was started, and bounds the wait for its status.
func (s *stage) begin() error {
	closeFiles(s.read, s.told)
	end := time.Now().Add(launchTime)
	_ = s.write.SetWriteDeadline(end) // pipes of ours have deadlines
	_ = s.status.SetReadDeadline(end)
	return json.NewEncoder(s.write).Encode(s.spec)
}

func (s *stage) close() { closeFiles(s.read, s.write, s.status, s.told) }

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
	_ = json.NewEncoder(os.NewFile(launchStatusFile, "status")).Encode(newLaunchFailure(step, err)) // the reader may be gone
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
