//go:build unix

package main

import (
	"io/fs"
	"os"
	"os/signal"
	"syscall"
	"unsafe"
)

// reloadSignal asks for the configuration to be read again.
var reloadSignal os.Signal = syscall.SIGHUP

// ignoreTerminalStops lets a server that was sent to the background go on: to
// read from the terminal there would stop it, and is an error instead.
func ignoreTerminalStops() { signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU) }

// keepPrivate lets what we and our servers create be nobody else's, unless it is
// said otherwise, until undo is called.
func keepPrivate() (undo func()) {
	before := syscall.Umask(0o077)
	return func() { syscall.Umask(before) }
}

// ownedByUs reports whether a file belongs to who runs us.
func ownedByUs(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}

// isPrivate reports whether nobody else may use a file or look into a directory.
func isPrivate(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 == 0 }

// terminalWidth returns how many characters a line of a terminal has, 0 if that is not
// known, and whether the file is one.
func terminalWidth(f *os.File) (width int, ok bool) {
	var size struct{ rows, columns, x, y uint16 }
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), syscall.TIOCGWINSZ, uintptr(unsafe.Pointer(&size))) //nolint:gosec // the kernel fills it in
	return int(size.columns), errno == 0
}
