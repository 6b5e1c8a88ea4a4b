package stdio

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// newProcAttr returns how a server is started: in a group of its own, and ended
// when the thread that started it ends. account is what its environment
// says of who it is.
func newProcAttr(who string) (attr *syscall.SysProcAttr, account []string, err error) {
	attr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if who != "" {
		attr.Credential, account, err = credentialOf(who)
	}
	return attr, account, err
}

// awaitExit waits until a process of ours has ended, without reaping it, and
// reports whether it could.
func awaitExit(pid int) bool {
	const byPID = 1 // P_PID of waitid(2)
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), 0, syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0
		}
	}
}

// A processGroup is a server's process, its group, and everyone else who carries its
// tag in the environment, which is inherited. Those who left the group and dropped the tag
// are found by the keeper of the server, unless it was killed. Out of reach are those that we may not signal.
type processGroup struct {
	tag  string
	pgid int // 0 before the process has started
}

func newProcessGroup(tag string) *processGroup { return &processGroup{tag: tag} }

// setProcess is told the process once it has started, and setServer that of the server, if
// it is another one.
func (g *processGroup) setProcess(p *os.Process) error {
	g.pgid = p.Pid
	return nil
}

func (g *processGroup) setServer(pid int) { g.pgid = pid }

// release is told that nothing is left.
func (g *processGroup) release() {}

// terminate asks the group to end.
func (g *processGroup) terminate() { g.signal(syscall.SIGTERM) }

// kill ends the group.
func (g *processGroup) kill() { g.signal(syscall.SIGKILL) }

func (g *processGroup) signal(sig syscall.Signal) {
	if g.pgid > 0 {
		_ = syscall.Kill(-g.pgid, sig) // nobody is left to take it
	}
}

// alive reports whether anybody in the group lives. Asking the kernel with an
// empty signal would count those who have ended but were not reaped.
func (g *processGroup) alive() bool {
	return len(scanProcesses([]*processGroup{g}, false).found) > 0
}

// sweep kills everybody in the group until nobody is left, for at most d, and
// reports whether nobody is.
func (g *processGroup) sweep(d time.Duration) bool { return sweep([]*processGroup{g}, d) }

// sweep kills all members of the groups.
func sweep(groups []*processGroup, d time.Duration) bool {
	const enough = 3 // incomplete scans in a row, on a busy system
	end := time.Now().Add(d)
	var killed []int
	pause := time.Millisecond
	for doubts := 0; ; {
		seen := scanProcesses(groups, true)
		if len(seen.found) == 0 {
			if doubts++; !seen.incomplete || doubts == enough {
				reapOrphans(killed, end)
				return true
			}
		} else {
			doubts = 0
		}
		for _, pid := range seen.found {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		killed = append(killed, seen.found...)
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
		pause = min(2*pause, 20*time.Millisecond)
	}
}

// reap takes note of the end of a process, if it is a child of ours that has
// ended, and reports whether it was one.
func reap(pid int) bool {
	got, _ := syscall.Wait4(pid, nil, syscall.WNOHANG, nil) // an error says that it is not
	return got == pid
}

// reapOrphans reaps those who have become our own children, as orphans do when
// we are the first process of a container. That happens when their parents end,
// so it may take a moment.
func reapOrphans(pids []int, end time.Time) {
	if os.Getpid() != 1 {
		return
	}
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		pids = slices.DeleteFunc(pids, func(pid int) bool {
			return reap(pid) || errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
		})
		if len(pids) == 0 || time.Now().After(end) {
			return
		}
		time.Sleep(pause)
	}
}

// maxEnviron is how much of a process's environment is searched for a tag.
const maxEnviron = 4 << 20

// A processScan is what one look at the process table has shown.
type processScan struct {
	found []int // members that live

	// incomplete says that somebody may have been missed: a process was between
	// two programs, when its environment cannot be read, or ended while we
	// looked and may have left a child.
	incomplete bool
}

// scanProcesses finds the living members of groups: those in their groups and, if
// tagged is set, those who carry their tags.
func scanProcesses(groups []*processGroup, tagged bool) processScan {
	var s processScan
	dir, err := os.Open("/proc")
	if err != nil {
		return s
	}
	names, err := dir.Readdirnames(-1)
	dir.Close()
	if err != nil {
		return s
	}
	self := os.Getpid()
	buf := make([]byte, 8<<10)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == self {
			continue
		}
		// Most are threads of the kernel, whose group is 0. That of a server's descendant never is.
		pgid, err := syscall.Getpgid(pid)
		switch g := inGroup(groups, pgid); {
		case err != nil:
			s.incomplete = true
		case g != nil:
			var stat processStat
			switch buf, err = readFile("/proc/"+name+"/stat", buf); {
			case err != nil || !stat.parse(buf):
				s.incomplete = true
			case !stat.dead:
				s.found = append(s.found, pid)
			case stat.parent == self && pid != g.pgid:
				reap(pid)
			}
		case tagged && pgid > 0:
			buf, err = readFile("/proc/"+name+"/environ", buf)
			if hasTag(groups, buf) {
				s.found = append(s.found, pid)
			}
			if len(buf) == 0 && !errors.Is(err, os.ErrPermission) && !dead(name) {
				s.incomplete = true
			}
		}
	}
	return s
}

// dead reports whether a process waits to be reaped.
func dead(name string) bool {
	var stat processStat
	text, err := readFile("/proc/"+name+"/stat", make([]byte, 1<<10))
	return err == nil && stat.parse(text) && stat.dead
}

func inGroup(groups []*processGroup, pgrp int) *processGroup {
	for _, f := range groups {
		if f.pgid == pgrp && pgrp > 0 {
			return f
		}
	}
	return nil
}

func hasTag(groups []*processGroup, environ []byte) bool {
	if !bytes.Contains(environ, []byte(tagVar+"=")) {
		return false
	}
	for _, f := range groups {
		if bytes.Contains(environ, []byte(f.tag)) {
			return true
		}
	}
	return false
}

// A processStat is what we need of /proc/PID/stat, see proc_pid_stat(5).
type processStat struct {
	parent int
	dead   bool // it waits to be reaped
}

func (st *processStat) parse(text []byte) bool {
	// The name, in parentheses, may itself have spaces and parentheses. State and parent
	// follow, and much more.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 3 {
		return false
	}
	var err error
	st.parent, err = strconv.Atoi(string(fields[1]))
	st.dead = string(fields[0]) == "Z" || string(fields[0]) == "X"
	return err == nil
}

// readFile reads a file of /proc into buf, which it may replace by a larger one.
// It is os.ReadFile without what that costs for a thousand small files.
func readFile(name string, buf []byte) ([]byte, error) {
	fd, err := untilNotInterrupted(func() (int, error) { return syscall.Open(name, syscall.O_RDONLY|syscall.O_CLOEXEC, 0) })
	if err != nil {
		return buf[:0], err
	}
	defer syscall.Close(fd)
	buf = buf[:0]
	for len(buf) < maxEnviron {
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
		n, err := untilNotInterrupted(func() (int, error) { return syscall.Read(fd, buf[len(buf):cap(buf)]) })
		if err != nil {
			return buf, err
		}
		buf = buf[:len(buf)+n]
		if len(buf) < cap(buf) {
			break // these files fill what there is room for
		}
	}
	return buf, nil
}

func untilNotInterrupted(f func() (int, error)) (int, error) {
	for {
		if n, err := f(); err != syscall.EINTR { //nolint:errorlint // a system call returns it bare
			return n, err
		}
	}
}
