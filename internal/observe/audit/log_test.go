package audit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
)

// records returns those of a log, which must be whole.
func records(t testing.TB, path string) (list []*Record) {
	t.Helper()
	if _, err := Verify(path); err != nil {
		t.Fatal(err)
	}
	if err := Read(func(r *Record) bool {
		list = append(list, r)
		return true
	}, path); err != nil {
		t.Fatal(err)
	}
	return list
}

func kinds(list []*Record) string {
	var words []string
	for _, r := range list {
		words = append(words, r.Kind)
	}
	return strings.Join(words, " ")
}

func TestRecordHasAllOfAnEventAndNoSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "logs", "audit.log")
	l := reopen(t, path, nil)
	caller := &dragoman.Caller{
		Principal: "ada", Credential: "bearer", Address: "192.0.2.1", Client: "cli", Session: "canary-session-id", Transport: "http",
		Header: map[string][]string{"Authorization": {"Bearer canary-header"}}, Passed: "canary-passed",
	}
	l.Record(Event{
		Kind: Call, Time: time.Date(2026, 1, 2, 3, 4, 5, 6789, time.FixedZone("", 3600)), Request: "r1", Caller: CallerOf(caller), Server: "files", Method: "tools/call", Name: "read",
		Outcome: Failed, Code: -32602, Duration: 1500 * time.Microsecond, In: 10, Out: 20, Reason: "it said Bearer canary-bearer-1234",
		Arguments: Arguments([]byte(`{"path":"/tmp","pass\u0077ord":"canary-1","nested":[{"api_key":{"deep":["canary-2"]}}],"json":"{\"token\":\"canary-3\"}","n":1.50}`)),
	})
	l.Record(Event{Kind: Call, Method: "resources/read", Name: "https://ada:canary-4@example.com/x?api_token=canary-5&page=2"})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	lines := readLines(t, path)
	want := `{"seq":2,"time":"2026-01-02T02:04:05.000006Z","event":"call","request":"r1","principal":"ada","credential":"bearer","address":"192.0.2.1","client":"cli",` +
		`"session":"` + "SESSION" + `","transport":"http","server":"files","method":"tools/call","name":"read","outcome":"error","code":-32602,"reason":"it said Bearer [redacted]",` +
		`"in":10,"out":20,"arguments":"{\"path\":\"/tmp\",\"password\":\"[redacted]\",\"nested\":[{\"api_key\":\"[redacted]\"}],\"json\":\"{\\\"token\\\":\\\"[redacted]\\\"}\",\"n\":1.50}","micros":1500,"prev":"`
	got := records(t, path)
	if s := got[1].Session; len(s) != 16 || !strings.HasPrefix(string(lines[1]), strings.Replace(want, "SESSION", s, 1)) {
		t.Errorf("got\n%swant\n%s", lines[1], want)
	}
	if want := "https://[redacted]@example.com/x?api_token=[redacted]&page=2"; got[2].Name != want {
		t.Errorf("the URI is %s, want %s", got[2].Name, want)
	}
	if all := string(bytes.Join(lines, nil)); strings.Contains(all, "canary") {
		t.Errorf("there is a secret in it:\n%s", all)
	}
}

// hostile is text that would be a line of its own, or do something to a terminal, if it were
// written as it is.
const hostile = "a\n{\"seq\":99,\"event\":\"stop\"}\r\x1b[2J\x1b]0;x\x07\x7f\u0085\u009b31m\u2028\u2029\u202e\u2066\u200b\ufeff\U000e0041\x00\xff\"\\é"

