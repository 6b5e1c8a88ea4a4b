package stdio

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

const (
	keeperName = "dragoman-keeper"     // its argv[0]
	keeperVar  = "DRAGOMAN_KEEPER=yes" // its environment
	keeperTime = 5 * time.Second       // how long it kills what is left
	subreaper  = 36                    // PR_SET_CHILD_SUBREAPER
	dumpable   = 4                     // PR_SET_DUMPABLE
)

// A keeper is a process of our own executable between us and a server. The orphans of the
// server become its children, so no descendant gets away from it. When the pipe to us closes,
// because the server is to end or we have ended, however that was, it kills all of
// them, and ends as the server has ended. It goes so:
//
//	we start our executable as keeperName, in a session of its own and with the server's streams
//	we write the launchSpec; it starts the server and reports its number
//	it reports the end of the server; we end its group and close the pipe
//	it kills all descendants that are left, reaps the server and ends
type keeper struct {
	stage
	reports *json.Decoder
}

// A keeperReport is what a keeper writes: once the server runs or does not, and at its end.
type keeperReport struct {
	PID     int
	Failure launchFailure
}

// newKeeper makes cmd one that starts its server by a keeper. close must follow.
func newKeeper(cmd *exec.Cmd, spec *launchSpec) (*keeper, error) {
	k := &keeper{}
	// It has no tag, or it would be taken for one of the server's processes.
	if err := k.prepare(cmd, spec, keeperName, []string{keeperVar, "GOMAXPROCS=1", "GOTRACEBACK=none"}); err != nil {
		return nil, err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	k.reports = json.NewDecoder(k.status)
	return k, nil
}

// server waits until the server runs, after cmd was started, and returns its process.
func (k *keeper) server() (pid int, err error) {
	err = k.begin()
	var report keeperReport
	if readErr := k.reports.Decode(&report); readErr != nil {
		return 0, fmt.Errorf("the step before the server did not end well: %w", errors.Join(err, readErr))
	}
	_ = k.status.SetReadDeadline(time.Time{}) // a pipe of ours has deadlines
	return report.PID, report.Failure.err()
}

// awaitExit waits until the server has ended, or the keeper, which takes the server with it.
func (k *keeper) awaitExit() bool {
	var report keeperReport
	_ = k.reports.Decode(&report) // an error is the end of the keeper
	return true
}

// becomeKeeper does what a keeper does, if this process was started as one.
func becomeKeeper() {
	if os.Args[0] != keeperName || !slices.Contains(os.Environ(), keeperVar) {
		return
	}
	guard.wanted.Store(true)
	// The kernel ends the server with the thread that has started it.
	runtime.LockOSThread()
	// They are for us. Unlike ignored signals, caught ones are not inherited.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	syscall.CloseOnExec(launchSpecFile)
	syscall.CloseOnExec(launchStatusFile)
	orders := os.NewFile(launchSpecFile, "spec")
	reports := json.NewEncoder(os.NewFile(launchStatusFile, "status"))
	pid, err := startKept(orders)
	if err != nil {
		_ = reports.Encode(keeperReport{Failure: newLaunchFailure("", err)}) // the reader may be gone
		killDescendants(0, keeperTime)
		syscall.Exit(1)
	}
	letGo()
	_ = reports.Encode(keeperReport{PID: pid})
	released, ended := make(chan struct{}), make(chan struct{})
	// Both end with this process.
	go func() {
		_, _ = io.Copy(io.Discard, orders) // there is nothing but its end
		close(released)
	}()
	go func() {
		reapUntil(pid)
		close(ended)
	}()
	select {
	case <-ended:
		_ = reports.Encode(keeperReport{PID: pid})
		<-released
	case <-released:
	}
	killDescendants(pid, keeperTime)
	endAs(pid)
}

// startKept starts the server that orders say.
func startKept(orders *os.File) (pid int, err error) {
	var spec launchSpec
	decoder := json.NewDecoder(orders)
	if err := decoder.Decode(&spec); err != nil {
		return 0, fmt.Errorf("read what to start: %w", err)
	}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, subreaper, 1, 0, 0, 0, 0); errno != 0 {
		return 0, fmt.Errorf("adopt orphans: %w", errno)
	}
	cmd := &exec.Cmd{
		Path: string(spec.Path), Args: toStrings(spec.Args), Env: toStrings(spec.Env), Dir: string(spec.Dir),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		// In a session of its own no process of it can join the gateway's group, nor anybody else's.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL, Credential: spec.User},
	}
	if len(spec.Limits) == 0 && spec.Sandbox == nil {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
		return cmd.Process.Pid, nil
	}
	l, err := newLauncher(cmd, newLaunchSpec(cmd, spec.Limits, spec.Sandbox))
	if err != nil {
		return 0, err
	}
	defer l.close()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	return cmd.Process.Pid, l.finish()
}

