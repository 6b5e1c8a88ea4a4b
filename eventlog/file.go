package eventlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/fileutil"
)

// FileOptions configures Open. The zero value is ready to use. In each limit zero
// means the default and a negative number means no limit; they are those of
// [MemoryOptions].
type FileOptions struct {
	MaxEvents, MaxBytes, MaxTotalBytes int
	TTL                                time.Duration

	// Logger is told what is found damaged and what cannot be deleted; who
	// appends is told what cannot be written. If nil, nobody is.
	Logger *slog.Logger
}

// File is a [Log] in files, which the next process finds again: events within
// the limits, and how far each stream had come, so that no position is given out
// twice. Of an event that a process was killed in the middle of writing nothing
// is left; Append had not returned.
//
// What Append has returned is with the operating system and outlives a kill of
// this process, also by SIGKILL. It is not forced to the disk: after a crash of
// the whole machine newer events may be missing. If what is left shows that, all
// events count as lost.
//
// If an event cannot be written, Append fails, and its stream has lost that event
// and all before it: a client that resumes behind one of those is told. The disk
// holds about twice what is kept; it starts no goroutine, so events that are too
// old go when it is next used.
type File struct {
	dir         *os.Root
	logger      *slog.Logger
	unlock      func() error
	segmentSize int64
	writeAt     func(*os.File, []byte, int64) (int, error)

	writing       sync.Mutex // held by who writes; taken before mu
	segments      []*segment // oldest first
	disk          int64      // their bytes
	cleanupFailed bool       // what is not needed cannot be deleted, and that was said
	torn          bool       // the newest ends with something that could not be taken back
	text          []byte     // of the record that is being written
	floor         floorFile
	closed        bool

	mu    sync.Mutex // never held while a file is used
	index index[place]
}

var _ Log = (*File)(nil)

var errClosed = errors.New("eventlog: the log is closed")

// maxText is how much of a buffer for records is kept for the next one.
const maxText = 1 << 20

// Close ends the use of the files. What is kept stays.
func (f *File) Close() error {
	f.writing.Lock()
	defer f.writing.Unlock()
	if f.closed {
		return nil
	}
	f.closed = true
	var err error
	for _, s := range f.segments {
		err = errors.Join(err, s.file.Close())
	}
	return errors.Join(err, f.floor.close(), f.dir.Close(), f.unlock())
}

// Append implements [Log]. It does not wait for others than those who write, so
// it ignores ctx.
func (f *File) Append(_ context.Context, name string, after int64, event []byte) (int64, error) {
	f.writing.Lock()
	defer f.writing.Unlock()
	switch {
	case f.closed:
		return 0, errClosed
	case len(name) > maxName:
		return 0, fmt.Errorf("eventlog: the name of the stream has %d bytes, at most %d", len(name), maxName)
	}
	now := time.Now()
	f.mu.Lock()
	f.index.expire(now)
	s, err := f.index.begin(name, after)
	if err != nil {
		f.mu.Unlock()
		return 0, err
	}
	r := record{kind: isEvent, position: s.last + 1, at: now, stream: name, event: event}
	f.mu.Unlock()
	f.text = r.appendTo(f.text[:0])
	p, err := f.write(f.text, head(name), r.position)
	if cap(f.text) > maxText {
		f.text = nil
	}
	if err != nil {
		return 0, fmt.Errorf("eventlog: the event is not kept: %w", f.fail(s, err))
	}
	f.mu.Lock()
	f.keepKnown(s)
	p.in.live += int64(p.size)
	f.index.add(s, p, now)
	f.mu.Unlock()
	err = f.compact()
	if err != nil && !f.cleanupFailed {
		f.logger.Warn("old events stay on the disk", "error", err)
	}
	f.cleanupFailed = err != nil
	return r.position, nil
}

// keepKnown makes sure that a stream is still known: it may have been forgotten as
// one without events while its next was written. mu is held.
func (f *File) keepKnown(s *stream[place]) {
	if f.index.streams[s.name] != s {
		f.index.addEmpty(s)
	}
}

// fail notes that the next event of a stream could not be written, and returns the
// reason with all that fails besides. writing is held.
func (f *File) fail(s *stream[place], reason error) error {
	f.mu.Lock()
	f.keepKnown(s)
	f.index.lose(s, s.last+1)
	newest := s.newest
	f.mu.Unlock()
	if newest.in != nil {
		if _, err := newest.in.file.WriteAt([]byte{1}, newest.at+flagAt); err != nil {
			reason = fmt.Errorf("%w; that its stream is lost cannot be written either: %w", reason, err)
		}
	}
	if err := f.reclaim(); err != nil {
		reason = fmt.Errorf("%w; no room is made on the disk: %w", reason, err)
	}
	return reason
}

