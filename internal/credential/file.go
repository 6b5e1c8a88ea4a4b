package credential

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/reread"
)

// A tokenFile has the token in a file.
type tokenFile struct {
	path string

	mu   sync.Mutex
	read reread.Stamp // of the file when it was read
	last *value       // nil before
}

// current returns the token, which is read if the file has changed and nobody is about to
// write it.
func (f *tokenFile) current(context.Context) (*value, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, err := reread.StampOf(f.path)
	if err != nil {
		return nil, f.fail(err)
	}
	if f.last != nil && (now == f.read || now.BeingWritten()) {
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
	now, err := reread.StampOf(f.path)
	if err != nil {
		return nil, f.fail(err)
	}
	return f.load(now)
}

// load reads the file, whose reread.Stamp was taken before. The caller holds mu.
func (f *tokenFile) load(at reread.Stamp) (*value, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, f.fail(reread.Reason(err))
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxText+1))
	switch {
	case err != nil:
		return nil, f.fail(reread.Reason(err))
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
