package oauth

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman/internal/util/fileutil"
)

// files are those of a store.
type files interface {
	read(name string) ([]byte, error) // fs.ErrNotExist if it is not there
	write(name string, text []byte) error
	remove(name string) error
	names() ([]string, error)

	// open returns a file to lock; nil if there are no other processes.
	open(name string) (*os.File, error)
	close() error
}

// openRoot opens a directory that only its user can look into. It is made if it is not there
// and make says so.
func openRoot(dir string, make bool) (*os.Root, error) {
	root, err := fileutil.OpenPrivateDir(dir, fileutil.NoAccess, make)
	if err != nil {
		return nil, fmt.Errorf("oauth: the directory for sign-ins: %w", err)
	}
	return root, nil
}

// A directory has files that only its user can read. It may be deleted while we have it
// open: then it is made again when something is to be written, and the one that somebody
// else has made is used.
type directory struct {
	path string
	root atomic.Pointer[os.Root]

	mu     sync.Mutex // of who replaces root
	closed bool       // guarded by mu
}

func newDirectory(root *os.Root, path string) *directory {
	d := &directory{path: path}
	d.root.Store(root)
	return d
}

// do does something in the directory: once more if something is not there because the
// directory is not any more. It makes the directory if make says so.
func (d *directory) do(make bool, f func(*os.Root) error) error {
	root := d.root.Load()
	err := f(root)
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrClosed) {
		return err
	}
	switch replaced, failed := d.replace(root, make); {
	case failed != nil:
		return failed
	case !replaced:
		return err
	}
	return f(d.root.Load())
}

// replace opens the directory again if old is not the one at our path any more, and reports
// whether there is another one. It holds a lock meanwhile, which nobody else wants.
func (d *directory) replace(old *os.Root, make bool) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.root.Load() != old {
		return !d.closed, nil
	}
	there, err := os.Stat(d.path)
	if err != nil && !make {
		return false, nil //nolint:nilerr // what is not there has no files
	}
	if here, failed := old.Stat("."); err == nil && failed == nil && os.SameFile(here, there) {
		return false, nil
	}
	root, err := openRoot(d.path, make)
	if err != nil {
		return false, err
	}
	d.root.Store(root)
	_ = old.Close() // who uses it now tries again
	return true, nil
}

func (d *directory) read(name string) (text []byte, err error) {
	err = d.do(false, func(root *os.Root) error {
		text, err = fileutil.ReadPrivateFile(root, name, maxFile)
		return err
	})
	return text, err
}

// write replaces a file as a whole.
func (d *directory) write(name string, text []byte) error {
	return d.do(true, func(root *os.Root) error {
		temp := name + "." + rand.Text() + ".new"
		err := createFile(root, temp, text)
		if err == nil {
			err = root.Rename(temp, name)
		}
		if err != nil {
			_ = root.Remove(temp) // it may not be there
		}
		return err
	})
}

// createFile writes a file that outlives a loss of power: a rotated token that is lost means
// another sign-in.
func createFile(root *os.Root, name string, text []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

func (d *directory) remove(name string) error {
	return d.do(false, func(root *os.Root) error { return root.Remove(name) })
}

func (d *directory) names() ([]string, error) {
	var names []string
	err := d.do(false, func(root *os.Root) error {
		entries, err := fs.ReadDir(root.FS(), ".")
		names = names[:0]
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // the directory itself is not there
	}
	return names, err
}

func (d *directory) open(name string) (f *os.File, err error) {
	err = d.do(true, func(root *os.Root) error {
		f, err = root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		return err
	})
	return f, err
}

func (d *directory) close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return d.root.Load().Close()
}

// A memory has files for this process alone.
type memory struct {
	mu   sync.Mutex
	text map[string][]byte
}

func (m *memory) read(name string) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text, ok := m.text[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return text, nil
}

func (m *memory) write(name string, text []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.text[name] = text
	return nil
}

func (m *memory) remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.text, name)
	return nil
}

func (m *memory) names() ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Keys(m.text)), nil
}

func (m *memory) open(string) (*os.File, error) { return nil, nil }

func (m *memory) close() error { return nil }
