//go:build unix && !linux

package stdio

import (
	"errors"
	"os"
	"syscall"
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

// A processGroup is a server's process and its group. Processes that left the group
// cannot be found on these systems.
type processGroup struct{ pgid int }

func newProcessGroup(string) *processGroup { return &processGroup{} }

// setProcess is told the process once it has started.
func (g *processGroup) setProcess(p *os.Process) error {
	g.pgid = p.Pid
	return nil
}

// setServer does nothing: the process that is started is the server.
func (g *processGroup) setServer(int) {}

// release is told that nothing is left.
func (g *processGroup) release() {}

// terminate asks the group to end.
func (g *processGroup) terminate() { _ = g.signal(syscall.SIGTERM) }

// kill ends the group.
func (g *processGroup) kill() { _ = g.signal(syscall.SIGKILL) }

func (g *processGroup) signal(sig syscall.Signal) error {
	if g.pgid == 0 {
		return syscall.ESRCH
	}
	return syscall.Kill(-g.pgid, sig)
}

// alive reports whether anybody in the group lives. On macOS a group of which
// only zombies are left is one that may not be signalled.
func (g *processGroup) alive() bool {
	err := g.signal(0)
	return err == nil || !errors.Is(err, syscall.ESRCH) && !errors.Is(err, syscall.EPERM)
}
