//go:build unix

package serve

import (
	"os"
	"os/signal"
	"syscall"
)

// reloadSignal asks for the configuration to be read again.
var reloadSignal os.Signal = syscall.SIGHUP

// ignoreTerminalStops lets a server that was sent to the background continue: to
// read from the terminal there would stop it, and is an error instead.
func ignoreTerminalStops() { signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU) }

// keepPrivate lets what we and our servers create be nobody else's, unless it is
// said otherwise, until undo is called.
func keepPrivate() (undo func()) {
	before := syscall.Umask(0o077)
	return func() { syscall.Umask(before) }
}
