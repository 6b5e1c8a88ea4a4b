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
	"strings"
	"syscall"
	"time"
	"unsafe"
)

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

// A resourceLimit is a limit in the terms of the kernel.
type resourceLimit struct {
	Resource   int
	Soft, Hard uint64
	What       string // for errors
}

// rlimitNproc is RLIMIT_NPROC.
const rlimitNproc = 6

// late reports whether the limit could be in the way of what is still to be done.
func (l *resourceLimit) late() bool {
	return l.Resource == syscall.RLIMIT_AS || l.Resource == rlimitNproc
}

// setEarly sets a limit while we have the rights that we were started with.
func (l *resourceLimit) setEarly() error {
	switch {
	case l.late():
		return nil
	case l.Resource == syscall.RLIMIT_NOFILE:
		// The standard library keeps track of this one.
		return l.explain(syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: l.Soft, Max: l.Hard}))
	}
	return l.set(0)
}

// setLate sets a limit right before exec.
func (l *resourceLimit) setLate() error {
	if !l.late() {
		return nil
	}
	return l.set(0)
}

// set puts the limit on a process; 0 is this one.
func (l *resourceLimit) set(pid int) error {
	limit := struct{ soft, hard uint64 }{l.Soft, l.Hard}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(l.Resource), uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	if errno == 0 || errors.Is(errno, syscall.ESRCH) { // it has ended already
		return nil
	}
	return l.explain(errno)
}

func (l *resourceLimit) explain(err error) error {
	if err != nil {
		err = fmt.Errorf("limit %s: %w", l.What, err)
	}
	return err
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