func TestS56_HostileTextIsOneLineAndCannotBeSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := reopen(t, path, nil)
	who := Caller{hostile, hostile, hostile, hostile, hostile, hostile}
	l.Record(Event{Kind: hostile, Request: hostile, Caller: who, Server: hostile, Method: hostile, Name: hostile, Outcome: hostile, Rule: hostile, Reason: hostile, Arguments: Arguments([]byte(`{"x":"\u001b\n\u202e"}`))})
	l.Record(Event{Kind: Call, Name: hostile + strings.Repeat("é\x1b", 1<<20), Reason: strings.Repeat("\x01", 1<<20), Arguments: strings.Repeat("\x01", 1<<20), Method: strings.Repeat("x", 1<<20)})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	lines := readLines(t, path)
	if len(lines) != 3 {
		t.Fatalf("there are %d lines", len(lines))
	}
	for _, line := range lines {
		if !json.Valid(line) || len(line) > maxLine {
			t.Errorf("%d bytes: %.200s", len(line), line)
		}
		for _, r := range strings.TrimSuffix(string(line), "\n") {
			if r != 'é' && r != '…' && r != '\ufffd' && (r < ' ' || r > '~') {
				t.Errorf("%q is in a line", r)
			}
		}
	}
	if got := records(t, path); got[1].Server != strings.ToValidUTF8(hostile, "\ufffd") {
		t.Errorf("it reads as %q", got[1].Server)
	}
}

func TestRestartContinuesWithTheChain(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	for i := range 3 {
		l := reopen(t, path, nil)
		l.Record(call(i))
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := kinds(records(t, path)); got != "file call call call" {
		t.Errorf("got %s", got)
	}
	// Also without the head, and when the file was put aside by hand.
	_ = os.Remove(headName(path))
	l := reopen(t, path, nil)
	l.Record(call(3))
	_ = l.Close()
	if err := os.Rename(path, rotatedName(path, 1)); err != nil {
		t.Fatal(err)
	}
	l = reopen(t, path, nil)
	l.Record(call(4))
	_ = l.Close()
	if got := kinds(records(t, path)); got != "file call call call call file call" {
		t.Errorf("got %s", got)
	}
}

func TestTornLineIsMarkedAndTheChainContinues(t *testing.T) {
	for name, rest := range map[string]string{
		"a part of a line":     `{"seq":5,"time":"2026-`,
		"a line that is whole": "",
		"text":                 "hello\nthere\n",
		"text without an end":  "hello\nthere",
		"zeros":                strings.Repeat("\x00", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			path := written(t, 3)
			text := bytes.Join(readLines(t, path), nil)
			want := "file call call call torn call"
			if rest == "" {
				text = bytes.TrimSuffix(text, []byte("\n"))
				want = "file call call call call"
			}
			writeLines(t, path, text, []byte(rest))
			l := reopen(t, path, nil)
			l.Record(call(3))
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if got := kinds(records(t, path)); got != want {
				t.Errorf("got %s", got)
			}
			// What was torn cannot be changed afterwards.
			if rest != "" {
				lines := readLines(t, path)
				lines[4][0] ^= 1
				writeLines(t, path, lines...)
				if _, err := Verify(path); err == nil {
					t.Error("a change of what was torn is not found")
				}
			}
		})
	}
}

func TestFirstLineThatIsTornIsMarked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	writeLines(t, path, []byte(`{"seq":1,"ti`))
	l := reopen(t, path, nil)
	l.Record(call(1))
	_ = l.Close()
	if got := kinds(records(t, path)); got != "torn file call" {
		t.Errorf("got %s", got)
	}
}

func TestFileThatWasCutIsSaidAndFoundForGood(t *testing.T) {
	path := written(t, 9)
	writeLines(t, path, readLines(t, path)[:6]...)
	l := reopen(t, path, nil)
	l.Record(call(9))
	_ = l.Close()
	var said *Record
	_ = Read(func(r *Record) bool {
		if r.Kind == Cut {
			said = r
		}
		return true
	}, path)
	if said == nil || said.Count != 4 || said.Seq != 11 {
		t.Errorf("it says %+v", said)
	}
	if _, err := Verify(path); err == nil || !strings.Contains(err.Error(), "line 7: records 7 to 10 are missing") {
		t.Errorf("got %v", err)
	}
}

