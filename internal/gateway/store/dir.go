package store

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/fileutil"
)

// Defaults of [DirOptions].
const (
	DefaultMaxAge     = 30 * 24 * time.Hour
	DefaultMaxRecords = 65536
)

// DirOptions configures OpenWith. The zero value is ready to use.
type DirOptions struct {
	// MaxAge is how long a record is kept after it was put. Zero means the
	// default; negative means for ever.
	MaxAge time.Duration

	// MaxRecords is how many records of a kind are kept; the oldest go first.
	// There may be more for up to an hour. Zero means the default; negative
	// means no limit.
	MaxRecords int

	// Logger is told of damaged records. If nil, nobody is.
	Logger *slog.Logger
}

// A Dir is a Store in a directory: a folder for each kind and in it a file for
// each record, which only our user can read. A record is replaced as a whole, so
// that whoever is killed in the middle leaves the old one or the new one. After
// a loss of power it may be damaged; a damaged record counts as absent, is set
// aside and reported. Several processes may use one directory.
type Dir struct {
	root    *os.Root
	opts    DirOptions
	damaged atomic.Int64

	close sync.Once
	stop  chan struct{} // ends the sweeper
	done  chan struct{} // it has ended
}

var _ Store = (*Dir)(nil)

// Open opens a store in a directory, which is made if it is not there.
func Open(dir string) (*Dir, error) { return OpenWith(dir, nil) }

// OpenWith is Open with options, which may be nil.
func OpenWith(dir string, opts *DirOptions) (*Dir, error) {
	root, err := fileutil.OpenPrivateDir(dir, fileutil.NoWrite, true)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	d := &Dir{root: root, stop: make(chan struct{}), done: make(chan struct{})}
	if opts != nil {
		d.opts = *opts
	}
	if d.opts.MaxAge == 0 {
		d.opts.MaxAge = DefaultMaxAge
	}
	if d.opts.MaxRecords == 0 {
		d.opts.MaxRecords = DefaultMaxRecords
	}
	d.opts.Logger = cmp.Or(d.opts.Logger, slog.New(slog.DiscardHandler))
	go d.sweeper() // ends with Close
	return d, nil
}

// Close ends the use of the directory. What is kept stays.
func (d *Dir) Close() error {
	var err error
	d.close.Do(func() {
		close(d.stop)
		<-d.done
		err = d.root.Close()
	})
	return err
}

// Damaged returns how many damaged records have been met.
func (d *Dir) Damaged() int64 { return d.damaged.Load() }

// Put implements [Store].
func (d *Dir) Put(kind, key string, record []byte) error {
	if len(record) > MaxRecord {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(record), MaxRecord)
	}
	temp := folder(kind) + "/" + rand.Text() + unfinished
	err := d.write(temp, seal(key, record))
	if errors.Is(err, fs.ErrNotExist) {
		if err = d.root.Mkdir(folder(kind), 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = d.write(temp, seal(key, record))
		}
	}
	if err == nil {
		err = d.root.Rename(temp, file(kind, key))
	}
	if err != nil {
		_ = d.root.Remove(temp) // it may not be there
		return fmt.Errorf("store: the record is not kept: %w", err)
	}
	return nil
}

func (d *Dir) write(file string, text []byte) error {
	f, err := d.root.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// Get implements [Store].
func (d *Dir) Get(kind, key string) (record []byte, ok bool, err error) {
	name := file(kind, key)
	text, at, err := d.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("store: the record cannot be read: %w", err)
	case d.expired(at):
		_ = d.root.Remove(name) // or the sweeper does
		return nil, false, nil
	}
	record, err = unseal(key, text)
	if err != nil {
		d.damaged.Add(1)
		d.opts.Logger.Warn("a record is damaged and counts as absent", "kind", kind, "file", name, "error", err)
		_ = d.root.Rename(name, name+damaged) // else the next Put replaces it
		return nil, false, nil
	}
	return record, true, nil
}

// read returns the content of a file and when it was written.
func (d *Dir) read(name string) (text []byte, at time.Time, err error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, at, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, at, err
	}
	text, err = io.ReadAll(io.LimitReader(f, MaxRecord+maxSeal))
	return text, info.ModTime(), err
}

func (d *Dir) expired(at time.Time) bool {
	return d.opts.MaxAge > 0 && time.Since(at) > d.opts.MaxAge
}

// Delete implements [Store].
func (d *Dir) Delete(kind, key string) error {
	if err := d.root.Remove(file(kind, key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store: the record cannot be deleted: %w", err)
	}
	return nil
}