// After implements [Log].
func (f *File) After(_ context.Context, name string, position int64) ([][]byte, error) {
	for {
		f.mu.Lock()
		f.index.expire(time.Now())
		places, err := f.index.after(name, position)
		f.mu.Unlock()
		if err != nil {
			return nil, err
		}
		events, err := read(places)
		if !errors.Is(err, os.ErrClosed) {
			return events, err
		}
		if f.isClosed() {
			return nil, errClosed
		}
		// Events were moved meanwhile; where they are now the index knows.
	}
}

func (f *File) isClosed() bool {
	f.writing.Lock()
	defer f.writing.Unlock()
	return f.closed
}

// read returns the events at places.
func read(places []place) ([][]byte, error) {
	events := make([][]byte, len(places))
	for i, p := range places {
		text := make([]byte, p.size)
		if _, err := p.in.file.ReadAt(text, p.at); err != nil {
			return nil, fmt.Errorf("eventlog: events cannot be read: %w", err)
		}
		if _, err := parseRecord(text); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrLost, err)
		}
		events[i] = text[p.head:]
	}
	return events, nil
}

// Drop implements [Log].
func (f *File) Drop(_ context.Context, name string) error {
	f.writing.Lock()
	defer f.writing.Unlock()
	if f.closed {
		return errClosed
	}
	f.mu.Lock()
	f.index.expire(time.Now())
	written := f.index.streams[name] != nil && f.index.streams[name].newest.in != nil
	f.index.drop(name)
	f.mu.Unlock()
	if !written {
		return nil
	}
	r := record{kind: isDrop, at: time.Now(), stream: strings.Clone(name)}
	if _, err := f.write(r.appendTo(nil), head(name), 0); err != nil {
		return fmt.Errorf("eventlog: that a stream is dropped cannot be written: %w", err)
	}
	return nil
}

// Bounds of the size of a segment.
const (
	minSegment = 64 << 10
	maxSegment = 64 << 20
)

// ErrInUse says that another log has the directory open.
var ErrInUse = errors.New("eventlog: the directory is in use by another process")

// Open opens the log in a directory, which is made if it is not there. One log at
// a time can be open in a directory. opts may be nil.
func Open(dir string, opts *FileOptions) (*File, error) {
	if opts == nil {
		opts = &FileOptions{}
	}
	limits := (&MemoryOptions{MaxEvents: opts.MaxEvents, MaxBytes: opts.MaxBytes, MaxTotalBytes: opts.MaxTotalBytes, TTL: opts.TTL}).withDefaults()
	f := &File{
		logger:      opts.Logger,
		segmentSize: int64(min(max(limits.MaxTotalBytes/8, minSegment), maxSegment)),
		writeAt:     (*os.File).WriteAt,
		index: index[place]{
			limits: limits, marks: true,
			cost:    func(p place) int { return p.size },
			evicted: func(p place) { p.in.live -= int64(p.size) },
			streams: make(map[string]*stream[place]),
		},
	}
	f.logger = cmp.Or(f.logger, slog.New(slog.DiscardHandler))
	if err := f.open(dir); err != nil {
		if f.unlock != nil {
			_ = f.unlock()
		}
		return nil, fmt.Errorf("eventlog: the log in %s cannot be opened: %w", dir, err)
	}
	return f, nil
}

func (f *File) open(dir string) error {
	var err error
	if f.dir, err = fileutil.OpenPrivateDir(dir, fileutil.NoWrite, true); err != nil {
		return err
	}
	if f.unlock, err = lock(f.dir); err != nil {
		return err
	}
	if f.index.floor, err = f.floor.open(f.dir); err != nil {
		return err
	}
	if err := f.openSegments(); err != nil {
		return err
	}
	if err := f.recover(time.Now()); err != nil {
		return err
	}
	if len(f.segments) == 0 {
		return f.roll()
	}
	return nil
}

// lock keeps others from using the directory.
func lock(dir *os.Root) (unlock func() error, err error) {
	file, err := dir.OpenFile("lock", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := fileutil.TryLock(file); err != nil {
		_ = file.Close()
		if errors.Is(err, fileutil.ErrLocked) {
			return nil, ErrInUse
		}
		return nil, err
	}
	return file.Close, nil
}

// openSegments opens the files that are there.
func (f *File) openSegments() error {
	entries, err := fs.ReadDir(f.dir.FS(), ".")
	if err != nil {
		return err
	}
	for _, e := range entries {
		number, ok := segmentNumber(e.Name())
		if !ok || !e.Type().IsRegular() {
			continue
		}
		file, err := f.dir.OpenFile(e.Name(), os.O_RDWR, 0)
		if err != nil {
			return err
		}
		s := &segment{number: number, file: file}
		f.segments = append(f.segments, s)
		info, err := file.Stat()
		if err != nil {
			return err
		}
		s.size = info.Size()
		f.disk += s.size
	}
	slices.SortFunc(f.segments, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	return nil
}
