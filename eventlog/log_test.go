package eventlog_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/testkit/storetest"
)

// each runs a test with a log of each kind.
func each(t *testing.T, test func(t *testing.T, open func(*eventlog.MemoryOptions) eventlog.Log)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) {
		test(t, func(o *eventlog.MemoryOptions) eventlog.Log { return eventlog.NewMemory(o) })
	})
	t.Run("files", func(t *testing.T) {
		test(t, func(o *eventlog.MemoryOptions) eventlog.Log { return openFile(t, t.TempDir(), o) })
	})
}

// openFile opens a log in files. It is closed with the test.
func openFile(t *testing.T, dir string, o *eventlog.MemoryOptions) *eventlog.File {
	t.Helper()
	if o == nil {
		o = &eventlog.MemoryOptions{}
	}
	log, err := eventlog.Open(dir, &eventlog.FileOptions{MaxEvents: o.MaxEvents, MaxBytes: o.MaxBytes, MaxTotalBytes: o.MaxTotalBytes, TTL: o.TTL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

func TestB11_EveryLogKeepsItsPromises(t *testing.T) {
	each(t, func(t *testing.T, open func(*eventlog.MemoryOptions) eventlog.Log) {
		storetest.Log(t, func(*testing.T) eventlog.Log { return open(nil) })
		t.Run("events go when their stream has been silent for long", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				storetest.LogExpiry(t, open(&eventlog.MemoryOptions{TTL: time.Minute}), time.Minute)
			})
		})
	})
}

func TestEventsBeyondALimitAreLostAndSaidToBe(t *testing.T) {
	each(t, eventsBeyondALimitAreLostAndSaidToBe)
}

func eventsBeyondALimitAreLostAndSaidToBe(t *testing.T, open func(*eventlog.MemoryOptions) eventlog.Log) {
	big := strings.Repeat("x", 4000)
	for _, test := range []struct {
		name     string
		opts     eventlog.MemoryOptions
		events   []string
		position int64
		want     string
	}{
		{"by number, gone", eventlog.MemoryOptions{MaxEvents: 2}, []string{"1", "2", "3"}, 0, "lost"},
		{"by number, kept", eventlog.MemoryOptions{MaxEvents: 2}, []string{"1", "2", "3"}, 1, "2 3"},
		{"by bytes, all fit", eventlog.MemoryOptions{MaxBytes: 4600}, []string{big, "2"}, 0, big + " 2"},
		{"by bytes, kept", eventlog.MemoryOptions{MaxBytes: 4600}, []string{big, "2", big}, 2, big},
		{"by bytes, gone", eventlog.MemoryOptions{MaxBytes: 4600}, []string{big, "2", big}, 0, "lost"},
		{"newest event is larger than its stream may be", eventlog.MemoryOptions{MaxBytes: 10}, []string{"1", big}, 1, big},
		{"event is larger than all may be", eventlog.MemoryOptions{MaxTotalBytes: 1000}, []string{"1", big}, 1, "lost"},
		{"event is larger than all may be, seen already", eventlog.MemoryOptions{MaxTotalBytes: 1000}, []string{"1", big}, 2, ""},
		{"event after that", eventlog.MemoryOptions{MaxTotalBytes: 1000}, []string{"1", big, "3"}, 2, "3"},
		{"no limits", eventlog.MemoryOptions{MaxEvents: -1, MaxBytes: -1, MaxTotalBytes: -1, TTL: -1}, []string{"1", big, "3"}, 0, "1 " + big + " 3"},
	} {
		t.Run(test.name, func(t *testing.T) {
			log := open(&test.opts)
			if last := storetest.Append(t, log, "s", test.events...); last != int64(len(test.events)) {
				t.Errorf("last position is %d, want %d", last, len(test.events))
			}
			if got := storetest.After(t, log, "s", test.position); got != test.want {
				t.Errorf("After(%d) is %.60q, want %.60q", test.position, got, test.want)
			}
		})
	}
}

func TestStreamThatHoldsMostLosesFirst(t *testing.T) { each(t, streamThatHoldsMostLosesFirst) }

