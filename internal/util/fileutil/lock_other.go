//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd || windows)

package fileutil

import "os"

// TryLock does nothing where the standard library has no locks on files.
func TryLock(*os.File) error { return nil }