// letGo gives up what only the server is to hold: its streams, and its directory.
func letGo() {
	if null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0); err == nil {
		for fd := range 3 {
			_ = syscall.Dup3(int(null.Fd()), fd, 0) // the numbers are good
		}
		_ = null.Close()
	}
	_ = os.Chdir("/")
}

// A siginfo is what waitid says of a child, siginfo_t.
type siginfo struct {
	signo, errno, code int32
	union              struct {
		_   [0]uintptr // its alignment
		pid int32
	}
	_ [112]byte
}

// reapUntil reaps orphans until the server has ended, which it does not reap.
func reapUntil(server int) {
	for {
		const anyChild = 0 // P_ALL
		var info siginfo
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, anyChild, 0, uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		switch pid := int(info.union.pid); {
		case errno == syscall.EINTR:
		case errno != 0 || pid == server:
			return
		default:
			reap(pid)
		}
	}
}

// killDescendants kills the group of the server, if there is one, and all descendants of this
// process until none is left, for at most d, and reaps them, but not the server.
func killDescendants(server int, d time.Duration) {
	const enough = 3 // incomplete scans in a row, on a busy system
	end := time.Now().Add(d)
	if server > 0 {
		_ = syscall.Kill(-server, syscall.SIGKILL) // also without /proc
	}
	doubts := 0
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		living, complete := descendants(server)
		if doubts++; len(living) > 0 {
			doubts = 0
		}
		if len(living) == 0 && (complete || doubts == enough) || time.Now().After(end) {
			return
		}
		for _, pid := range living {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
		time.Sleep(pause)
	}
}

// descendants returns the living descendants of this process, and reaps its dead children
// but for the server. Unless complete is set, some may have been missed.
func descendants(server int) (living []int, complete bool) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, false
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	if err != nil {
		return nil, false
	}
	complete = true
	self := os.Getpid()
	table := make(map[int]processStat)
	buf := make([]byte, 1<<10)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil {
			continue
		}
		var stat processStat
		if buf, err = readFile("/proc/"+name+"/stat", buf); err != nil || !stat.parse(buf) {
			complete = false // it has ended, and may have left children
			continue
		}
		table[pid] = stat
	}
	for pid, stat := range table {
		if stat.dead && stat.parent == self && pid != server {
			reap(pid)
		}
		if pid == self || stat.dead {
			continue
		}
		at := stat.parent
		for hops := 0; at > 1 && at != self && hops <= len(table); hops++ {
			next, ok := table[at]
			if !ok {
				complete = false // its parent has ended meanwhile
				break
			}
			at = next.parent
		}
		if at == self {
			living = append(living, pid)
		}
	}
	return living, complete
}

// endAs reaps the server and ends this process as that has ended.
func endAs(server int) {
	var status syscall.WaitStatus
	if pid, err := untilNotInterrupted(func() (int, error) { return syscall.Wait4(server, &status, syscall.WNOHANG, nil) }); err != nil || pid != server {
		syscall.Exit(1) // it cannot be killed
	}
	if !status.Signaled() {
		syscall.Exit(status.ExitStatus())
	}
	// No core of ours is of use.
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, dumpable, 0, 0, 0, 0, 0)
	var byDefault [64]byte // struct sigaction: SIG_DFL is 0
	const maskSize = 8
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGACTION, uintptr(status.Signal()), uintptr(unsafe.Pointer(&byDefault)), 0, maskSize, 0, 0)
	_ = syscall.Kill(os.Getpid(), status.Signal())
	// A signal that is blocked here comes to another thread, in a moment.
	time.Sleep(time.Second)
	syscall.Exit(128 + int(status.Signal()))
}
