package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
)

// reapVariable is set for the process that does the work when we are process 1.
const reapVariable = "DRAGOMAN_REAPED"

// reapOrphans does what process 1 has to do if that is what we are, as in a container:
// processes whose parents have ended become its children, and stay as zombies until it
// waits for them. Our own process waits for no children that it has not started, so it
// is started once more, and the first one passes signals on to it, waits for all others,
// and ends with its status.
func reapOrphans() {
	if os.Getenv(reapVariable) != "" {
		_ = os.Unsetenv(reapVariable) // servers need not know
		return
	}
	if os.Getpid() != 1 {
		return
	}
	status, err := superviseSelf()
	if err != nil {
		fmt.Fprintf(os.Stderr, "dragoman: as process 1 we cannot start ourselves, so zombies may be left: %v\n", err)
		return
	}
	os.Exit(status)
}

// superviseSelf starts this program again and reaps everything until that has ended.
// It returns its status.
func superviseSelf() (status int, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 64)
	signal.Notify(signals) // all of them; SIGCHLD says that somebody has ended
	defer signal.Stop(signals)
	start := func(group *syscall.SysProcAttr) (*exec.Cmd, error) {
		cmd := &exec.Cmd{
			Path: self, Args: os.Args, Env: append(os.Environ(), reapVariable+"=1"),
			Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, SysProcAttr: group,
		}
		err := cmd.Start()
		return cmd, err
	}
	// A terminal gives its signals to all processes of the group in its foreground, so the one
	// that does the work has a group of its own: they reach it once, from there or from us.
	cmd, err := start(&syscall.SysProcAttr{Setpgid: true, Foreground: term.IsTerminal(os.Stdin), Ctty: int(os.Stdin.Fd())})
	if err != nil { // the terminal is not ours to control
		cmd, err = start(&syscall.SysProcAttr{Setpgid: true})
	}
	if err != nil {
		return 0, err
	}
	main := cmd.Process.Pid
	for s := range signals {
		switch s {
		case syscall.SIGCHLD:
			if status, over := reap(main); over {
				return status, nil
			}
		case syscall.SIGURG, syscall.SIGPIPE, syscall.SIGTTIN, syscall.SIGTTOU:
			// Ours: the runtime's, and those about our own writes and terminal.
		default:
			_ = syscall.Kill(main, s.(syscall.Signal)) // it may have just ended
		}
	}
	return 0, nil
}

// reap waits for all children that have ended. If the main one is among them, it returns
// its status, as a shell would.
func reap(main int) (status int, over bool) {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil || pid <= 0:
			return status, over
		case pid == main && ws.Signaled():
			status, over = 128+int(ws.Signal()), true
		case pid == main && ws.Exited():
			status, over = ws.ExitStatus(), true
		}
	}
}
