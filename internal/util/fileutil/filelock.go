package fileutil

import (
	"context"
	"errors"
	"os"
	"time"
)

// ErrLocked says that another process, or another place of this one, holds the lock.
var ErrLocked = errors.New("fileutil: the file is locked")

// Bounds of the wait between two attempts.
const (
	minWait = 5 * time.Millisecond
	maxWait = 100 * time.Millisecond
)

// Lock locks a file as soon as nobody else holds the lock. Systems have no way to wait
// for that which ends with a context, so it tries again and again.
func Lock(ctx context.Context, f *os.File) error {
	for wait := minWait; ; wait = min(2*wait, maxWait) {
		err := TryLock(f)
		if !errors.Is(err, ErrLocked) {
			return err
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
	}
}
