//go:build unix

package main

import (
	"io/fs"
	"os"
	"os/signal"
	"syscall"
)

// reloadSignal asks for the configuration to be read again.
var reloadSignal os.Signal = syscall.SIGHUP

// ignoreTerminalStops lets a server that was sent to the background go on: to
// read from the terminal there would stop it, and is an error instead.
func ignoreTerminalStops() { signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU) }

// keepPrivate lets what we and our servers create be nobody else's, unless it is
// said otherwise.
func keepPrivate() { syscall.Umask(0o077) }

// ownedByUs reports whether a file belongs to who runs us.
func ownedByUs(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}
