//go:build unix

package term

import (
	"os"
	"syscall"
	"unsafe"
)

// terminalWidth returns how many characters a line of a terminal has, 0 if that is not
// known, and whether the file is one.
func terminalWidth(f *os.File) (width int, ok bool) {
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size))) //nolint:gosec // the kernel fills it in
	return int(size.columns), errno == 0
}
