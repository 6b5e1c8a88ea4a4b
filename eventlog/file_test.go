package eventlog_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/testkit/storetest"
)

// TestMain is also the process that is killed in the middle of writing.
func TestMain(m *testing.M) {
	if dir := os.Getenv("EVENTLOG_TEST_WRITER"); dir != "" {
		write(dir)
		return
	}
	os.Exit(m.Run())
}

// reopen closes a log and opens what it leaves behind.
func reopen(t *testing.T, log *eventlog.File, dir string, o *eventlog.MemoryOptions) *eventlog.File {
	t.Helper()
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	return openFile(t, dir, o)
}

// files returns the files of a log that hold events, oldest first.
func files(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestS49_EventsOutliveTheProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	log := openFile(t, dir, nil)
	storetest.Append(t, log, "a", "a1", "a2", "", "a4")
	storetest.Append(t, log, "b", "b1")
	storetest.Append(t, log, "dropped", "d1")
	if err := log.Drop(t.Context(), "dropped"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		log = reopen(t, log, dir, nil)
		if got := storetest.After(t, log, "a", 1); got != "a2  a4" {
			t.Errorf("a has %q", got)
		}
		if got := storetest.After(t, log, "b", 0); got != "b1" {
			t.Errorf("b has %q", got)
		}
		if got := storetest.After(t, log, "a", 5); got != "unknown" {
			t.Errorf("a position that was not given out: %q", got)
		}
		if got := storetest.After(t, log, "dropped", 0); got != "unknown" {
			t.Errorf("the dropped stream has %q", got)
		}
	}
	if n := storetest.Append(t, log, "a", "a5"); n != 5 {
		t.Errorf("the next position is %d, want 5", n)
	}
	if got := storetest.After(t, log, "a", 3); got != "a4 a5" {
		t.Errorf("then a has %q", got)
	}
}

func TestOneLogAtATimeHasADirectory(t *testing.T) {
	dir := t.TempDir()
	log := openFile(t, dir, nil)
	if _, err := eventlog.Open(dir, nil); !errors.Is(err, eventlog.ErrInUse) {
		t.Errorf("a second one: %v", err)
	}
	reopen(t, log, dir, nil)
	if _, err := log.Append(t.Context(), "s", eventlog.End, nil); err == nil {
		t.Error("a closed log takes an event")
	}
	if _, err := log.After(t.Context(), "s", 0); err == nil {
		t.Error("a closed log has events")
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := eventlog.Open(dir, nil); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("a directory that others can write to: %v", err)
	}
}

// Whatever of the last record was written when the process died, the records
// before it are there, and the last is there as a whole or not at all.
func TestTornLastWriteIsCutOff(t *testing.T) {
	dir := t.TempDir()
	log := openFile(t, dir, nil)
	storetest.Append(t, log, "s", "one", "two")
	path := files(t, dir)[0]
	short, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	storetest.Append(t, log, "s", "three")
	_ = log.Close()
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := len(short); n <= len(whole); n++ {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		log := openFile(t, dir, nil)
		want, next := "two", int64(3)
		if n == len(whole) {
			want, next = "two three", 4
		}
		if got := storetest.After(t, log, "s", 1); got != want {
			t.Errorf("%d bytes of %d: %q, want %q", n-len(short), len(whole)-len(short), got, want)
		}
		if got := storetest.Append(t, log, "s", "new"); got != next {
			t.Errorf("%d bytes: the next position is %d, want %d", n-len(short), got, next)
		}
		log = reopen(t, log, dir, nil)
		if got := storetest.After(t, log, "s", 1); got != want+" new" {
			t.Errorf("%d bytes, once more: %q", n-len(short), got)
		}
		_ = log.Close()
	}
}

