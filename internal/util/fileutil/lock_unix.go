//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fileutil

import (
	"errors"
	"os"
	"syscall"
)

// TryLock locks a file until it is closed, or returns [ErrLocked].
func TryLock(f *os.File) error {
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrLocked
		}
		return err
	}
}
