package eventlog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
)

// A disk has room for so many bytes of segments, and writes what fits.
type disk struct {
	log  *File
	room int64
}

func (d *disk) writeAt(file *os.File, text []byte, at int64) (int, error) {
	left := d.room - d.log.disk
	if int64(len(text)) <= left {
		return file.WriteAt(text, at)
	}
	n, _ := file.WriteAt(text[:max(0, left)], at)
	return n, syscall.ENOSPC
}

// openOn opens a log on a disk with that much room.
func openOn(t *testing.T, dir string, room int64) (*File, *disk) {
	t.Helper()
	log, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	d := &disk{log, room}
	log.writeAt = d.writeAt
	return log, d
}

func TestS41_FullDiskIsAnErrorAndALostStreamAndNoGap(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	log, _ := openOn(t, dir, 500)
	mustAppend := func(stream, event string, want int64) {
		t.Helper()
		if n, err := log.Append(ctx, stream, End, []byte(event)); err != nil || n != want {
			t.Fatalf("Append(%s, %.10s): %d, %v, want %d", stream, event, n, err, want)
		}
	}
	wantAfter := func(stream string, position int64, want string, wantErr error) {
		t.Helper()
		events, err := log.After(ctx, stream, position)
		got := make([]string, len(events))
		for i, e := range events {
			got[i] = string(e)
		}
		if !errors.Is(err, wantErr) || strings.Join(got, " ") != want {
			t.Errorf("After(%s, %d): %q, %v; want %q, %v", stream, position, got, err, want, wantErr)
		}
	}
	mustAppend("quiet", strings.Repeat("q", 200), 1)
	mustAppend("s", "one", 1)
	mustAppend("s", "two", 2)
	if _, err := log.Append(ctx, "s", End, []byte(strings.Repeat("x", 200))); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("on a full disk: %v", err)
	}
	for _, position := range []int64{0, 1, 2} {
		wantAfter("s", position, "", ErrLost)
	}
	wantAfter("quiet", 0, strings.Repeat("q", 200), nil)

	// That the stream is lost is known to the next process, too.
	_ = log.Close()
	log, d := openOn(t, dir, 500)
	for _, position := range []int64{0, 1, 2} {
		wantAfter("s", position, "", ErrLost)
	}
	wantAfter("quiet", 0, strings.Repeat("q", 200), nil)
	d.room = 10_000
	mustAppend("s", "four", 4)
	wantAfter("s", 2, "", ErrLost)
	wantAfter("s", 3, "four", nil)
	_ = log.Close()
	log, _ = openOn(t, dir, 10_000)
	wantAfter("s", 2, "", ErrLost)
	wantAfter("s", 3, "four", nil)
}

// A disk smaller than our limits costs events, and never the use of the log. It is told
// to those who append, and not to the logger with each event.
func TestS41_DiskThatIsSmallerThanTheLimits(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	var said bytes.Buffer
	reopen := func() *File {
		log, _ := openOn(t, dir, 100<<10)
		log.logger = slog.New(slog.NewTextHandler(&said, nil))
		return log
	}
	log := reopen()
	last := make(map[string]int64)
	all := make(map[string]map[int64]string)
	failures := 0
	for i := range 3000 {
		stream := fmt.Sprint(i % 5)
		event := fmt.Sprint(i, strings.Repeat("x", 500))
		n, err := log.Append(ctx, stream, End, []byte(event))
		if err != nil {
			failures++
		} else {
			if n <= last[stream] {
				t.Fatalf("position %d of %s is given out again", n, stream)
			}
			last[stream] = n
			if all[stream] == nil {
				all[stream] = make(map[int64]string)
			}
			all[stream][n] = event
		}
		events, err := log.After(ctx, stream, max(0, last[stream]-3))
		for j, e := range events {
			if at := max(0, last[stream]-3) + int64(j) + 1; all[stream][at] != string(e) {
				t.Fatalf("position %d of %s is %.10q, want %.10q", at, stream, e, all[stream][at])
			}
		}
		if err != nil && !errors.Is(err, ErrLost) && !errors.Is(err, ErrUnknown) {
			t.Fatal(err)
		}
		if i%700 == 699 {
			_ = log.Close()
			log = reopen()
		}
	}
	if failures == 0 || failures > 600 {
		t.Errorf("%d of 3000 events could not be written", failures)
	}
	if lines := strings.Count(said.String(), "\n"); lines > 10 {
		t.Errorf("it has said %d lines: %.1000s", lines, said.String())
	}
}
