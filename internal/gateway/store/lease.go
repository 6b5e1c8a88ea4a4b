package store

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
)

var (
	// ErrHeld is returned by Acquire while another holder has the lease.
	ErrHeld = errors.New("store: another holder has the lease")

	// ErrLeaseLost is returned for a lease that has expired, was released, or has another holder.
	ErrLeaseLost = errors.New("store: the lease is lost")
)

// A Lease says that one holder may use something until it expires.
type Lease struct {
	Name    string    `json:"-"`
	Holder  string    `json:"holder"`
	Epoch   uint64    `json:"epoch"` // higher than that of every lease of that name before: what is written with a lower one is refused
	Expires time.Time `json:"expires"`

	Revision uint64 `json:"-"` // of its record
}

// Leases gives each name to one holder at a time. Any number of goroutines and, if the implementation is
// shared, processes may use it concurrently. Their clocks must agree, as far as leases are longer than
// the difference.
type Leases interface {
	// Acquire gives a name to a holder for some time, or fails with ErrHeld. The holder itself acquires it
	// again, with a new epoch.
	Acquire(ctx context.Context, name, holder string, ttl time.Duration) (Lease, error)

	// Renew makes a lease expire so long from now, or fails with ErrLeaseLost.
	Renew(ctx context.Context, l Lease, ttl time.Duration) (Lease, error)

	// Release gives a lease back. Releasing a lost lease does nothing.
	Release(ctx context.Context, l Lease) error
}

// leases are records that are replaced by revision.
type leases struct{ records eventlog.Records }

// NewLeases returns the leases that are kept in records of the kind "leases". Epochs begin again for a name
// whose record has expired.
func NewLeases(records eventlog.Records) Leases { return leases{records} }

func (s leases) Acquire(ctx context.Context, name, holder string, ttl time.Duration) (Lease, error) {
	text, revision, err := s.records.Get(ctx, leaseKey(name))
	if err != nil {
		return Lease{}, err
	}
	var now Lease
	_ = json.Unmarshal(text, &now) // an unreadable lease counts as expired
	if now.Holder != holder && time.Now().Before(now.Expires) {
		return Lease{}, ErrHeld
	}
	l, err := s.put(ctx, Lease{Name: name, Holder: holder, Epoch: now.Epoch + 1, Revision: revision}, ttl)
	if errors.Is(err, ErrLeaseLost) {
		err = ErrHeld // another was faster
	}
	return l, err
}

func (s leases) Renew(ctx context.Context, l Lease, ttl time.Duration) (Lease, error) {
	if !time.Now().Before(l.Expires) {
		return Lease{}, ErrLeaseLost
	}
	return s.put(ctx, l, ttl)
}

func (s leases) Release(ctx context.Context, l Lease) error {
	// The record stays, for its epoch.
	if _, err := s.put(ctx, l, 0); !errors.Is(err, ErrLeaseLost) {
		return err
	}
	return nil
}

// put writes a lease in place of the one that it was.
func (s leases) put(ctx context.Context, l Lease, ttl time.Duration) (Lease, error) {
	l.Expires = time.Now().Add(ttl)
	text, _ := json.Marshal(l) // plain values encode
	revision, err := s.records.Put(ctx, leaseKey(l.Name), text, l.Revision)
	switch {
	case errors.Is(err, eventlog.ErrConflict):
		return Lease{}, ErrLeaseLost
	case err != nil:
		return Lease{}, err
	}
	l.Revision = revision
	return l, nil
}

func leaseKey(name string) string { return "leases/" + name }
