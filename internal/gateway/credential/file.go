package credential

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/fileutil"
)

// A tokenFile has the token in a file.
type tokenFile struct {
	path string

	mu   sync.Mutex
	read fileutil.Stamp // of the file when it was read
	last *value         // nil before
}

// rewriteInterval is how long a token file that was emptied a moment ago has until it is read again.
const rewriteInterval = 10 * time.Millisecond

// errBeingWritten says that the file is empty because its new content is being written.
var errBeingWritten = errors.New("it is being written")

// current returns the token, which is read if the file has changed. While the file is being written it is the
// one from before.
func (f *tokenFile) current(context.Context) (*value, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, err := fileutil.StampOf(f.path)
	if err != nil {
		return nil, f.fail(err)
	}
	if f.last != nil && (now == f.read || now.BeingWritten()) {
		return f.last, nil
	}
	v, err := f.load(now)
	if errors.Is(err, errBeingWritten) {
		return f.last, nil
	}
	return v, err
}

// renew reads the file again: it may have changed within the time that its date tells. It waits while the file
// is being written, which is a second at most.
func (f *tokenFile) renew(ctx context.Context, refused *value) (*value, error) {
	for {
		v, err := f.reload(refused)
		if !errors.Is(err, errBeingWritten) {
			return v, err
		}
		select {
		case <-ctx.Done():
			return refused, nil
		case <-time.After(rewriteInterval):
		}
	}
}

// reload reads the file, unless that was done since the refused token was read.
func (f *tokenFile) reload(refused *value) (*value, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.last != refused {
		return f.last, nil
	}
	now, err := fileutil.StampOf(f.path)
	if err != nil {
		return nil, f.fail(err)
	}
	return f.load(now)
}

// load reads the file, whose reread.Stamp was taken before. The error is errBeingWritten if there is a token from
// before, and the file was emptied a moment ago. The caller holds mu.
func (f *tokenFile) load(at fileutil.Stamp) (*value, error) {
	file, err := os.Open(f.path)
	if err != nil {
		return nil, f.fail(fileutil.LoadError(err))
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxText+1))
	switch {
	case err != nil:
		return nil, f.fail(fileutil.LoadError(err))
	case len(text) > maxText:
		return nil, f.fail(fmt.Errorf("it has more than %d bytes", maxText))
	case len(text) == 0 && f.last != nil:
		if now, failed := fileutil.StampOf(f.path); failed == nil && (now != at || now.BeingWritten()) {
			return nil, errBeingWritten
		}
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
