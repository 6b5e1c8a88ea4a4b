package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strings"
)

// A Problem is the first thing that is wrong with a log.
type Problem struct {
	File string
	Line int // counts from 1; zero means the whole file
	What string
}

// Error implements error.
func (p *Problem) Error() string {
	if p.Line == 0 {
		return fmt.Sprintf("%s: %s", p.File, p.What)
	}
	return fmt.Sprintf("%s, line %d: %s", p.File, p.Line, p.What)
}

// A Summary is what Verify has read.
type Summary struct {
	Files       int
	Records     uint64
	First, Last *Record // nil if there are no records
	Torn        int     // places where a write was cut, and that were marked
	Lost        uint64  // events that could not be written, as the log says itself
	Unfinished  bool    // the last line has no end: it is being written, or the process was killed
}

// Files returns the files of logs in the order of their records: those that are named,
// and for the file that is written those that were put aside.
func Files(paths ...string) ([]string, error) {
	var list []rotatedFile
	for _, path := range paths {
		if strings.HasSuffix(path, headName("")) {
			continue // named with the others by a pattern
		}
		old := rotated(path)
		list = append(list, old...)
		f, err := os.Open(path)
		if err != nil {
			if len(old) > 0 && errors.Is(err, os.ErrNotExist) {
				continue // it has been put aside, and no other was begun
			}
			return nil, err
		}
		first, err := readFirst(f)
		_ = f.Close()
		at := uint64(1) << 63 // a file without records is the last, or stands alone
		if err == nil {
			at = first.Seq
		}
		list = append(list, rotatedFile{path, at})
	}
	slices.SortStableFunc(list, func(a, b rotatedFile) int { return cmp.Compare(a.first, b.first) })
	list = slices.CompactFunc(list, func(a, b rotatedFile) bool { return a.path == b.path })
	names := make([]string, len(list))
	for i, f := range list {
		names[i] = f.path
	}
	return names, nil
}

// Verify checks the chain of records over all files of a log. An error that is a
// *[Problem] says what is wrong; any other one, that something cannot be read.
func Verify(paths ...string) (*Summary, error) {
	v := &verifier{}
	for _, path := range paths {
		head, err := os.Open(headName(path))
		if err == nil {
			v.head = readHead(head) // first: what is written meanwhile comes behind it
			v.headOf = path
			_ = head.Close()
		}
	}
	files, err := Files(paths...)
	if err != nil {
		return nil, err
	}
	for _, path := range files {
		v.file, v.line, v.begun = path, 0, false
		if err := v.read(); err != nil {
			return &v.Summary, err
		}
	}
	return &v.Summary, v.end()
}

// A verifier goes over files line by line.
type verifier struct {
	Summary
	file   string
	line   int
	head   chain  // where the writer says that it is; zero if it does not say
	headOf string // the file that it is about
	oldest uint64 // the first record that there should be
	begun  bool   // the record with which this file begins was read
	bad    damage
}

// damage is what stands between two records.
type damage struct {
	*Problem // at its beginning; nil if there is none
	count    uint64
	sum      hash.Hash
	next     bool // it is the beginning of the next record
}

func (v *verifier) problem(format string, args ...any) *Problem {
	return &Problem{v.file, v.line, fmt.Sprintf(format, args...)}
}

func (v *verifier) read() error {
	f, err := os.Open(v.file)
	if err != nil {
		return err
	}
	defer f.Close()
	v.Files++
	lines := newLines(f)
	for {
		line, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		v.line++
		r, wrong := parse(line)
		if wrong != nil {
			v.Unfinished = lines.noEnd
			v.damaged(line, wrong)
			continue
		}
		if err := v.record(r); err != nil {
			return err
		}
	}
}

// damaged takes a line that is no record. The next one may say that it knows.
func (v *verifier) damaged(line []byte, wrong error) {
	first := v.bad.Problem == nil
	if first {
		v.bad = damage{Problem: v.problem("%v", wrong), sum: sha256.New()}
	}
	v.bad.next = first && v.Unfinished && v.beginsNext(line)
	v.bad.count += uint64(len(line)) + 1
	v.bad.sum.Write(line)
	v.bad.sum.Write([]byte{'\n'})
}

