package store_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/gateway/store"
	"github.com/dragoman-mcp/dragoman/internal/testkit/storetest"
)

// TestMain is also the process that is killed in the middle of a Put.
func TestMain(m *testing.M) {
	if dir := os.Getenv("STATE_TEST_WRITER"); dir != "" {
		write(dir)
		return
	}
	os.Exit(m.Run())
}

// write replaces one record again and again, and prints a line each time.
func write(dir string) {
	d, err := store.Open(dir, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for i := 0; ; i++ {
		if _, err := d.Put(context.Background(), "kind/key", bytes.Repeat([]byte{byte('a' + i%26)}, 100_000+i%1000), eventlog.AnyRevision); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("ok")
	}
}

func open(t *testing.T, dir string, opts *store.Options) *store.Dir {
	t.Helper()
	d, err := store.Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// A pair is two stores of one directory, as two processes have, which are used in turn.
type pair struct {
	stores [2]*store.Dir
	turn   *atomic.Int32
}

func (p pair) next() *store.Dir { return p.stores[p.turn.Add(1)%2] }

func (p pair) Get(ctx context.Context, key string) ([]byte, uint64, error) {
	return p.next().Get(ctx, key)
}

func (p pair) Put(ctx context.Context, key string, record []byte, expected uint64) (uint64, error) {
	return p.next().Put(ctx, key, record, expected)
}

func (p pair) Delete(ctx context.Context, key string, expected uint64) error {
	return p.next().Delete(ctx, key, expected)
}

func TestEveryStoreKeepsItsPromises(t *testing.T) {
	opens := map[string]func(*testing.T) eventlog.Records{
		"memory":    func(*testing.T) eventlog.Records { return store.NewMemory(nil) },
		"directory": func(t *testing.T) eventlog.Records { return open(t, filepath.Join(t.TempDir(), "a", "b"), nil) },
		"directory of two processes": func(t *testing.T) eventlog.Records {
			dir := t.TempDir()
			p := pair{[2]*store.Dir{open(t, dir, nil), open(t, dir, nil)}, new(atomic.Int32)}
			t.Cleanup(func() {
				if n := p.stores[0].Damaged() + p.stores[1].Damaged(); n != 0 {
					t.Errorf("%d damaged records", n)
				}
			})
			return p
		},
	}
	for name, open := range opens {
		t.Run(name, func(t *testing.T) {
			storetest.Records(t, open)
			t.Run("leases", func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { storetest.Leases(t, store.NewLeases(open(t)), time.Minute) })
			})
			t.Run("concurrent leases", func(t *testing.T) { storetest.LeasesAreExclusive(t, store.NewLeases(open(t))) })
		})
	}
	t.Run("memory expires", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			storetest.RecordsExpiry(t, store.NewMemory(&store.Options{MaxAge: time.Hour}), func() { time.Sleep(time.Hour) })
		})
	})
	t.Run("directory expires", func(t *testing.T) {
		dir := t.TempDir()
		storetest.RecordsExpiry(t, open(t, dir, &store.Options{MaxAge: time.Hour}), func() {
			then := time.Now().Add(-2 * time.Hour)
			if err := os.Chtimes(records(t, dir, "k")[0], then, then); err != nil {
				t.Fatal(err)
			}
		})
	})
}

func TestMemoryForgetsTheOldest(t *testing.T) {
	s := store.NewMemory(&store.Options{MaxRecords: 2})
	storetest.Put(t, s, "k/1", "1")
	storetest.Put(t, s, "k/2", "2")
	storetest.Put(t, s, "k/1", "1 again")
	storetest.Put(t, s, "k/3", "3")
	if a, b, c := storetest.Get(t, s, "k/1"), storetest.Get(t, s, "k/2"), storetest.Get(t, s, "k/3"); a != "1 again" || b != "absent" || c != "3" {
		t.Errorf("kept: %q %q %q", a, b, c)
	}
}

