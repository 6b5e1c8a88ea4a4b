package stdio

import (
	"errors"
	"log/slog"
	"os"
	"slices"
	"syscall"
	"time"
)

// newProcAttr returns how a server is started: in a group of its own, and with
// an end when the thread that started it ends. account is what its environment
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
// tag in the environment, which is inherited. Out of reach are only those who
// left the group and dropped the tag, and those we may not signal.
type processGroup struct {
	tag  string
	pgid int // 0 before the process has started
	log  *slog.Logger
}

func newProcessGroup(tag string, log *slog.Logger) *processGroup {
	g := &processGroup{tag: tag, log: log}
	g.register()
	return g
}

// setProcess is told the process once it has started.
func (g *processGroup) setProcess(p *os.Process) error {
	g.pgid = p.Pid
	g.register()
	return nil
}

// register tells the guard about g. A server without a guard is better than
// none, so a failure is only logged.
func (g *processGroup) register() {
	if err := guard.watch(g.tag, g.pgid); err != nil {
		g.log.Warn("no guard will end the server should this process be killed", "err", err)
	}
}

// release is told that nothing is left.
func (g *processGroup) release() { guard.forget(g.tag) }

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