func streamThatHoldsMostLosesFirst(t *testing.T, open func(*eventlog.MemoryOptions) eventlog.Log) {
	log := open(&eventlog.MemoryOptions{MaxTotalBytes: 64 << 10})
	storetest.Append(t, log, "quiet", "q1", "q2")
	flood := strings.Repeat("x", 1000)
	for range 500 {
		storetest.Append(t, log, "loud", flood)
	}
	if got := storetest.After(t, log, "quiet", 0); got != "q1 q2" {
		t.Errorf("the quiet stream, although it is older, has %q", got)
	}
	if got := storetest.After(t, log, "loud", 0); got != "lost" {
		t.Errorf("the loud stream still has %d bytes", len(got))
	}
	if got := storetest.After(t, log, "loud", 480); len(got) != 20*1001-1 {
		t.Errorf("the newest events of the loud stream are %d bytes", len(got))
	}
}

func TestB11_PositionsAreNotGivenOutTwiceAfterALongSilence(t *testing.T) {
	each(t, positionsAreNotGivenOutTwiceAfterALongSilence)
}

func positionsAreNotGivenOutTwiceAfterALongSilence(t *testing.T, open func(*eventlog.MemoryOptions) eventlog.Log) {
	synctest.Test(t, func(t *testing.T) {
		log := open(nil)
		storetest.Append(t, log, "idle", "1", "2", "3")
		time.Sleep(eventlog.DefaultTTL)
		// So many streams are spent meanwhile that the idle one is forgotten.
		for i := range 20_000 {
			storetest.Append(t, log, fmt.Sprint("short", i), "x")
		}
		time.Sleep(eventlog.DefaultTTL)
		if got := storetest.After(t, log, "idle", 2); got != "unknown" {
			t.Errorf("the forgotten stream has %q", got)
		}
		if n := storetest.Append(t, log, "idle", "4"); n <= 3 {
			t.Errorf("the next position is %d, which was given out before", n)
		}
		if got := storetest.After(t, log, "idle", 2); got != "lost" {
			t.Errorf("a client that lost one event is told %q", got)
		}
	})
}

// What is kept is a suffix of what was appended, whatever the limits do.
func TestThereIsNeverAGap(t *testing.T) { each(t, thereIsNeverAGap) }

func thereIsNeverAGap(t *testing.T, open func(*eventlog.MemoryOptions) eventlog.Log) {
	random := rand.New(rand.NewPCG(1, 2))
	log := open(&eventlog.MemoryOptions{MaxEvents: 20, MaxBytes: 4 << 10, MaxTotalBytes: 16 << 10})
	all := make(map[string][][]byte)
	for range 20_000 {
		name := fmt.Sprint(random.IntN(12))
		switch random.IntN(20) {
		case 0:
			_ = log.Drop(t.Context(), name)
			delete(all, name)
		case 1, 2, 3, 4:
			position := random.Int64N(int64(len(all[name])) + 3)
			got, err := log.After(t.Context(), name, position)
			if err != nil {
				continue
			}
			want := all[name][position:]
			if len(got) != len(want) || !bytes.Equal(bytes.Join(got, nil), bytes.Join(want, nil)) {
				t.Fatalf("After(%s, %d) has %d events, want %d", name, position, len(got), len(want))
			}
		default:
			event := fmt.Appendf(nil, "%d%s", random.Int(), strings.Repeat("x", random.IntN(900)))
			n, _ := log.Append(t.Context(), name, eventlog.End, event)
			all[name] = append(all[name], event)
			if n != int64(len(all[name])) {
				t.Fatalf("position is %d, want %d", n, len(all[name]))
			}
		}
	}
}

func BenchmarkMemoryAppend(b *testing.B) { benchmarkAppend(b, eventlog.NewMemory(nil)) }

func BenchmarkFileAppend(b *testing.B) {
	log, err := eventlog.Open(b.TempDir(), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer log.Close()
	benchmarkAppend(b, log)
}

func benchmarkAppend(b *testing.B, log eventlog.Log) {
	names := make([]string, 1000)
	for i := range names {
		names[i] = fmt.Sprint("stream", i)
	}
	event := bytes.Repeat([]byte("x"), 300)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		_, _ = log.Append(b.Context(), names[i%len(names)], eventlog.End, event)
	}
}
