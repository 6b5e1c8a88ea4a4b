package control

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"syscall"
)

// startedHere reports whether the process at the other end of a socket descends from
// this one. A process whose parents end becomes a child of the keeper of its server, so it
// cannot leave its ancestors behind. One that has ended meanwhile cannot be judged and counts
// as a descendant.
func startedHere(c *net.UnixConn) bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return true
	}
	const peerPIDFD = 77 // SO_PEERPIDFD, since Linux 6.5
	var cred *syscall.Ucred
	handle, credErr := -1, error(nil)
	err = raw.Control(func(fd uintptr) {
		cred, credErr = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
		if n, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, peerPIDFD); err == nil {
			handle = n
		}
	})
	if handle >= 0 {
		defer syscall.Close(handle)
	}
	if err != nil || credErr != nil {
		return true
	}
	if cred.Pid == 0 { // it is outside of our namespace, where nothing of ours can be
		return false
	}
	ours := descends(int(cred.Pid), os.Getpid(), parentOf)
	return ours || handle >= 0 && hasEnded(handle) // the number may be another's by now
}

// hasEnded reports whether the process of a file descriptor has ended.
func hasEnded(handle int) bool {
	const pidfdSendSignal = 424
	_, _, errno := syscall.Syscall6(pidfdSendSignal, uintptr(handle), 0, 0, 0, 0, 0)
	return errno == syscall.ESRCH
}

// descends reports whether a process is another one or a descendant of it. A process
// that cannot be found counts as one.
func descends(pid, ancestor int, parent func(int) (int, error)) bool {
	const attempts = 10 // a process on the way may end meanwhile
	for range attempts {
		at, err := pid, error(nil)
		for at > 1 && at != ancestor && err == nil {
			at, err = parent(at)
		}
		if err == nil {
			return at == ancestor && pid != ancestor
		}
	}
	return true
}

// parentOf returns the parent of a process.
func parentOf(pid int) (int, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		if errors.Is(syscall.Kill(pid, 0), syscall.EPERM) {
			return 0, nil // it is another user's, and hidden from us
		}
		return 0, err
	}
	// The name, in parentheses, may itself have spaces and parentheses.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0, fmt.Errorf("invalid /proc/%d/stat", pid)
	}
	return strconv.Atoi(string(fields[1]))
}
