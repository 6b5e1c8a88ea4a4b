package eventlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
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

// A record in a file is its length, a checksum, a flag, and the body that these
// two are of: what it is, a position, a time, the name of its stream, an event.
const (
	recordHead = 4 + 4 + 1
	bodyHead   = 1 + 8 + 8 + 2

	// maxName is the longest name of a stream.
	maxName = 1 << 10
)

// What a record is.
const (
	isEvent = 'E'
	isLast  = 'L' // the position of a stream that has lost its events
	isDrop  = 'D' // the stream is dropped
)

// flagAt is where in a record the flag is. It alone is changed later, in its
// place, which needs no room on the disk: it says that the next event of the
// stream could not be written.
const flagAt = 8

var (
	errTorn    = errors.New("eventlog: the last record is not whole")
	errDamaged = errors.New("eventlog: a record is damaged")

	checksums = crc32.MakeTable(crc32.Castagnoli)
)

// A record is one entry of a file.
type record struct {
	kind     byte
	gap      bool // the event behind this one is lost
	position int64
	at       time.Time
	stream   string
	event    []byte
}

// head is the length of a record before its event.
func head(stream string) int { return recordHead + bodyHead + len(stream) }

// appendTo appends the record's text.
func (r *record) appendTo(text []byte) []byte {
	start := len(text)
	text = binary.BigEndian.AppendUint32(text, uint32(bodyHead+len(r.stream)+len(r.event))) // #nosec G115 -- a record is within the limit of the log
	text = append(text, 0, 0, 0, 0, 0)
	text = append(text, r.kind)
	text = binary.BigEndian.AppendUint64(text, uint64(r.position)) // #nosec G115 -- positions are positive
	text = binary.BigEndian.AppendUint64(text, uint64(r.at.UnixMilli()))
	text = binary.BigEndian.AppendUint16(text, uint16(len(r.stream))) // #nosec G115 -- names of streams are ours, and short
	text = append(text, r.stream...)
	text = append(text, r.event...)
	binary.BigEndian.PutUint32(text[start+4:], crc32.Checksum(text[start+recordHead:], checksums))
	return text
}

// parseRecord reads the text of one whole record, which it keeps.
func parseRecord(text []byte) (r record, err error) {
	if len(text) < recordHead+bodyHead || int(binary.BigEndian.Uint32(text))+recordHead != len(text) {
		return r, errDamaged
	}
	body := text[recordHead:]
	if binary.BigEndian.Uint32(text[4:]) != crc32.Checksum(body, checksums) {
		return r, errDamaged
	}
	n := int(binary.BigEndian.Uint16(body[17:]))
	if n > len(body)-bodyHead {
		return r, errDamaged
	}
	return record{
		kind: body[0], gap: text[flagAt] != 0,
		position: int64(binary.BigEndian.Uint64(body[1:])),                 // #nosec G115 -- as it was written; a damaged one is found by its sum
		at:       time.UnixMilli(int64(binary.BigEndian.Uint64(body[9:]))), // #nosec G115 -- as it was written; a damaged one is found by its sum
		stream:   string(body[bodyHead : bodyHead+n]),
		event:    body[bodyHead+n:],
	}, nil
}

// scan calls f for each record of a file of that size, with where it begins and
// its text, which f must not keep. It returns how far there are whole records,
// and why not to the end: errTorn, errDamaged, or what f or the file says.
func scan(file io.ReaderAt, size int64, f func(at int64, text []byte, r record) error) (int64, error) {
	in := bufio.NewReaderSize(io.NewSectionReader(file, 0, size), 256<<10)
	var at int64
	var text []byte
	for at < size {
		var length [4]byte
		if size-at < recordHead+bodyHead {
			return at, errTorn
		}
		if _, err := io.ReadFull(in, length[:]); err != nil {
			return at, err
		}
		n := int64(binary.BigEndian.Uint32(length[:])) + recordHead
		switch {
		case n < recordHead+bodyHead:
			return at, errDamaged
		case n > size-at:
			return at, errTorn
		}
		text = append(text[:0], length[:]...)
		text = append(text, make([]byte, n-4)...)
		if _, err := io.ReadFull(in, text[4:]); err != nil {
			return at, err
		}
		r, err := parseRecord(text)
		if err == nil {
			err = f(at, text, r)
		}
		if err != nil {
			return at, err
		}
		at += n
	}
	return at, nil
}

// A floorFile keeps the position that no forgotten stream came further than. It
// has two slots that are written in turn and in their place: that needs no room
// on the disk, and one of them is always whole.
type floorFile struct {
	file  *os.File
	turn  int64
	saved int64
}

const slotSize = 8 + 8 + 4 // turn, floor, checksum

// open reads the file, which is made if it is not there.
func (p *floorFile) open(dir *os.Root) (floor int64, err error) {
	if p.file, err = dir.OpenFile("floor", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return 0, err
	}
	var text [2 * slotSize]byte
	n, _ := p.file.ReadAt(text[:], 0) // what is not there is no slot
	for at := 0; at+slotSize <= n; at += slotSize {
		slot := text[at : at+slotSize]
		if binary.BigEndian.Uint32(slot[16:]) != crc32.Checksum(slot[:16], checksums) {
			continue
		}
		p.turn = max(p.turn, int64(binary.BigEndian.Uint64(slot)))   // #nosec G115 -- as it was written; a damaged one is found by its sum
		floor = max(floor, int64(binary.BigEndian.Uint64(slot[8:]))) // #nosec G115 -- as it was written; a damaged one is found by its sum
	}
	p.saved = floor
	if n < len(text) {
		for range 2 { // so that there is room for both from now on
			if err := p.write(floor); err != nil {
				return 0, err
			}
		}
	}
	return floor, nil
}

func (p *floorFile) write(floor int64) error {
	p.turn++
	slot := binary.BigEndian.AppendUint64(nil, uint64(p.turn)) // #nosec G115 -- turns are positive
	slot = binary.BigEndian.AppendUint64(slot, uint64(floor))  // #nosec G115 -- positions are positive
	slot = binary.BigEndian.AppendUint32(slot, crc32.Checksum(slot, checksums))
	_, err := p.file.WriteAt(slot, p.turn%2*slotSize)
	return err
}

func (p *floorFile) close() error { return p.file.Close() }

// saveFloor writes the floor down, if it has risen. It must be done before the
// last record of a forgotten stream goes. writing is held.
func (f *File) saveFloor() error {
	f.mu.Lock()
	floor := f.index.floor
	f.mu.Unlock()
	if floor == f.floor.saved {
		return nil
	}
	if err := f.floor.write(floor); err != nil {
		return err
	}
	f.floor.saved = floor
	return nil
}