func TestFileThatWasRemovedIsSaidAndFound(t *testing.T) {
	path := written(t, 9)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	l := reopen(t, path, nil)
	l.Record(call(9))
	_ = l.Close()
	if _, err := Verify(path); err == nil || !strings.Contains(err.Error(), "line 1: 10 records before it are missing") {
		t.Errorf("got %v", err)
	}
}

func TestFileThatIsEmptiedIsSaidAndFound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.log")
		l := reopen(t, path, nil)
		l.Record(call(1))
		time.Sleep(2 * gatherTime)
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * gatherTime)
		l.Record(call(2))
		_ = l.Close()
		if _, err := Verify(path); err == nil || !strings.Contains(err.Error(), "2 records before it are missing") {
			t.Errorf("got %v", err)
		}
	})
}

func TestFileOfSomebodyElseIsNotTouched(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes.txt")
	for _, text := range []string{"dear diary\n", "dear diary", strings.Repeat("x", 100<<10)} {
		writeLines(t, path, []byte(text))
		if l, err := Open(path, &Options{}); err == nil || !strings.Contains(err.Error(), "move it away") {
			t.Errorf("got %v, %v", l, err)
		}
		if got, _ := os.ReadFile(path); string(got) != text {
			t.Errorf("it has become %q", got)
		}
	}
}

func TestTwoCannotWriteOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := reopen(t, path, nil)
	if _, err := Open(path, &Options{}); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	_ = l.Close()
	reopen(t, path, nil)
}

func TestFileThatIsTakenAwayIsBegunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.log")
		l := reopen(t, path, nil)
		l.Record(call(1))
		time.Sleep(2 * gatherTime)
		moved := path + ".moved"
		if err := os.Rename(path, moved); err != nil {
			t.Skip(err) // not on Windows
		}
		time.Sleep(2 * gatherTime)
		l.Record(call(2))
		_ = l.Close()
		if _, err := Verify(path, moved); err != nil {
			t.Error(err)
		}
		if got := readLines(t, path); len(got) != 3 {
			t.Errorf("there are %d lines", len(got))
		}
		if _, err := Verify(path); err == nil {
			t.Error("it is not missed")
		}
	})
}

func TestFileIsPutAsideWhenItIsOld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.log")
		l := reopen(t, path, &Options{MaxAge: time.Hour})
		for i := range 4 {
			l.Record(call(i))
			time.Sleep(40 * time.Minute)
		}
		_ = l.Close()
		if got := kinds(records(t, path)); got != "file call call file call call" {
			t.Errorf("got %s", got)
		}
	})
}

// A fullDisk takes so many bytes of each write, and none if there is no room. It can fail in other ways.
type fullDisk struct {
	room  atomic.Int64
	fails atomic.Pointer[error]                   // what writes return that write a half; nil if they write all
	after atomic.Pointer[func(path string) error] // what happens behind the next write
}

func (d *fullDisk) writeAt(f *os.File, text []byte, at int64) (int, error) {
	if err := d.fails.Load(); err != nil {
		n, _ := f.WriteAt(text[:len(text)/2], at)
		return n, *err
	}
	room := d.room.Load()
	if int64(len(text)) > room {
		n, _ := f.WriteAt(text[:room], at)
		return n, syscall.ENOSPC
	}
	n, err := f.WriteAt(text, at)
	if after := d.after.Load(); after != nil {
		err = errors.Join(err, (*after)(f.Name()))
	}
	return n, err
}

func (d *fullDisk) repair() {
	d.room.Store(1 << 30)
	d.fails.Store(nil)
	d.after.Store(nil)
}

// openOn opens a log on a disk that can be full.
func openOn(t *testing.T, opts *Options) (*Log, *fullDisk, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "audit.log")
	f, err := openFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := &fullDisk{}
	d.repair()
	f.writeAt = d.writeAt
	l := start(f, opts)
	t.Cleanup(func() { _ = l.Close() })
	return l, d, path
}

