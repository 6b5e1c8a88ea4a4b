package store

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/util/fileutil"
)

// lockFile is locked by who replaces or deletes a record.
const lockFile = "lock"

// A Dir is [eventlog.Records] in a directory: a folder for each kind and in it a file for
// each record, which only our user can read. A record is replaced as a whole: a process that
// is killed in the middle leaves the old one or the new one. After
// a loss of power it may be damaged; a damaged record counts as absent, is set
// aside and reported. Several processes may use one directory.
type Dir struct {
	root    *os.Root
	opts    Options
	damaged atomic.Int64
	writing sync.Mutex // held with the lock of the directory, while a record is replaced or deleted

	close sync.Once
	stop  chan struct{} // ends the sweeper
	done  chan struct{} // it has ended
}

var _ eventlog.Records = (*Dir)(nil)

// Open opens a store in a directory, which is made if it is not there. opts may be nil.
func Open(dir string, opts *Options) (*Dir, error) {
	root, err := fileutil.OpenPrivateDir(dir, fileutil.NoWrite, true)
	if err != nil {
		return nil, fmt.Errorf("store: %w", err)
	}
	d := &Dir{root: root, opts: opts.withDefaults(), stop: make(chan struct{}), done: make(chan struct{})}
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

// Put implements [eventlog.Records].
func (d *Dir) Put(ctx context.Context, key string, record []byte, expected uint64) (uint64, error) {
	if err := checkSize(record); err != nil {
		return 0, err
	}
	revision, folder := newRevision(), folderOf(key)
	temp := folder + "/" + rand.Text() + unfinished
	text := seal(key, revision, record)
	err := d.write(temp, text)
	if errors.Is(err, fs.ErrNotExist) {
		if err = d.root.Mkdir(folder, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
			err = d.write(temp, text)
		}
	}
	if err == nil {
		err = d.change(ctx, key, expected, func(name string) error { return d.root.Rename(temp, name) })
	}
	if err != nil {
		_ = d.root.Remove(temp) // it may not be there
		return 0, fmt.Errorf("store: the record is not kept: %w", err)
	}
	return revision, nil
}

func checkSize(record []byte) error {
	if len(record) > MaxRecord {
		return fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(record), MaxRecord)
	}
	return nil
}

// change calls act with the name of the file of a key, if that has the expected revision. No other process
// changes a record meanwhile.
func (d *Dir) change(ctx context.Context, key string, expected uint64, act func(name string) error) error {
	d.writing.Lock()
	defer d.writing.Unlock()
	lock, err := d.root.OpenFile(lockFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // which unlocks it
	if err := fileutil.Lock(ctx, lock); err != nil {
		return err
	}
	if expected != eventlog.AnyRevision {
		if _, revision, err := d.Get(ctx, key); err != nil {
			return err
		} else if revision != expected {
			return eventlog.ErrConflict
		}
	}
	return act(fileOf(key))
}

func (d *Dir) write(file string, text []byte) error {
	f, err := d.root.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// Get implements [eventlog.Records].
func (d *Dir) Get(_ context.Context, key string) (record []byte, revision uint64, err error) {
	name := fileOf(key)
	text, at, err := d.read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, nil
	case err != nil:
		return nil, 0, fmt.Errorf("store: the record cannot be read: %w", err)
	case d.expired(at):
		return nil, 0, nil // the sweeper removes it
	}
	record, revision, err = unseal(key, text)
	if err != nil {
		d.damaged.Add(1)
		d.opts.Logger.Warn("a record is damaged and counts as absent", "file", name, "error", err)
		_ = d.root.Rename(name, name+damaged) // else the next Put replaces it
		return nil, 0, nil
	}
	return record, revision, nil
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
	return time.Since(at) > d.opts.MaxAge
}

// Delete implements [eventlog.Records].
func (d *Dir) Delete(ctx context.Context, key string, expected uint64) error {
	err := d.change(ctx, key, expected, func(name string) error { return d.root.Remove(name) })
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("store: the record cannot be deleted: %w", err)
	}
	return nil
}
