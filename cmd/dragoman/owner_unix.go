//go:build unix

package main

import (
	"io/fs"
	"os"
	"syscall"
)

// ownedByUs reports whether a file belongs to who runs us.
func ownedByUs(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}