func TestDamagedLogHasLostAllAndGivesOutNoPositionTwice(t *testing.T) {
	dir := t.TempDir()
	log := openFile(t, dir, nil)
	last := storetest.Append(t, log, "s", "one", "two", "three", "four")
	_ = log.Close()
	path := files(t, dir)[0]
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, damage := range []func([]byte){
		func(text []byte) { text[bytes.Index(text, []byte("two"))] ^= 1 },
		func(text []byte) { clear(text[len(text)/2:]) }, // as a crash of the machine may leave it
	} {
		bad := bytes.Clone(text)
		damage(bad)
		if err := os.WriteFile(path, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		log := openFile(t, dir, nil)
		for position := range last + 1 {
			if got := storetest.After(t, log, "s", position); got != "unknown" {
				t.Errorf("behind %d: %q", position, got)
			}
		}
		if n := storetest.Append(t, log, "s", "new"); n <= last {
			t.Errorf("position %d is given out again", n)
		}
		_ = log.Close()
		for _, file := range files(t, dir) {
			_ = os.Remove(file)
		}
	}
}

func TestEventDamagedOnTheDiskIsLost(t *testing.T) {
	dir := t.TempDir()
	log := openFile(t, dir, nil)
	storetest.Append(t, log, "s", "one", "two")
	path := files(t, dir)[0]
	text, _ := os.ReadFile(path)
	text[bytes.Index(text, []byte("two"))] ^= 1
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteAt(text, 0); err != nil {
		t.Fatal(err)
	}
	if got := storetest.After(t, log, "s", 0); got != "lost" {
		t.Errorf("it is %q", got)
	}
}

func TestLimitsHoldAcrossRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		opts := &eventlog.MemoryOptions{MaxEvents: 2, TTL: time.Minute}
		log := openFile(t, dir, opts)
		storetest.Append(t, log, "s", "1", "2", "3")
		time.Sleep(40 * time.Second)
		storetest.Append(t, log, "new", "n")
		log = reopen(t, log, dir, opts)
		if got := storetest.After(t, log, "s", 0); got != "lost" {
			t.Errorf("beyond the limit: %q", got)
		}
		if got := storetest.After(t, log, "s", 1); got != "2 3" {
			t.Errorf("within the limit: %q", got)
		}
		time.Sleep(20 * time.Second)
		if got := storetest.After(t, log, "s", 1); got != "lost" {
			t.Errorf("after its time: %q", got)
		}
		log = reopen(t, log, dir, opts)
		if got := storetest.After(t, log, "s", 1); got != "lost" {
			t.Errorf("after its time and a restart: %q", got)
		}
		if got := storetest.After(t, log, "s", 3); got != "" {
			t.Errorf("who has seen all is told %q", got)
		}
		if got := storetest.After(t, log, "new", 0); got != "n" {
			t.Errorf("the newer stream has %q", got)
		}
		if n := storetest.Append(t, log, "s", "4"); n != 4 {
			t.Errorf("the next position is %d, want 4", n)
		}
	})
}

// As TestThereIsNeverAGap, with restarts, while files are rewritten all the time.
func TestThereIsNeverAGapAcrossRestarts(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	dir := t.TempDir()
	opts := &eventlog.MemoryOptions{MaxEvents: 20, MaxBytes: 8 << 10, MaxTotalBytes: 48 << 10}
	log := openFile(t, dir, opts)
	all := make(map[string][][]byte) // by position - 1
	var most int64
	for i := range 20_000 {
		name := fmt.Sprint(random.IntN(12))
		switch random.IntN(20) {
		case 0:
			name = fmt.Sprint("short", i)
			storetest.Append(t, log, name, "x")
			_ = log.Drop(t.Context(), name)
		case 1, 2, 3, 4:
			position := random.Int64N(int64(len(all[name])) + 3)
			got, err := log.After(t.Context(), name, position)
			if err != nil {
				if position == int64(len(all[name])) && position > 0 {
					t.Fatalf("After(%s, %d), the last: %v", name, position, err)
				}
				continue
			}
			if want := all[name][position:]; len(got) != len(want) || !bytes.Equal(bytes.Join(got, nil), bytes.Join(want, nil)) {
				t.Fatalf("After(%s, %d) has %d events, want %d", name, position, len(got), len(want))
			}
		default:
			event := fmt.Appendf(nil, "%d%s", random.Int(), strings.Repeat("x", random.IntN(900)))
			n, err := log.Append(t.Context(), name, eventlog.End, event)
			all[name] = append(all[name], event)
			if err != nil || n != int64(len(all[name])) {
				t.Fatalf("position is %d, want %d: %v", n, len(all[name]), err)
			}
		}
		if i%500 == 0 {
			var size int64
			for _, path := range files(t, dir) {
				info, err := os.Stat(path)
				if err != nil {
					t.Fatal(err)
				}
				size += info.Size()
			}
			most = max(most, size)
			log = reopen(t, log, dir, opts)
		}
	}
	if most > 256<<10 {
		t.Errorf("%d bytes were on the disk", most)
	}
}

