package stdio

import (
	"os"
	"syscall"
	"unsafe"
)

// unread returns how many bytes are in a pipe.
func unread(pipe *os.File) (n int, known bool) {
	raw, err := pipe.SyscallConn()
	if err != nil {
		return 0, false
	}
	var count int32
	var errno syscall.Errno
	err = raw.Control(func(fd uintptr) {
		_, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCINQ, uintptr(unsafe.Pointer(&count))) // #nosec G103 -- how ioctl returns a number
	})
	return int(count), err == nil && errno == 0
}
