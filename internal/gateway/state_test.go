package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/store"
)

// A broken store and log write nothing while they have an error.
type (
	brokenStore struct {
		eventlog.Records
		err *error
	}
	brokenLog struct {
		eventlog.Log
		err *error
	}
)

func (s brokenStore) Put(ctx context.Context, key string, record []byte, expected uint64) (uint64, error) {
	if *s.err != nil {
		return 0, *s.err
	}
	return s.Records.Put(ctx, key, record, expected)
}

func (l brokenLog) Append(ctx context.Context, stream string, after int64, event []byte) (int64, error) {
	if *l.err != nil {
		return 0, *l.err
	}
	return l.Log.Append(ctx, stream, after, event)
}

func TestS41_StateThatIsNotWrittenIsToldOnceAndInTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		var err error
		d := &disk{log: slog.New(slog.NewTextHandler(&said, nil))}
		store, log := diskRecords{brokenStore{store.NewMemory(nil), &err}, d}, diskLog{brokenLog{eventlog.NewMemory(nil), &err}, d}
		write := func() {
			t.Helper()
			_, logged := log.Append(t.Context(), "s", eventlog.End, []byte("e"))
			if _, put := store.Put(t.Context(), "k", nil, eventlog.AnyRevision); !errors.Is(put, err) || !errors.Is(logged, err) {
				t.Fatalf("writes come to %v and %v, want %v", put, logged, err)
			}
		}
		lines := func(want int, last string) {
			t.Helper()
			if got := said.String(); strings.Count(got, "\n") != want || !strings.Contains(got, last) {
				t.Errorf("it has said %q, want %d lines and %q", got, want, last)
			}
		}
		write()
		if d.failure() != nil {
			t.Error("it fails from the beginning")
		}
		began := time.Now()
		for i := range 100 {
			err = fmt.Errorf("no room %d", i)
			write()
			time.Sleep(time.Second)
		}
		lines(1, "no room 0")
		if f := d.failure(); f == nil || f.Writes != 200 || f.Error != "no room 99" || !f.Since.Equal(began) || !f.Last.Equal(began.Add(99*time.Second)) {
			t.Errorf("the failure is %+v", f)
		}

		// A write that succeeds now and then is no end of it, and neither is a
		// removal.
		err = nil
		write()
		lines(1, "")
		time.Sleep(StateCalm)
		if store.Delete(t.Context(), "k", eventlog.AnyRevision) != nil || log.Drop(t.Context(), "s") != nil || d.failure() == nil {
			t.Error("it ends with a removal")
		}
		write()
		lines(2, "written again")
		if f := d.failure(); f != nil {
			t.Errorf("the failure is still %+v", f)
		}

		err = errors.New("once more")
		write()
		lines(3, "once more")
		if f := d.failure(); f == nil || f.Writes != 2 {
			t.Errorf("the failure is %+v", f)
		}
	})
}

func TestRecordThatIsTooLargeIsNoFailureOfTheDisk(t *testing.T) {
	err := fmt.Errorf("wrapped: %w", store.ErrTooLarge)
	d := &disk{log: slog.New(slog.DiscardHandler)}
	if _, got := (diskRecords{brokenStore{store.NewMemory(nil), &err}, d}).Put(t.Context(), "k", nil, 0); !errors.Is(got, err) || d.failure() != nil {
		t.Errorf("got %v, failure %+v", got, d.failure())
	}
}

func TestStateThatOtherUsersCanChangeIsNotUsed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean nothing there")
	}
	for name, damage := range map[string]func(dir string) error{
		"others can write to the directory": func(dir string) error { return os.Chmod(dir, 0o777) },
		"the directory is a link":           func(dir string) error { return errors.Join(os.Rename(dir, dir+".real"), os.Symlink(dir+".real", dir)) },
		"others can read the keys": func(dir string) error {
			return errors.Join(os.Chmod(filepath.Join(dir, "tags.key"), 0o644), os.Chmod(filepath.Join(dir, "sign-ins.key"), 0o644))
		},
		"the keys are links": func(dir string) (err error) {
			for _, key := range []string{"tags.key", "sign-ins.key"} {
				path := filepath.Join(dir, key)
				err = errors.Join(err, os.Rename(path, path+".real"), os.Symlink(key+".real", path))
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "state")
			open := func() (sessions, signedIn error) {
				g := &Gateway{opts: Options{State: dir}, first: &config.File{}, log: slog.New(slog.DiscardHandler)}
				_, sessions = g.openState()
				_, _, signedIn = g.signIns.open(dir, time.Hour, &disk{log: g.log})
				if err := g.closeState(); err != nil {
					t.Error(err)
				}
				return sessions, signedIn
			}
			if sessions, signedIn := open(); sessions != nil || signedIn != nil {
				t.Fatalf("a new directory: %v, %v", sessions, signedIn)
			}
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			if sessions, signedIn := open(); sessions == nil || signedIn == nil {
				t.Errorf("it is used: %v, %v", sessions, signedIn)
			} else if text := sessions.Error(); !strings.Contains(text, dir) {
				t.Errorf("the error does not name the directory: %s", text)
			}
		})
	}
}
