package gateway

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/state"
)

// A broken store and log write nothing while they have an error.
type (
	brokenStore struct {
		state.Store
		err *error
	}
	brokenLog struct {
		eventlog.Log
		err *error
	}
)

func (s brokenStore) Put(kind, key string, record []byte) error {
	if *s.err != nil {
		return *s.err
	}
	return s.Store.Put(kind, key, record)
}

func (l brokenLog) Append(ctx context.Context, stream string, event []byte) (int64, error) {
	if *l.err != nil {
		return 0, *l.err
	}
	return l.Log.Append(ctx, stream, event)
}

func TestS41_StateThatIsNotWrittenIsToldOnceAndInTheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		var err error
		d := &disk{log: slog.New(slog.NewTextHandler(&said, nil))}
		store, log := diskStore{brokenStore{state.NewMemory(0), &err}, d}, diskLog{brokenLog{eventlog.NewMemory(nil), &err}, d}
		write := func() {
			t.Helper()
			_, logged := log.Append(t.Context(), "s", []byte("e"))
			if put := store.Put("k", "k", nil); !errors.Is(put, err) || !errors.Is(logged, err) {
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
		if store.Delete("k", "k") != nil || log.Drop(t.Context(), "s") != nil || d.failure() == nil {
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
	err := fmt.Errorf("wrapped: %w", state.ErrTooLarge)
	d := &disk{log: slog.New(slog.DiscardHandler)}
	if got := (diskStore{brokenStore{state.NewMemory(0), &err}, d}).Put("k", "k", nil); !errors.Is(got, err) || d.failure() != nil {
		t.Errorf("got %v, failure %+v", got, d.failure())
	}
}
