//go:build unix

package credential

import (
	"os/exec"
	"syscall"
)

// ownGroup has a command end together with what it has started.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
