package eventlog

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// A segment is one file of a File. Records are added to the newest alone.
type segment struct {
	number int64
	file   *os.File
	size   int64 // guarded by File.writing
	live   int64 // bytes of events that are kept; guarded by File.mu
}

// A place is where the record of an event is.
type place struct {
	in       *segment
	at       int64
	size     int // of the record
	head     int // of it, what is before the event
	position int64
}

const segmentSuffix = ".log"

func segmentName(number int64) string { return fmt.Sprintf("%016x%s", number, segmentSuffix) }

// segmentNumber returns the number in the name of a segment.
func segmentNumber(name string) (int64, bool) {
	text, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok || len(text) != 16 {
		return 0, false
	}
	n, err := strconv.ParseInt(text, 16, 64)
	return n, err == nil && n > 0
}

// newest is the segment that is written to. writing is held.
func (f *File) newest() *segment { return f.segments[len(f.segments)-1] }

// roll begins another segment. writing is held.
func (f *File) roll() error {
	number := int64(1)
	if len(f.segments) > 0 {
		number = f.newest().number + 1
	}
	file, err := f.dir.OpenFile(segmentName(number), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	f.segments = append(f.segments, &segment{number: number, file: file})
	f.torn = false
	return nil
}

// write adds the text of a record to the newest segment, and returns where it is.
// What has been written in part is taken back. writing is held.
func (f *File) write(text []byte, head int, position int64) (place, error) {
	if s := f.newest(); f.torn || s.size > 0 && s.size+int64(len(text)) > f.segmentSize {
		if err := f.roll(); err != nil {
			return place{}, err
		}
	}
	s := f.newest()
	if _, err := f.writeAt(s.file, text, s.size); err != nil {
		if terr := s.file.Truncate(s.size); terr != nil {
			f.torn = true // what is there is skipped as not whole
			err = errors.Join(err, terr)
		}
		return place{}, err
	}
	p := place{in: s, at: s.size, size: len(text), head: head, position: position}
	s.size += int64(len(text))
	f.disk += int64(len(text))
	return p, nil
}

// remove deletes the oldest segment, which must not be the newest too. Nothing
// that is kept may be in it. writing is held.
func (f *File) remove() error {
	if err := f.saveFloor(); err != nil {
		return err
	}
	s := f.segments[0]
	f.segments = f.segments[1:]
	f.disk -= s.size
	// Who reads it just now finds what was moved, or that it is lost.
	return errors.Join(s.file.Close(), f.dir.Remove(segmentName(s.number)))
}
