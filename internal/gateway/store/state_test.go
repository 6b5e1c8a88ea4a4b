package store_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/store"
)

// TestMain is also the process that is killed in the middle of a Put.
func TestMain(m *testing.M) {
	if dir := os.Getenv("STATE_TEST_WRITER"); dir != "" {
		write(dir)
		return
	}
	os.Exit(m.Run())
}

// write replaces one record for ever, and says so after each time.
func write(dir string) {
	d, err := store.Open(dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := 0; ; i++ {
		if err := d.Put("kind", "key", bytes.Repeat([]byte{byte('a' + i%26)}, 100_000+i%1000)); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("ok")
	}
}

func open(t *testing.T, dir string, opts *store.DirOptions) *store.Dir {
	t.Helper()
	d, err := store.OpenWith(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func put(t *testing.T, s store.Store, kind, key, record string) {
	t.Helper()
	if err := s.Put(kind, key, []byte(record)); err != nil {
		t.Fatalf("Put(%q, %q): %v", kind, key, err)
	}
}

// get returns a record, or "absent".
func get(t *testing.T, s store.Store, kind, key string) string {
	t.Helper()
	record, ok, err := s.Get(kind, key)
	switch {
	case err != nil:
		t.Fatalf("Get(%q, %q): %v", kind, key, err)
	case !ok:
		return "absent"
	}
	return string(record)
}

func TestStore(t *testing.T) {
	for name, s := range map[string]store.Store{"memory": store.NewMemory(0), "directory": open(t, filepath.Join(t.TempDir(), "a", "b"), nil)} {
		t.Run(name, func(t *testing.T) {
			odd := "../../x/\x00\n" + strings.Repeat("y", 300)
			for _, kind := range []string{"lists", "", "..", "sessions/a", "Sessions/a", odd} {
				for _, key := range []string{"k", "K", "", ".", odd} {
					if got := get(t, s, kind, key); got != "absent" {
						t.Errorf("%.20q %.20q, never put, is %q", kind, key, got)
					}
					put(t, s, kind, key, "first")
					put(t, s, kind, key, kind+"|"+key)
				}
			}
			for _, kind := range []string{"lists", "", "..", "sessions/a", "Sessions/a", odd} {
				for _, key := range []string{"k", "K", "", ".", odd} {
					if got := get(t, s, kind, key); got != kind+"|"+key {
						t.Errorf("%.20q %.20q is %.40q", kind, key, got)
					}
				}
			}
			for range 2 {
				if err := s.Delete("lists", "k"); err != nil {
					t.Error(err)
				}
			}
			if got := get(t, s, "lists", "k"); got != "absent" {
				t.Errorf("deleted, it is %q", got)
			}
			if got := get(t, s, "lists", "K"); got != "lists|K" {
				t.Errorf("another is %q", got)
			}
			put(t, s, "lists", "empty", "")
			if got := get(t, s, "lists", "empty"); got != "" {
				t.Errorf("an empty record is %q", got)
			}
			records := store.Kind(s, "lists")
			if err := records.Put("new", []byte("n")); err != nil || get(t, s, "lists", "new") != "n" {
				t.Errorf("through its kind: %v", err)
			}
			if record, ok, err := records.Get("K"); string(record) != "lists|K" || !ok || err != nil {
				t.Errorf("through its kind: %q %t %v", record, ok, err)
			}
			if err := records.Delete("K"); err != nil || get(t, s, "lists", "K") != "absent" {
				t.Errorf("through its kind: %v", err)
			}
		})
	}
}

func TestRecordsBelongToTheStoreAndToWhoGetsThem(t *testing.T) {
	for name, s := range map[string]store.Store{"memory": store.NewMemory(0), "directory": open(t, t.TempDir(), nil)} {
		record := []byte("abc")
		if err := s.Put("k", "k", record); err != nil {
			t.Fatal(err)
		}
		record[0] = 'X'
		got, _, _ := s.Get("k", "k")
		got[1] = 'X'
		if again := get(t, s, "k", "k"); again != "abc" {
			t.Errorf("%s: changed from outside to %q", name, again)
		}
	}
}

func TestMemoryForgetsTheOldest(t *testing.T) {
	s := store.NewMemory(2)
	put(t, s, "k", "1", "1")
	put(t, s, "k", "2", "2")
	put(t, s, "k", "1", "1 again")
	put(t, s, "k", "3", "3")
	if a, b, c := get(t, s, "k", "1"), get(t, s, "k", "2"), get(t, s, "k", "3"); a != "1 again" || b != "absent" || c != "3" {
		t.Errorf("kept: %q %q %q", a, b, c)
	}
}

func TestS58_RecordsOutliveTheirStoreAndAreOursAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first := open(t, dir, nil)
	put(t, first, "sessions", "s", "kept")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if got := get(t, open(t, dir, nil), "sessions", "s"); got != "kept" {
		t.Errorf("afterwards it is %q", got)
	}
	if runtime.GOOS == "windows" {
		return
	}
	_ = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			t.Fatal(err)
		}
		info, _ := e.Info()
		want := fs.FileMode(0o600)
		if e.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	open1 := filepath.Join(t.TempDir(), "open")
	if err := os.Mkdir(open1, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open1, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(open1); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a directory that others can write to: %v", err)
	}
}

// records returns the files of a kind.
func records(t *testing.T, dir, kind string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, kind, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestDamagedRecordCountsAsAbsentAndIsReported(t *testing.T) {
	for name, damage := range map[string]func(text []byte) []byte{
		"cut off":       func(text []byte) []byte { return text[:len(text)-1] },
		"empty":         func([]byte) []byte { return nil },
		"a bit flipped": func(text []byte) []byte { text[len(text)-1] ^= 1; return text },
		"key flipped":   func(text []byte) []byte { text[13] ^= 1; return text },
		"no record":     func([]byte) []byte { return []byte("hello, world, this is no record") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var log bytes.Buffer
			d := open(t, dir, &store.DirOptions{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			put(t, d, "k", "key", "a record")
			path := records(t, dir, "k")[0]
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := get(t, d, "k", "key"); got != "absent" {
				t.Errorf("it is %q", got)
			}
			if d.Damaged() != 1 || !strings.Contains(log.String(), "damaged") {
				t.Errorf("reported %d times: %s", d.Damaged(), &log)
			}
			put(t, d, "k", "key", "another")
			if got := get(t, d, "k", "key"); got != "another" {
				t.Errorf("put anew it is %q", got)
			}
		})
	}
}

func TestRecordOfAnotherKeyIsNotTaken(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	put(t, d, "k", "mine", "secret")
	mine := records(t, dir, "k")[0]
	put(t, d, "k", "yours", "x")
	for _, path := range records(t, dir, "k") {
		if path != mine {
			if err := os.Rename(mine, path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := get(t, d, "k", "yours"); got != "absent" {
		t.Errorf("a file that was moved is %q", got)
	}
}

func TestLargestRecord(t *testing.T) {
	d := open(t, t.TempDir(), nil)
	big := make([]byte, store.MaxRecord)
	if err := d.Put("k", "k", big); err != nil {
		t.Error(err)
	}
	if got, ok, err := d.Get("k", "k"); len(got) != len(big) || !ok || err != nil {
		t.Errorf("got %d bytes, %t, %v", len(got), ok, err)
	}
	if err := d.Put("k", "k", append(big, 0)); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}

func TestOldRecordsGo(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	put(t, d, "k", "old", "1")
	old := records(t, dir, "k")[0]
	put(t, d, "k", "new", "2")
	put(t, d, "k", "newer", "3")
	stranger := filepath.Join(dir, "k", "notes.txt")
	left := filepath.Join(dir, "k", strings.Repeat("A", 26)+".new")
	for _, path := range []string{stranger, left} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	then := time.Now().Add(-2 * time.Hour)
	for _, path := range []string{old, stranger, left} {
		if err := os.Chtimes(path, then, then); err != nil {
			t.Fatal(err)
		}
	}
	_ = d.Close()
	aged := open(t, dir, &store.DirOptions{MaxAge: time.Hour})
	if got := get(t, aged, "k", "old"); got != "absent" {
		t.Errorf("after its time it is %q", got)
	}
	_ = aged.Close() // waits for the first sweep
	if got := len(records(t, dir, "k")); got != 3 {
		t.Errorf("%d files are left, want two records and the stranger's: %q", got, records(t, dir, "k"))
	}
	_ = open(t, dir, &store.DirOptions{MaxRecords: 1}).Close()
	if got := len(records(t, dir, "k")); got != 2 {
		t.Errorf("%d files are left, want one record and the stranger's", got)
	}
}

func TestManyUseOneDirectory(t *testing.T) {
	dir := t.TempDir()
	stores := []*store.Dir{open(t, dir, nil), open(t, dir, nil)}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			d, own := stores[g%2], fmt.Sprint("own", g)
			for i := range 50 {
				if err := d.Put("k", own, []byte(own)); err != nil {
					t.Error(err)
				}
				if err := d.Put("k", "shared", bytes.Repeat([]byte{byte(i)}, 1000)); err != nil {
					t.Error(err)
				}
				if got, ok, err := stores[(g+1)%2].Get("k", own); string(got) != own || !ok || err != nil {
					t.Errorf("the other finds %q %t %v", got, ok, err)
				}
				if got, ok, err := d.Get("k", "shared"); !ok || err != nil || len(got) != 1000 || bytes.Count(got, got[:1]) != 1000 {
					t.Errorf("what all write is %d bytes, %t, %v", len(got), ok, err)
				}
			}
		})
	}
	wg.Wait()
	if n := stores[0].Damaged() + stores[1].Damaged(); n != 0 {
		t.Errorf("%d damaged records", n)
	}
}

func TestWriterThatIsKilledLeavesAWholeRecord(t *testing.T) {
	dir := t.TempDir()
	for round := range 5 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "STATE_TEST_WRITER="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 3 + round*7 {
			if !lines.Scan() || lines.Text() != "ok" {
				t.Fatalf("the writer says %q, %v", lines.Text(), lines.Err())
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		d := open(t, dir, nil)
		got := get(t, d, "kind", "key")
		if len(got) < 100_000 || strings.Trim(got, got[:1]) != "" || d.Damaged() != 0 {
			t.Errorf("the record is %d bytes, %.10q; %d damaged", len(got), got, d.Damaged())
		}
	}
}

// Long records are forgotten, the oldest first, when all have more bytes than there may be; short ones stay.
func TestBytesInMemoryAreBounded(t *testing.T) {
	s := store.NewMemory(1000)
	put(t, s, "k", "short", "x")
	long := strings.Repeat("x", 1<<20)
	for i := range 100 {
		put(t, s, "k", fmt.Sprint(i), long)
	}
	put(t, s, "k", "99", "replaced by a short one")
	kept := 0
	for i := range 100 {
		if record, ok, err := s.Get("k", fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		} else if ok {
			kept += len(record)
		} else if i >= 50 {
			t.Errorf("%d is forgotten before older ones", i)
		}
	}
	if kept > 64<<20 || kept < 60<<20 {
		t.Errorf("%d bytes are kept", kept)
	}
	if _, ok, err := s.Get("k", "short"); !ok || err != nil {
		t.Errorf("the short one is forgotten: %v", err)
	}
}
