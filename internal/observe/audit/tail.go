package audit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"time"
)

// tailSize is how much of the end of a file is searched for its last record.
const tailSize = 1 << 20

var errNotOurs = errors.New("it has text in it that is no audit log; move it away, or name another file")

// resume finds where a file continues, and what there is to say about it.
func (f *file) resume(now *os.File, size int64) error {
	known := f.chain // what we have written ourselves, or else what was written before us
	if known.Seq == 0 {
		known = readHead(f.head)
	}
	var before chain // where the file before ends
	if old := rotated(f.path); len(old) > 0 {
		if last := lastOf(old[len(old)-1].path); last != nil {
			before = last.at()
		}
	}
	if before.Seq > known.Seq {
		known = before
	}
	f.size, f.first, f.found, f.noEnd, f.chain = size, 0, nil, false, known
	if size == 0 {
		f.missed(before.Seq)
		return nil
	}
	last, rest, err := readTail(now, size)
	if err != nil {
		return err
	}
	f.noEnd = !endsLine(now, size)
	if len(rest) > 0 {
		sum := sha256.Sum256(rest)
		f.found = append(f.found, Event{
			Kind: Torn, Time: time.Now(), Count: uint64(len(rest)), Digest: hex.EncodeToString(sum[:]),
			Reason: "what stands before is no whole record: the process was killed, or the disk was full",
		})
	}
	if last == nil {
		f.missed(before.Seq)
		return nil
	}
	first, err := readFirst(now)
	if err != nil {
		return err
	}
	f.first, f.began = first.Seq, first.Time
	f.missed(last.Seq)
	switch {
	case known.Seq > last.Seq:
	case known.Seq == last.Seq && known.Hash != last.Hash:
		f.found = append(f.found, Event{Kind: Cut, Time: time.Now(), Count: 1, Reason: "the last record was replaced"})
	default:
		f.chain = last.at()
	}
	return nil
}

// missed writes down that there should be records behind the last one there is.
func (f *file) missed(last uint64) {
	if f.chain.Seq > last {
		f.found = append(f.found, Event{Kind: Cut, Time: time.Now(), Count: f.chain.Seq - last, Reason: "records that were written before are missing"})
	}
}

// readTail returns the last record of a file, and what stands behind it with the end of the
// last line, which is added if it is missing. Without a record, what there is must be the
// beginning of one.
func readTail(now io.ReaderAt, size int64) (last *Record, rest []byte, err error) {
	text := make([]byte, min(size, tailSize))
	if _, err := now.ReadAt(text, size-int64(len(text))); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	if text[len(text)-1] != '\n' {
		text = append(text, '\n')
	}
	for end := len(text); end > 0; {
		start := bytes.LastIndexByte(text[:end-1], '\n') + 1
		if r, err := parse(text[start : end-1]); err == nil {
			return r, text[end:], nil
		}
		end = start
	}
	if len(text) > maxLine || bytes.IndexByte(text, '\n') < len(text)-1 || !bytes.HasPrefix(text, []byte(`{"seq":`[:min(len(text)-1, len(`{"seq":`))])) {
		return nil, nil, errNotOurs
	}
	return nil, text, nil
}

func endsLine(now io.ReaderAt, size int64) bool {
	var last [1]byte
	_, err := now.ReadAt(last[:], size-1)
	return err == nil && last[0] == '\n'
}

// readFirst returns the first record of a file.
func readFirst(now io.ReaderAt) (*Record, error) {
	lines := newLines(io.NewSectionReader(now, 0, 1<<62))
	for {
		line, err := lines.next()
		if err != nil {
			return nil, errNotOurs
		}
		if r, err := parse(line); err == nil {
			return r, nil
		}
	}
}

// lastOf returns the last record of a file that was put aside, or nil.
func lastOf(path string) *Record {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return nil
	}
	last, _, _ := readTail(f, info.Size()) // a file without one says nothing
	return last
}
