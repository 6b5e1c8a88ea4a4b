package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"
)

// A tokenFile has the token in a file.
type tokenFile struct {
	path string

	mu   sync.Mutex
	read stamp  // of the file when it was read
	last *value // nil before
}

// A stamp tells whether a file has changed.
type stamp struct {
	size     int64
	modified time.Time
}

func stampOf(path string) (stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}, reasonOf(err)
	}
	if !info.Mode().IsRegular() {
		return stamp{}, errors.New("it is not a regular file")
	}
	return stamp{info.Size(), info.ModTime()}, nil
}

// current returns the token, which is read if the file has changed.
func (f *tokenFile) current(context.Context) (*value, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, err := stampOf(f.path)
	if err != nil {
		return nil, f.fail(err)
	}
	if f.last != nil && now == f.read {
		return f.last, nil
	}
	return f.load(now)
}

// renew reads the file again: it may have changed within the time that its date tells.
func (f *tokenFile) renew(_ context.Context, refused *value) (*value, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != refused {
		return f.last, nil // it was read meanwhile
	}
	now, err := stampOf(f.path)
	if err != nil {
		return nil, f.fail(err)
	}
	return f.load(now)
}

// load reads the file, whose stamp was taken before. The caller holds mu.
func (f *tokenFile) load(at stamp) (*value, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, f.fail(reasonOf(err))
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxText+1))
	switch {
	case err != nil:
		return nil, f.fail(reasonOf(err))
	case len(text) > maxText:
		return nil, f.fail(fmt.Errorf("it has more than %d bytes", maxText))
	}
	v, err := bearer(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, f.fail(err)
	}
	f.read, f.last = at, v
	return v, nil
}

func (f *tokenFile) fail(err error) error {
	return &fault{fmt.Sprintf("the token file %s cannot be used: %v; put the token there and try again", f.path, err), err}
}

func (f *tokenFile) peek() *value {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.last
}

func (f *tokenFile) close() {}

// reasonOf returns an error of a file without its path.
func reasonOf(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}
