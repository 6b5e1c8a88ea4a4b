package stdio

import (
	"errors"
	"fmt"
	"syscall"
	"time"
	"unsafe"
)

const haveLimits = true

// apply puts the limits on a process that has just been started.
func (l ResourceLimits) apply(pid int) error {
	if l.Memory > 0 {
		if err := setLimit(pid, syscall.RLIMIT_AS, uint64(l.Memory), uint64(l.Memory)); err != nil {
			return fmt.Errorf("limit memory to %d bytes: %w", l.Memory, err)
		}
	}
	if l.OpenFiles > 0 {
		if err := setLimit(pid, syscall.RLIMIT_NOFILE, uint64(l.OpenFiles), uint64(l.OpenFiles)); err != nil {
			return fmt.Errorf("limit open files to %d: %w", l.OpenFiles, err)
		}
	}
	if l.CPUTime > 0 {
		// SIGXCPU comes at the first number and may be ignored, SIGKILL at the second.
		seconds := uint64((l.CPUTime + time.Second - 1) / time.Second)
		if err := setLimit(pid, syscall.RLIMIT_CPU, seconds, seconds+1); err != nil {
			return fmt.Errorf("limit processor time to %d s: %w", seconds, err)
		}
	}
	return nil
}

func setLimit(pid, resource int, soft, hard uint64) error {
	limit := struct{ soft, hard uint64 }{soft, hard}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(resource), uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	if errno == 0 || errors.Is(errno, syscall.ESRCH) { // it has ended already
		return nil
	}
	return errno
}
