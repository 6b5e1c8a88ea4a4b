//go:build unix

package control

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// ownedByUs reports whether a file belongs to who runs us.
func ownedByUs(info fs.FileInfo) bool {
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(s.Uid) == os.Getuid()
}

// running reports whether there is a process of that number.
func running(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// isPrivate reports whether nobody else may use a file or look into a directory.
func isPrivate(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 == 0 }