func TestS58_RecordsOutliveTheirStoreAndAreOursAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state")
	first := open(t, dir, nil)
	storetest.Put(t, first, "sessions/s", "kept")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if got := storetest.Get(t, open(t, dir, nil), "sessions/s"); got != "kept" {
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
	if _, err := store.Open(open1, nil); err == nil || !strings.Contains(err.Error(), "chmod 700") {
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
		"key flipped":   func(text []byte) []byte { text[21] ^= 1; return text },
		"no record":     func([]byte) []byte { return []byte("hello, world, this is no record") },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var log bytes.Buffer
			d := open(t, dir, &store.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			storetest.Put(t, d, "k/key", "a record")
			path := records(t, dir, "k")[0]
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, damage(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := storetest.Get(t, d, "k/key"); got != "absent" {
				t.Errorf("it is %q", got)
			}
			if d.Damaged() != 1 || !strings.Contains(log.String(), "damaged") {
				t.Errorf("reported %d times: %s", d.Damaged(), &log)
			}
			storetest.Put(t, d, "k/key", "another")
			if got := storetest.Get(t, d, "k/key"); got != "another" {
				t.Errorf("put again it is %q", got)
			}
		})
	}
}

func TestRecordOfAnotherKeyIsNotTaken(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	storetest.Put(t, d, "k/mine", "secret")
	mine := records(t, dir, "k")[0]
	storetest.Put(t, d, "k/yours", "x")
	for _, path := range records(t, dir, "k") {
		if path != mine {
			if err := os.Rename(mine, path); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got := storetest.Get(t, d, "k/yours"); got != "absent" {
		t.Errorf("a file that was moved is %q", got)
	}
}

func TestLargestRecord(t *testing.T) {
	d := open(t, t.TempDir(), nil)
	big := make([]byte, store.MaxRecord)
	if _, err := d.Put(t.Context(), "k", big, 0); err != nil {
		t.Error(err)
	}
	if got, _, err := d.Get(t.Context(), "k"); len(got) != len(big) || err != nil {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if _, err := d.Put(t.Context(), "k", append(big, 0), eventlog.AnyRevision); !errors.Is(err, store.ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}

func TestOldRecordsGo(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir, nil)
	storetest.Put(t, d, "k/old", "1")
	old := records(t, dir, "k")[0]
	storetest.Put(t, d, "k/new", "2")
	storetest.Put(t, d, "k/newer", "3")
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
	aged := open(t, dir, &store.Options{MaxAge: time.Hour})
	if got := storetest.Get(t, aged, "k/old"); got != "absent" {
		t.Errorf("after its time it is %q", got)
	}
	_ = aged.Close() // waits for the first sweep
	if got := len(records(t, dir, "k")); got != 3 {
		t.Errorf("%d files are left, want two records and the stranger's: %q", got, records(t, dir, "k"))
	}
	_ = open(t, dir, &store.Options{MaxRecords: 1}).Close()
	if got := len(records(t, dir, "k")); got != 2 {
		t.Errorf("%d files are left, want one record and the stranger's", got)
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
		got := storetest.Get(t, d, "kind/key")
		if len(got) < 100_000 || strings.Trim(got, got[:1]) != "" || d.Damaged() != 0 {
			t.Errorf("the record is %d bytes, %.10q; %d damaged", len(got), got, d.Damaged())
		}
	}
}

// Long records are forgotten, the oldest first, when all have more bytes than there may be; short ones stay.
func TestBytesInMemoryAreBounded(t *testing.T) {
	s := store.NewMemory(&store.Options{MaxRecords: 1000})
	storetest.Put(t, s, "k/short", "x")
	long := strings.Repeat("x", 1<<20)
	for i := range 100 {
		storetest.Put(t, s, fmt.Sprint("k/", i), long)
	}
	storetest.Put(t, s, "k/99", "replaced by a short one")
	kept := 0
	for i := range 100 {
		if record, revision, err := s.Get(t.Context(), fmt.Sprint("k/", i)); err != nil {
			t.Fatal(err)
		} else if revision != 0 {
			kept += len(record)
		} else if i >= 50 {
			t.Errorf("%d is forgotten before older ones", i)
		}
	}
	if kept > 64<<20 || kept < 60<<20 {
		t.Errorf("%d bytes are kept", kept)
	}
	if got := storetest.Get(t, s, "k/short"); got != "x" {
		t.Errorf("the short one is %q", got)
	}
}