// A buffer is one that goroutines share.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func TestFullDiskIsSaidOnceAndWhatWasLostComesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said buffer
		l, disk, path := openOn(t, &Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
		l.Record(call(0))
		time.Sleep(2 * gatherTime)
		disk.room.Store(100)
		for i := range maxQueue + maxBatch + 500 {
			l.Record(call(i + 1))
			if i < 3 {
				time.Sleep(2 * time.Second) // some attempts
			}
		}
		time.Sleep(time.Minute)
		s := l.Status()
		if s.Failure == nil || s.Lost == 0 || !strings.Contains(s.Failure.Error, "no space left") || begin(t, l, 0) != nil {
			t.Errorf("the status is %+v, calls: %v", s, begin(t, l, 0))
		}
		lost := s.Lost
		disk.room.Store(1 << 30)
		time.Sleep(2 * time.Second)
		l.Record(call(-1))
		time.Sleep(time.Minute)
		if s = l.Status(); s.Failure != nil || s.Lost != 0 {
			t.Errorf("there is room, and the status is %+v", s)
		}
		_ = l.Close()
		got := records(t, path)
		if got[1].Kind != Call || got[2].Kind != Lost || got[2].Count != lost || got[3].Name != "tool1" {
			t.Errorf("got %s, %d lost, want %d", kinds(got[:5]), got[2].Count, lost)
		}
		if n := uint64(len(got)) - 3 + lost; n != maxQueue+maxBatch+500+1 {
			t.Errorf("%d events are written or counted", n)
		}
		if out := said.String(); strings.Count(out, "\n") != 2 || !strings.Contains(out, "is not written") || !strings.Contains(out, "is written again") {
			t.Errorf("it says %s", out)
		}
	})
}

// begin begins a call.
func begin(t *testing.T, l *Log, i int) error {
	t.Helper()
	e := call(i)
	return l.Begin(t.Context(), &e)
}

func TestCallIsWrittenBeforeItIsPassedOnOrRefused(t *testing.T) {
	for name, damage := range map[string]func(d *fullDisk){
		"a full disk":            func(d *fullDisk) { d.room.Store(100) },
		"a limit of files":       func(d *fullDisk) { d.fails.Store(new(error(syscall.EFBIG))) },
		"a short write":          func(d *fullDisk) { d.fails.Store(new(error)) },
		"a file that is cut":     func(d *fullDisk) { d.after.Store(new(func(path string) error { return os.Truncate(path, 0) })) },
		"a file that is deleted": func(d *fullDisk) { d.after.Store(new(os.Remove)) },
		"a file that is replaced": func(d *fullDisk) {
			d.after.Store(new(func(path string) error {
				return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o600))
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS == "windows" && strings.HasPrefix(name, "a file") {
				t.Skip("a file that is open cannot be removed there")
			}
			synctest.Test(t, func(t *testing.T) {
				l, disk, path := openOn(t, &Options{Refuse: true})
				const calls = 40
				passedOn := 0
				for i := range calls {
					if i == calls/2 {
						damage(disk) // and nobody has noticed
					}
					if err := begin(t, l, i); err == nil {
						passedOn++
						l.Record(call(i))
					} else if !errors.Is(err, errNotWritten) {
						t.Fatal(err)
					}
				}
				if passedOn != calls/2 || l.Status().Failure == nil {
					t.Errorf("%d calls are passed on, want %d; the status is %+v", passedOn, calls/2, l.Status())
				}
				disk.repair()
				time.Sleep(2 * retryInterval)
				if err := begin(t, l, calls); err != nil {
					t.Errorf("it can be written again: %v", err)
				}
				_ = l.Close()
				started, refused := 0, uint64(0)
				_ = Read(func(r *Record) bool {
					switch r.Kind {
					case CallStarted:
						started++
					case CallsRefused:
						refused += r.Count
					}
					return true
				}, path)
				if want := passedOn + 1; started != want && !strings.HasPrefix(name, "a file") {
					t.Errorf("%d calls are written, want %d", started, want)
				}
				if refused != calls/2 {
					t.Errorf("%d calls are counted as refused", refused)
				}
			})
		})
	}
}

func TestCallThatBeginsWaitsForNoOtherEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, _ := openOn(t, &Options{Refuse: true})
		at := time.Now()
		for i := range 10 {
			l.Record(call(i)) // is gathered
			synctest.Wait()
			if err := begin(t, l, i); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(at); took > 0 {
			t.Errorf("it takes %v", took)
		}
	})
}

func TestCallWhoseClientHasLeftIsNotPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, _, _ := openOn(t, &Options{Refuse: true})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l.file.writeAt = func(f *os.File, text []byte, at int64) (int, error) {
			time.Sleep(time.Minute)
			return f.WriteAt(text, at)
		}
		e := call(1)
		if err := l.Begin(ctx, &e); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestEndOnAFullDiskDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said buffer
		l, disk, _ := openOn(t, &Options{Logger: slog.New(slog.NewTextHandler(&said, nil))})
		disk.room.Store(0)
		l.Record(call(1))
		began := time.Now()
		_ = l.Close()
		if time.Since(began) > time.Second || !strings.Contains(said.String(), "lost=1") {
			t.Errorf("after %v it says %s", time.Since(began), said.String())
		}
		l.Record(call(2)) // too late, and no panic
	})
}

func TestWhoIsDeniedAtTheEndpointCannotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "audit.log")
		l := reopen(t, path, nil)
		for range 10_000 {
			l.Deny(Event{Caller: Caller{Address: "192.0.2.66"}, Code: 403})
		}
		l.Deny(Event{Caller: Caller{Address: "192.0.2.1"}, Code: 403}) // is not hidden by that
		for i := range 1000 {
			l.Deny(Event{Caller: Caller{Address: fmt.Sprintf("2001:db8::%x", i)}, Code: 403})
		}
		time.Sleep(2 * deniedWindow)
		l.Deny(Event{Caller: Caller{Address: "192.0.2.66"}, Code: 403})
		_ = l.Close()
		var single, counted uint64
		honest := false
		for _, r := range records(t, path)[1:] {
			honest = honest || r.Address == "192.0.2.1"
			if r.Count > 0 {
				counted += r.Count
			} else {
				single++
			}
		}
		if single != maxDenied+1 || single+counted != 11_002 || !honest {
			t.Errorf("%d are written and %d counted; the other address is there: %v", single, counted, honest)
		}
	})
}

func TestManyWritersLoseNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := reopen(t, path, &Options{MaxSize: 50 << 10, Keep: 1000})
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 500 {
				l.Record(call(i*1000 + j))
				if j%100 == 0 {
					runtime.Gosched()
				}
			}
		})
	}
	group.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, r := range records(t, path) {
		if r.Kind == Call {
			n++
		}
	}
	if s := l.Status(); uint64(n)+s.Lost != 4000 {
		t.Errorf("%d are written, %d lost", n, s.Lost)
	}
}

func TestNoLogTakesEverythingAndCostsNothing(t *testing.T) {
	var l *Log
	e := call(1)
	if n := testing.AllocsPerRun(100, func() {
		l.Record(e)
		l.Deny(e)
		if l.Refuses() || l.WantsArguments() || l.Status() != nil {
			t.Error("it does something")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	l.Configure(&Options{})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestLinesThatAreTooLongAreNoRecords(t *testing.T) {
	lines := newLines(strings.NewReader(strings.Repeat("x", 3*maxLine) + "\nshort"))
	var n int
	for {
		line, err := lines.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if len(line) > maxLine {
			t.Errorf("a line of %d bytes", len(line))
		}
		n++
	}
	if n < 4 || !lines.noEnd {
		t.Errorf("%d lines", n)
	}
}