// beginsNext reports whether a line without an end can become the next record, as one that is being written.
func (v *verifier) beginsNext(line []byte) bool {
	next := uint64(1)
	if v.Last != nil {
		next = v.Last.Seq + 1
	}
	start := fmt.Sprintf(`{"seq":%d,"time":"`, next)
	n := min(len(line), len(start))
	return string(line[:n]) == start[:n] && !bytes.ContainsFunc(line, func(r rune) bool { return r < ' ' })
}

// record takes the next record.
func (v *verifier) record(r *Record) error {
	if v.bad.Problem != nil {
		if r.Kind != Torn || r.Count != v.bad.count || r.Digest != hex.EncodeToString(v.bad.sum.Sum(nil)) {
			return v.bad.Problem
		}
		v.bad = damage{}
		v.Torn++
	}
	last := chain{}
	if v.Last != nil {
		last = v.Last.at()
	}
	switch {
	case v.Last == nil && r.Seq > 1:
		// Those before it were removed as the oldest; it is seen at the end whether they should be there.
	case r.Seq > last.Seq+2:
		return v.problem("records %d to %d are missing before it", last.Seq+1, r.Seq-1)
	case r.Seq == last.Seq+2:
		return v.problem("record %d is missing before it", last.Seq+1)
	case r.Seq <= last.Seq:
		return v.problem("record %d stands behind record %d", r.Seq, last.Seq)
	case r.Prev != last.prev():
		return v.problem("it does not continue from record %d, which was replaced, or it was itself", last.Seq)
	}
	if r.Seq == v.head.Seq && r.Hash != v.head.Hash {
		return v.problem("record %d is not the one that was written, as %s says", r.Seq, headName(v.headOf))
	}
	if v.First == nil {
		v.First = r
	}
	if !v.begun && r.Kind != FileBegun && r.Kind != Torn && r.Kind != Cut { // what was found may stand before it
		return v.problem("the beginning of the file is missing: records before it are gone")
	}
	switch r.Kind {
	case FileBegun:
		v.begun, v.oldest = true, r.Oldest
	case Lost:
		v.Lost += r.Count
	case Cut:
		if v.Last == nil { // else what was missing is here after all
			return v.problem("%d records before it are missing", r.Count)
		}
	}
	v.Last, v.Unfinished = r, false
	v.Records++
	return nil
}

// end looks at what there is and should be.
func (v *verifier) end() error {
	var last uint64
	if v.Last != nil {
		last = v.Last.Seq
	}
	switch known := v.head.Seq > 0; {
	case known && v.head.Seq > last:
		v.line = 0
		return v.problem("it ends with record %d, and %d was the last, as %s says: what follows is missing", last, v.head.Seq, headName(v.headOf))
	case v.bad.Problem != nil && !(known && v.bad.next):
		return v.bad.Problem
	case known && v.First != nil && v.First.Seq > v.oldest && v.oldest > 0:
		v.line = 0
		return v.problem("records %d to %d are missing before the first file", v.oldest, v.First.Seq-1)
	}
	return nil
}

// Read calls f with each record of a log in turn, until f returns false. Lines that are no
// records are left out.
func Read(f func(*Record) bool, paths ...string) error {
	files, err := Files(paths...)
	if err != nil {
		return err
	}
	for _, path := range files {
		if more, err := readRecords(path, f); err != nil || !more {
			return err
		}
	}
	return nil
}

func readRecords(path string, f func(*Record) bool) (more bool, err error) {
	in, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer in.Close()
	lines := newLines(in)
	for {
		line, err := lines.next()
		switch {
		case errors.Is(err, io.EOF):
			return true, nil
		case err != nil:
			return false, err
		}
		if r, err := parse(line); err == nil && !f(r) {
			return false, nil
		}
	}
}

// lines reads lines of any length, of which it keeps no more than a record can have.
type lines struct {
	in    *bufio.Reader
	noEnd bool // the last one has none
}

func newLines(in io.Reader) *lines { return &lines{in: bufio.NewReaderSize(in, maxLine)} }

// next returns the next line without its end, which is good until the one after it. Of
// a line that is too long for a record it returns parts as lines.
func (l *lines) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	switch {
	case err == nil:
		return line[:len(line)-1], nil
	case errors.Is(err, io.EOF) && len(line) > 0:
		l.noEnd = true
		return line, nil
	case errors.Is(err, bufio.ErrBufferFull):
		return line, nil
	}
	return nil, err
}
