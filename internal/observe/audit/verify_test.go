package audit

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// written makes a log of so many calls in one file, and returns its name. Its first record
// is that of the file.
func written(t testing.TB, calls int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	l := reopen(t, path, nil)
	for i := range calls {
		l.Record(call(i))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func call(i int) Event {
	return Event{Kind: Call, Server: "files", Method: "tools/call", Name: fmt.Sprint("tool", i), Outcome: Answered, Duration: time.Millisecond}
}

func reopen(t testing.TB, path string, opts *Options) *Log {
	t.Helper()
	if opts == nil {
		opts = &Options{}
	}
	l, err := Open(path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func readLines(t testing.TB, path string) [][]byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(text, []byte("\n"))
	return lines[:len(lines)-1]
}

func writeLines(t testing.TB, path string, lines ...[]byte) {
	t.Helper()
	if err := os.WriteFile(path, bytes.Join(lines, nil), 0o600); err != nil {
		t.Fatal(err)
	}
}

// forged returns a record with hashes that fit, after another.
func forged(t testing.TB, after []byte, e Event) []byte {
	t.Helper()
	r, err := parse(bytes.TrimSuffix(after, []byte("\n")))
	if err != nil {
		t.Fatal(err)
	}
	c := r.at()
	return c.append(nil, &e)
}

func TestTamperingOfEveryKindIsFound(t *testing.T) {
	whole := func(l [][]byte) [][]byte { return l }
	for _, test := range []struct {
		name   string
		change func(l [][]byte) [][]byte // of ten lines: that of the file and nine calls
		line   int                       // zero means the whole file
		what   string                    // "" means that nothing is wrong
		noHead bool
	}{
		{name: "nothing", change: whole},
		{name: "nothing, without the head", change: whole, noHead: true},
		{name: "a byte", change: func(l [][]byte) [][]byte {
			l[4] = bytes.Replace(l[4], []byte("tool3"), []byte("tool4"), 1)
			return l
		}, line: 5, what: "was changed"},
		{name: "a byte of the last line", change: func(l [][]byte) [][]byte {
			l[9] = bytes.Replace(l[9], []byte("tool8"), []byte("tool4"), 1)
			return l
		}, line: 10, what: "was changed", noHead: true},
		{name: "a byte of a hash", change: func(l [][]byte) [][]byte {
			l[4][len(l[4])-10] ^= 1
			return l
		}, line: 5, what: "was changed"},
		{name: "a line left out", change: func(l [][]byte) [][]byte { return slices.Delete(l, 4, 5) }, line: 5, what: "record 5 is missing"},
		{name: "lines left out", change: func(l [][]byte) [][]byte { return slices.Delete(l, 4, 7) }, line: 5, what: "records 5 to 7 are missing"},
		{name: "two lines swapped", change: func(l [][]byte) [][]byte {
			l[4], l[5] = l[5], l[4]
			return l
		}, line: 5, what: "record 5 is missing"},
		{name: "a line twice", change: func(l [][]byte) [][]byte { return slices.Insert(l, 5, l[4]) }, line: 6, what: "record 5 stands behind record 5"},
		{name: "a line put in", change: func(l [][]byte) [][]byte { return slices.Insert(l, 5, forged(t, l[4], call(99))) }, line: 7, what: "stands behind record 6"},
		{name: "a line replaced, with hashes that fit", change: func(l [][]byte) [][]byte {
			l[5] = forged(t, l[4], call(99))
			return l
		}, line: 7, what: "does not continue from record 6"},
		{name: "the last line replaced, with hashes that fit", change: func(l [][]byte) [][]byte {
			l[9] = forged(t, l[8], call(99))
			return l
		}, line: 10, what: "is not the one that was written"},
		{name: "the end cut", change: func(l [][]byte) [][]byte { return l[:7] }, what: "ends with record 7, and 10 was the last"},
		{name: "the end cut in a line", change: func(l [][]byte) [][]byte {
			l[9] = l[9][:40]
			return l
		}, what: "ends with record 9, and 10 was the last"},
		{name: "the end cut in a line, without the head", change: func(l [][]byte) [][]byte {
			l[9] = l[9][:40]
			return l
		}, line: 10, what: "no record", noHead: true},
		{name: "the beginning cut", change: func(l [][]byte) [][]byte { return l[2:] }, line: 1, what: "the beginning of the file is missing"},
		{name: "the beginning cut, without the head", change: func(l [][]byte) [][]byte { return l[1:] }, line: 1, what: "the beginning of the file is missing", noHead: true},
		{name: "the beginning cut up to a mark", change: func(l [][]byte) [][]byte {
			return [][]byte{forged(t, l[4], Event{Kind: Torn}), forged(t, forged(t, l[4], Event{Kind: Torn}), call(1))}
		}, line: 2, what: "the beginning of the file is missing", noHead: true},
		{name: "zeros behind the end", change: func(l [][]byte) [][]byte { return append(l, make([]byte, 5000)) }, line: 11, what: "no record"},
		{name: "zeros behind the end, and more than a line has", change: func(l [][]byte) [][]byte { return append(l, make([]byte, 2*maxLine+10)) }, line: 11, what: "no record"},
		{name: "zeros in a line that is begun", change: func(l [][]byte) [][]byte { return append(l, []byte(`{"seq":11,"time":"2026-`), make([]byte, 100)) }, line: 11, what: "no record"},
		{name: "another line begun behind the end", change: func(l [][]byte) [][]byte { return append(l, []byte(`{"seq":99,"time":"2026-`)) }, line: 11, what: "no record"},
		{name: "the next line begun", change: func(l [][]byte) [][]byte { return append(l, []byte(`{"seq":11,"time":"2026-`)) }},
		{name: "a part of the next number", change: func(l [][]byte) [][]byte { return append(l, []byte(`{"seq":1`)) }},
		{name: "text of somebody", change: func(l [][]byte) [][]byte { return slices.Insert(l, 5, []byte("hello\n")) }, line: 6, what: "no record"},
		{name: "an empty line", change: func(l [][]byte) [][]byte { return slices.Insert(l, 5, []byte("\n")) }, line: 6, what: "no record"},
		{name: "everything", change: func([][]byte) [][]byte { return nil }, what: "ends with record 0"},
		{name: "a line without an end, and a mark that does not fit", change: func(l [][]byte) [][]byte {
			mark := forged(t, l[4], Event{Kind: Torn, Count: 21, Digest: strings.Repeat("0", 64)})
			return [][]byte{l[0], l[1], l[2], l[3], l[4], []byte(`{"seq":6,"time":"202`), []byte("\n"), mark}
		}, line: 6, what: "no record", noHead: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			path := written(t, 9)
			writeLines(t, path, test.change(readLines(t, path))...)
			if test.noHead {
				_ = os.Remove(headName(path))
			}
			_, err := Verify(path)
			if test.what == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			p, ok := errors.AsType[*Problem](err)
			if !ok || p.Line != test.line || !strings.Contains(p.What, test.what) || p.File != path {
				t.Errorf("got %v, want line %d: %s", err, test.line, test.what)
			}
		})
	}
}

// A log that is put aside in files is one chain, and each file must be there.
func TestTamperingWithFilesIsFound(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := reopen(t, path, &Options{MaxSize: 2000, Keep: 100})
	for i := range 20 {
		l.Record(call(i))
		flush(t, l, i+1)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	old := rotated(path)
	if s, err := Verify(path); err != nil || len(old) < 3 || s.Files != len(old)+1 || s.Records < 20 {
		t.Fatalf("%d files: %+v, %v", len(old), s, err)
	}
	if _, err := Verify(old[1].path); err != nil {
		t.Errorf("a file by itself: %v", err)
	}
	if _, err := Verify(old[1].path, old[0].path); err != nil {
		t.Errorf("two files in the wrong order: %v", err)
	}
	if _, err := Verify(old[0].path, old[2].path); err == nil || !strings.Contains(err.Error(), "missing before it") {
		t.Errorf("a file between is left out: %v", err)
	}
	intact, err := os.ReadFile(old[0].path)
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(old[0].path)
	if _, err := Verify(path); err == nil || !strings.Contains(err.Error(), "records 1 to ") {
		t.Errorf("the first file is gone: %v", err)
	}
	writeLines(t, old[0].path, intact)
	_ = os.Remove(path)
	if _, err := Verify(path); err == nil || !strings.Contains(err.Error(), "what follows is missing") {
		t.Errorf("the last file is gone: %v", err)
	}
}

func TestFilesThatAreKeptNoLongerAreNotMissed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := reopen(t, path, &Options{MaxSize: 2000, Keep: 2})
	for i := range 30 {
		l.Record(call(i))
		flush(t, l, i+1)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err := Verify(path); err != nil || s.Files != 3 || s.First.Seq == 1 {
		t.Errorf("%+v, %v", s, err)
	}
	for _, f := range append(rotated(path), rotatedFile{path: path}, rotatedFile{path: headName(path)}) {
		if info, err := os.Stat(f.path); err != nil || info.Mode().Perm() != 0o600 && runtime.GOOS != "windows" || info.Size() > 2000 {
			t.Errorf("%s: %v, %v", f.path, info, err)
		}
	}
}

// FuzzTampering changes a byte, or takes some out, anywhere, and lets nothing pass but what
// leaves the records as they were.
func FuzzTampering(f *testing.F) {
	path := written(f, 6)
	text, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(10, 1, byte('x'))
	f.Add(len(text)-1, 1, byte('x'))
	f.Add(len(text)/2, 300, byte(0))
	f.Fuzz(func(t *testing.T, at, n int, b byte) {
		at = int(uint(at) % uint(len(text)))
		n = int(uint(n)%600) % (len(text) - at + 1)
		changed := slices.Clone(text[:at])
		if b != 0 {
			changed = append(changed, b)
		}
		changed = append(changed, text[at+n:]...)
		if bytes.Equal(bytes.TrimSuffix(changed, []byte("\n")), bytes.TrimSuffix(text, []byte("\n"))) {
			return
		}
		dir := t.TempDir()
		for _, head := range []bool{true, false} {
			other := filepath.Join(dir, "audit.log")
			writeLines(t, other, changed)
			if head {
				h, _ := os.ReadFile(headName(path))
				writeLines(t, headName(other), h)
			} else {
				_ = os.Remove(headName(other))
			}
			s, err := Verify(other)
			if err != nil {
				continue
			}
			// Without the head, whole lines at either end are not missed.
			if head || !bytes.Contains(text, bytes.TrimSpace(changed)) {
				t.Fatalf("with a head %v: %d records pass:\n%s", head, s.Records, changed)
			}
		}
	})
}

// flush waits until so many events are written.
func flush(t testing.TB, l *Log, events int) {
	t.Helper()
	for limit := time.Now().Add(10 * time.Second); l.written.Load() < uint64(events); time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			t.Fatal("it is not written")
		}
	}
}

func TestRecordsWithEarlierNamesAreReadAndVerified(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := reopen(t, path, nil)
	e := call(1)
	e.Credential, e.Transport = "token", "http"
	l.Record(e)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	lines := readLines(t, path)
	last := string(lines[len(lines)-1])
	earlier := strings.NewReplacer(`"credential":`, `"proof":`, `"transport":`, `"door":`).Replace(last)
	if earlier == last {
		t.Fatalf("the record is %s", last)
	}
	earlier = earlier[:strings.LastIndex(earlier, hashKey)]
	lines[len(lines)-1] = fmt.Appendf(nil, "%s%s%x\"}\n", earlier, hashKey, sha256.Sum256([]byte(earlier)))
	writeLines(t, path, lines...)
	if err := os.Remove(path + ".head"); err != nil { // it has the hash of the record
		t.Fatal(err)
	}
	if _, err := Verify(path); err != nil {
		t.Error(err)
	}
	var got Caller
	if err := Read(func(r *Record) bool { got = r.Caller; return true }, path); err != nil || got != e.Caller {
		t.Errorf("the caller is %+v, %v", got, err)
	}
}
