package eventlog

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"time"
)

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
	text = binary.BigEndian.AppendUint32(text, uint32(bodyHead+len(r.stream)+len(r.event)))
	text = append(text, 0, 0, 0, 0, 0)
	text = append(text, r.kind)
	text = binary.BigEndian.AppendUint64(text, uint64(r.position))
	text = binary.BigEndian.AppendUint64(text, uint64(r.at.UnixMilli()))
	text = binary.BigEndian.AppendUint16(text, uint16(len(r.stream)))
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
		position: int64(binary.BigEndian.Uint64(body[1:])),
		at:       time.UnixMilli(int64(binary.BigEndian.Uint64(body[9:]))),
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
