//go:build unix

package main

import "syscall"

// keepPrivate lets what we and our servers create be nobody else's, unless it is
// said otherwise.
func keepPrivate() { syscall.Umask(0o077) }
