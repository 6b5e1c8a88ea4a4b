package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/store"
)

// Leases tests an empty store of leases. It sleeps ttl, which is how long they last.
func Leases(t *testing.T, leases store.Leases, ttl time.Duration) {
	ctx := t.Context()
	first, err := leases.Acquire(ctx, "s", "a", ttl)
	if err != nil || first.Name != "s" || first.Holder != "a" {
		t.Fatalf("Acquire: %+v, %v", first, err)
	}
	if _, err := leases.Acquire(ctx, "s", "b", ttl); !errors.Is(err, store.ErrHeld) {
		t.Errorf("Acquire of what another holds: %v", err)
	}
	if other, err := leases.Acquire(ctx, "other", "b", ttl); err != nil {
		t.Errorf("Acquire of another name: %+v, %v", other, err)
	}
	renewed, err := leases.Renew(ctx, first, 2*ttl)
	if err != nil || renewed.Epoch != first.Epoch || !renewed.Expires.After(first.Expires) {
		t.Errorf("Renew: %+v, %v", renewed, err)
	}
	if err := leases.Release(ctx, renewed); err != nil {
		t.Error(err)
	}
	if _, err := leases.Renew(ctx, renewed, ttl); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("Renew of what was released: %v", err)
	}
	second, err := leases.Acquire(ctx, "s", "b", ttl)
	if err != nil || second.Epoch <= renewed.Epoch {
		t.Fatalf("Acquire of what was released: %+v, %v", second, err)
	}
	if err := leases.Release(ctx, renewed); err != nil {
		t.Errorf("Release of what another holds: %v", err)
	}
	time.Sleep(ttl)
	if _, err := leases.Renew(ctx, second, ttl); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("Renew of what has expired: %v", err)
	}
	if third, err := leases.Acquire(ctx, "s", "c", ttl); err != nil || third.Epoch <= second.Epoch {
		t.Errorf("Acquire of what has expired: %+v, %v", third, err)
	}
}

// LeasesAreExclusive tests that only one of several concurrent holders gets a lease. It must not run in
// a bubble of synctest: stores wait for files, for mutexes and for the network, during which a
// bubble's time stands still.
func LeasesAreExclusive(t *testing.T, leases store.Leases) {
	var wg sync.WaitGroup
	var held atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			_, err := leases.Acquire(t.Context(), "s", fmt.Sprint("c", i), time.Hour)
			switch {
			case errors.Is(err, store.ErrHeld):
			case err != nil:
				t.Errorf("Acquire: %v", err)
			default:
				held.Add(1)
			}
		})
	}
	wg.Wait()
	if held.Load() != 1 {
		t.Errorf("%d hold one lease", held.Load())
	}
}
