//go:build unix && !linux

package stdio

import (
	"errors"
	"log/slog"
	"os"
	"syscall"
	"time"
)

// newProcAttr returns how a server is started: in a group of its own. account
// is what its environment says of who it is.
func newProcAttr(who string) (attr *syscall.SysProcAttr, account []string, err error) {
	attr = &syscall.SysProcAttr{Setpgid: true}
	if who != "" {
		attr.Credential, account, err = credentialOf(who)
	}
	return attr, account, err
}

// awaitExit reports that it cannot wait without reaping.
func awaitExit(int) bool { return false }

// A family is a server's process and its group. Processes that left the group
// cannot be found on these systems.
type family struct{ pgid int }

func newFamily(string, *slog.Logger) *family { return &family{} }

// adopt is told the process once it has started.
func (f *family) adopt(p *os.Process) error {
	f.pgid = p.Pid
	return nil
}

// release is told that nothing is left.
func (f *family) release() {}

// ask asks the group to end.
func (f *family) ask() { _ = f.signal(syscall.SIGTERM) }

// kill ends the group.
func (f *family) kill() { _ = f.signal(syscall.SIGKILL) }

func (f *family) signal(sig syscall.Signal) error {
	if f.pgid == 0 {
		return syscall.ESRCH
	}
	return syscall.Kill(-f.pgid, sig)
}

// alive reports whether anybody in the group lives. On macOS a group of which
// only zombies are left is one that may not be signalled.
func (f *family) alive() bool {
	err := f.signal(0)
	return err == nil || !errors.Is(err, syscall.ESRCH) && !errors.Is(err, syscall.EPERM)
}

// sweep kills the group until nobody is left, for at most d, and reports whether
// nobody is.
func (f *family) sweep(d time.Duration) bool {
	end := time.Now().Add(d)
	for pause := time.Millisecond; f.alive(); pause = min(2*pause, 20*time.Millisecond) {
		f.kill()
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}
