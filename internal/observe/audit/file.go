package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/fileutil"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
)

// A file is the log on the disk: the file that is written, those that were before it, and
// the head beside it. Open and the goroutine of the log use it, and nobody else.
//
// The head says where the chain has come to. It is written after the records, so
// that the file may be ahead of it and never behind: a file that is behind was cut. It
// is the file that is locked, too, because the other one changes.
type file struct {
	path string
	head *os.File

	now   *os.File // nil if it has to be opened
	size  int64    // up to the end of the last record
	first uint64   // its first record; zero if there is none
	began time.Time
	chain chain
	found []Event // what is to be written down about what was found
	noEnd bool    // its last line has no end

	writeAt func(*os.File, []byte, int64) (int, error)
}

// ErrInUse says that another process writes the file.
var ErrInUse = errors.New("another process writes it; give each its own file")

// headStart is where the text of the head begins: other processes cannot read the byte that is
// locked on Windows.
const headStart = 1

// openFile opens a log and finds where it continues.
func openFile(path string) (*file, error) {
	f := &file{path: path, writeAt: (*os.File).WriteAt}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	head, err := os.OpenFile(headName(path), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	f.head = head
	if err := fileutil.TryLock(head); err != nil {
		_ = head.Close()
		if errors.Is(err, fileutil.ErrLocked) {
			err = ErrInUse
		}
		return nil, err
	}
	if err := f.open(); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func headName(path string) string { return path + ".head" }

// readHead returns where the chain had come to. It is zero if that is not known.
func readHead(head *os.File) (at chain) {
	text := make([]byte, 256)
	n, _ := head.ReadAt(text, headStart) // what is missing is not read
	if json.Unmarshal(text[:n], &at) != nil || len(at.Hash) != hashLength {
		return chain{}
	}
	return at
}

// writeHead says where the chain has come to. A head that is behind does no harm.
func (f *file) writeHead() {
	text := fmt.Sprintf("\n{\"seq\":%20d,\"hash\":%q}\n", f.chain.Seq, f.chain.prev()) // as long as the one before
	_, _ = f.head.WriteAt([]byte(text), 0)
}

// open opens the file that is written, and finds its end.
func (f *file) open() error {
	now, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := now.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("it is not a regular file")
	}
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = now.Chmod(0o600)
	}
	if err == nil {
		err = f.resume(now, info.Size())
	}
	if err != nil {
		return errors.Join(err, now.Close())
	}
	f.now = now
	return nil
}

// errGone says that what was written is not in the file that readers find.
var errGone = errors.New("the file was replaced, deleted or cut while it was written")

// has returns errGone if the file that is written is not the one at its path, or is shorter than size.
func (f *file) has(size int64) error {
	there, err := os.Stat(f.path)
	ours, ourErr := f.now.Stat()
	if err != nil || ourErr != nil || !os.SameFile(there, ours) || there.Size() < size {
		return errGone
	}
	return nil
}

// write writes events behind what there is, all or none. rotate says when to begin a new file.
func (f *file) write(buf []byte, events []Event, rotate *Options) ([]byte, error) {
	now := time.Now()
	if f.now != nil && f.has(f.size) != nil {
		f.leave()
	}
	if f.now == nil {
		if err := f.open(); err != nil {
			return buf, err
		}
	}
	next, text := f.encode(buf[:0], events)
	tooOld := rotate.MaxAge > 0 && now.Sub(f.began) >= rotate.MaxAge
	if f.first > 0 && (tooOld || f.size+int64(len(text)) > rotate.MaxSize) {
		if err := f.rotate(rotate.Keep); err != nil {
			return text, fmt.Errorf("rotate: %w", err)
		}
		next, text = f.encode(text[:0], events)
	}
	n, err := f.writeAt(f.now, text, f.size)
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = f.has(f.size + int64(len(text)))
	}
	if err != nil {
		// What was written of it would be a torn line. If it stays, the next attempt
		// overwrites it, or the next start marks it.
		if info, failed := f.now.Stat(); failed == nil && info.Size() > f.size { // else zeros would be added
			_ = f.now.Truncate(f.size)
		}
		if errors.Is(err, errGone) {
			f.leave()
		}
		return text, err
	}
	if f.first == 0 {
		f.first, f.began = f.chain.Seq+1, now
	}
	f.size, f.chain, f.found, f.noEnd = f.size+int64(len(text)), next, nil, false
	f.writeHead()
	return text, nil
}

// leave closes a file that is somebody else's now. The next write opens another.
func (f *file) leave() {
	_ = f.now.Close()
	f.now = nil
}

// encode returns events as lines, behind what there is to say about the file, and
// where the chain will be then.
func (f *file) encode(buf []byte, events []Event) (chain, []byte) {
	next := f.chain
	if f.noEnd {
		buf = append(buf, '\n')
	}
	for i := range f.found {
		buf = next.append(buf, &f.found[i])
	}
	if f.first == 0 {
		oldest := f.chain.Seq + 1
		if old := rotated(f.path); len(old) > 0 {
			oldest = old[0].first
		}
		buf = next.append(buf, &Event{Kind: FileBegun, Time: time.Now(), Oldest: oldest})
	}
	for i := range events {
		buf = next.append(buf, &events[i])
	}
	return next, buf
}

// rotate puts the file aside and begins another, and removes the oldest ones.
func (f *file) rotate(keep int) error {
	if err := f.now.Sync(); err != nil {
		return err
	}
	_ = f.now.Close() // it is synced
	f.now = nil
	if err := os.Rename(f.path, rotatedName(f.path, f.first)); err != nil {
		return err // and it is opened again
	}
	if old := rotated(f.path); len(old) > keep {
		for _, r := range old[:len(old)-keep] {
			_ = os.Remove(r.path) // it is tried again with the next one
		}
	}
	f.size, f.first = 0, 0
	return f.open()
}

func (f *file) close() (err error) {
	if f.now != nil {
		err = errors.Join(f.now.Sync(), f.now.Close())
	}
	return errors.Join(err, f.head.Close())
}

// A rotatedFile is one that was put aside. Its name has the number of its first record.
type rotatedFile struct {
	path  string
	first uint64
}

var rotatedSuffix = lazy.Regexp(`^\.(\d{12,20})$`)

func rotatedName(path string, first uint64) string { return fmt.Sprintf("%s.%012d", path, first) }

// rotated returns the files that were put aside, oldest first.
func rotated(path string) (list []rotatedFile) {
	entries, _ := os.ReadDir(filepath.Dir(path)) // no directory has no files
	base := filepath.Base(path)
	for _, e := range entries {
		name := e.Name()
		if len(name) <= len(base) || name[:len(base)] != base {
			continue
		}
		if m := rotatedSuffix().FindStringSubmatch(name[len(base):]); m != nil {
			first, _ := strconv.ParseUint(m[1], 10, 64)
			list = append(list, rotatedFile{filepath.Join(filepath.Dir(path), name), first})
		}
	}
	slices.SortFunc(list, func(a, b rotatedFile) int { return int(int64(a.first - b.first)) })
	return list
}
