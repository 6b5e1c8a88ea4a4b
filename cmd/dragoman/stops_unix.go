//go:build unix

package main

import (
	"os/signal"
	"syscall"
)

// ignoreTerminalStops lets a server that was sent to the background go on: to
// read from the terminal there would stop it, and is an error instead.
func ignoreTerminalStops() { signal.Ignore(syscall.SIGTTIN, syscall.SIGTTOU) }