func TestForgottenPositionsAreNotGivenOutAgainAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		opts := &eventlog.MemoryOptions{MaxTotalBytes: 64 << 10}
		log := openFile(t, dir, opts)
		storetest.Append(t, log, "idle", "1", "2", "3")
		time.Sleep(eventlog.DefaultTTL)
		for i := range 20_000 {
			storetest.Append(t, log, fmt.Sprint("short", i), "x")
		}
		flood := strings.Repeat("x", 1000)
		for range 4000 { // so that no old file is left
			storetest.Append(t, log, "flood", flood)
		}
		log = reopen(t, log, dir, opts)
		if n := storetest.Append(t, log, "idle", "4"); n <= 3 {
			t.Errorf("the next position is %d, which was given out before", n)
		}
	})
}

// write appends events to a few streams forever, and prints a line after each.
func write(dir string) {
	log, err := eventlog.Open(dir, &eventlog.FileOptions{MaxTotalBytes: 512 << 10})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	filler := bytes.Repeat([]byte("x"), 20_000)
	next := make(map[string]int64)
	for i := range 3 {
		stream := strconv.Itoa(i)
		for n := int64(0); ; n++ { // how far the process before came
			if _, err := log.After(ctx, stream, n); errors.Is(err, eventlog.ErrUnknown) {
				next[stream] = max(n, 1)
				break
			}
		}
	}
	for i := 0; ; i++ {
		stream := strconv.Itoa(i % 3)
		n, err := log.Append(ctx, stream, eventlog.End, append(fmt.Appendf(nil, "%s-%d ", stream, next[stream]), filler[:i*7919%20_000]...))
		next[stream]++
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(stream, n)
	}
}

func TestS49_ProcessThatIsKilledInTheMiddleOfWritingLosesNothingThatItSaidWasKept(t *testing.T) {
	dir := t.TempDir()
	said := make(map[string]int64)
	for round := range 6 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "EVENTLOG_TEST_WRITER="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		count := 0
		heed := func() {
			var stream string
			var n int64
			if _, err := fmt.Sscan(lines.Text(), &stream, &n); err != nil {
				t.Fatalf("the writer says %q", lines.Text())
			}
			if n <= said[stream] {
				t.Fatalf("position %d of stream %s is given out again", n, stream)
			}
			said[stream] = n
			count++
		}
		for count < 100+round*37 && lines.Scan() {
			heed()
		}
		_ = cmd.Process.Kill()
		for lines.Scan() && strings.Count(lines.Text(), " ") == 1 { // what it said before it died
			heed()
		}
		_ = cmd.Wait()
		log, err := eventlog.Open(dir, &eventlog.FileOptions{MaxTotalBytes: 512 << 10})
		if err != nil {
			t.Fatalf("after the kill: %v", err)
		}
		for stream, last := range said {
			events, err := log.After(t.Context(), stream, last-2)
			if err != nil || len(events) < 2 || len(events) > 3 {
				t.Fatalf("stream %s behind %d: %d events, %v", stream, last-2, len(events), err)
			}
			for i, e := range events {
				if want := fmt.Sprintf("%s-%d ", stream, last-1+int64(i)); !bytes.HasPrefix(e, []byte(want)) {
					t.Errorf("the event is %.20q, want %q", e, want)
				}
			}
		}
		_ = log.Close()
	}
}

// Whatever is in a file, the log opens and continues.
func FuzzOpen(f *testing.F) {
	dir := f.TempDir()
	log, err := eventlog.Open(dir, nil)
	if err != nil {
		f.Fatal(err)
	}
	for i := range 3 {
		_, _ = log.Append(f.Context(), "s", eventlog.End, fmt.Append(nil, i))
		_, _ = log.Append(f.Context(), "other", eventlog.End, fmt.Append(nil, i))
	}
	_ = log.Drop(f.Context(), "other")
	_ = log.Close()
	names, _ := filepath.Glob(filepath.Join(dir, "*.log"))
	text, err := os.ReadFile(names[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(text[:len(text)-3])
	f.Add([]byte{})
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, text []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(names[0])), text, 0o600); err != nil {
			t.Fatal(err)
		}
		log := openFile(t, dir, nil)
		n, err := log.Append(t.Context(), "s", eventlog.End, []byte("new"))
		if err != nil {
			t.Fatal(err)
		}
		log = reopen(t, log, dir, nil)
		if got := storetest.After(t, log, "s", n-1); got != "new" {
			t.Errorf("the event is %q", got)
		}
	})
}
