package fileutil

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Stamp is the size and the time of a file: two that differ say that it has changed.
type Stamp struct {
	size     int64
	modified time.Time
}

// BeingWritten reports whether the file has just been emptied, as it is by who writes it
// again without a file beside it.
func (s Stamp) BeingWritten() bool { return s.size == 0 && time.Since(s.modified) < time.Second }

// StampOf returns that of a file as it is now. The error does not name the file.
func StampOf(path string) (Stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Stamp{}, LoadError(err)
	}
	if !info.Mode().IsRegular() {
		return Stamp{}, errors.New("it is not a regular file")
	}
	return Stamp{info.Size(), info.ModTime()}, nil
}

// LoadError returns an error of a file without its path.
func LoadError(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// A Reloaded is a value that is made of files. Any number of goroutines may get it.
type Reloaded[T any] struct {
	files  []string
	load   func() (T, error)
	failed func(error)

	now atomic.Pointer[T]

	mu   sync.Mutex // held while the files are looked at
	seen []Stamp    // of the files when they were last read; guarded by mu
}

// NewReloaded reads the files. When they have changed and load fails, as when one of two that
// belong together has been written and not the other, failed is told, once for each
// change, and the value from before stays. failed may be nil.
func NewReloaded[T any](load func() (T, error), failed func(error), files ...string) (*Reloaded[T], error) {
	v := &Reloaded[T]{files: files, load: load, failed: failed}
	var err error
	if v.seen, err = v.stamps(); err != nil {
		return nil, err
	}
	first, err := load()
	if err != nil {
		return nil, err
	}
	v.now.Store(&first)
	return v, nil
}

// Get returns the value, which is made again if its files have changed. While another
// goroutine does that, it is the one from before: nobody waits for a file.
func (v *Reloaded[T]) Get() T {
	if !v.mu.TryLock() {
		return *v.now.Load()
	}
	defer v.mu.Unlock()
	stamps, err := v.stamps()
	if slices.Equal(stamps, v.seen) {
		return *v.now.Load()
	}
	v.seen = stamps
	var next T
	if err == nil {
		next, err = v.load()
	}
	switch {
	case err == nil:
		v.now.Store(&next)
	case v.failed != nil:
		v.failed(err)
	}
	return *v.now.Load()
}

// stamps looks at the files. Those behind one that cannot be looked at are left out.
func (v *Reloaded[T]) stamps() (list []Stamp, err error) {
	for _, name := range v.files {
		at, err := StampOf(name)
		if err != nil {
			return append(list, Stamp{}), fmt.Errorf("%s: %w", name, err)
		}
		list = append(list, at)
	}
	return list, nil
}
