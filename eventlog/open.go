package eventlog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"slices"
	"time"
)

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
			gone:    func(p place) { p.in.live -= int64(p.size) },
			streams: make(map[string]*stream[place]),
		},
	}
	if f.logger == nil {
		f.logger = slog.New(slog.DiscardHandler)
	}
	if err := f.open(dir); err != nil {
		if f.unlock != nil {
			_ = f.unlock()
		}
		return nil, fmt.Errorf("eventlog: the log in %s cannot be opened: %w", dir, err)
	}
	return f, nil
}

func (f *File) open(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0 {
		return errors.New("others can write to it; use a directory of your own, or chmod 700 it")
	}
	if f.dir, err = os.OpenRoot(dir); err != nil {
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
