package retry_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/retry"
)

func TestTheWaitDoublesUpToTheMaximum(t *testing.T) {
	b := retry.Backoff{Min: 250 * time.Millisecond, Max: 10 * time.Second}
	for failures, most := range map[int]time.Duration{
		-1: 0, 0: 0, 1: 250 * time.Millisecond, 2: 500 * time.Millisecond, 6: 8 * time.Second, 7: 10 * time.Second, 1 << 30: 10 * time.Second,
	} {
		for range 100 {
			if got := b.Wait(failures); got > most || got < most*4/5 {
				t.Errorf("Wait(%d) = %v, want %v or up to a fifth less", failures, got, most)
			}
		}
	}
}

func TestWaitsDifferByChance(t *testing.T) {
	b := retry.Backoff{Min: time.Hour, Max: time.Hour}
	for first := b.Wait(1); b.Wait(1) == first; { // two equal ones are one in 10¹²
		t.Fatal("two waits are the same")
	}
}

func TestALargeMinimumIsCutToTheMaximum(t *testing.T) {
	if got := (retry.Backoff{Min: time.Hour, Max: time.Second}).Wait(1); got > time.Second {
		t.Errorf("Wait = %v, want no more than Max", got)
	}
	if got := (retry.Backoff{Min: 1 << 61, Max: 1<<63 - 1}).Wait(40); got <= 0 {
		t.Errorf("Wait = %v, want no overflow", got)
	}
}

func TestSleepEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := retry.Sleep(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("Sleep: %v after %v", err, time.Since(began))
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(gone)
		if err := retry.Sleep(ctx, time.Minute); !errors.Is(err, gone) {
			t.Errorf("Sleep: %v, want the reason", err)
		}
	})
}
