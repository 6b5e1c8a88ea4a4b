package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/gateway/store"
	"github.com/dragoman-mcp/dragoman/internal/wire/token"
)

// stateDir returns the directory for what outlives the process, or "".
func (g *Gateway) stateDir() string { return cmp.Or(g.opts.State, g.first.State) }

// openState opens what outlives the process, if there is a directory for it. It
// returns where the lists of servers are kept.
func (g *Gateway) openState() (lists eventlog.Records, err error) {
	dir := g.stateDir()
	if dir == "" {
		g.store, g.events = store.NewMemory(&store.Options{MaxRecords: maxSessionRecords}), eventlog.NewMemory(nil)
		g.boundKey = token.NewKey()
		return g.openCache(), nil
	}
	// The first one checks that no other user can write to the directory itself.
	if g.boundKey, err = store.LoadKey(dir, "tags.key"); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	records, err := store.Open(filepath.Join(dir, "records"), &store.Options{Logger: g.log})
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	g.closers = append(g.closers, records.Close)
	events, err := eventlog.Open(filepath.Join(dir, "events"), &eventlog.FileOptions{Logger: g.log})
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	g.closers = append(g.closers, events.Close)
	g.disk = &disk{log: g.log}
	g.store, g.events = diskRecords{records, g.disk}, diskLog{events, g.disk}
	return g.store, nil
}

// openCache opens the directory for lists. Without one they are asked for again.
func (g *Gateway) openCache() eventlog.Records {
	if g.opts.Cache == "" {
		return nil
	}
	cache, err := store.Open(g.opts.Cache, &store.Options{Logger: g.log})
	if err != nil && g.opts.Single {
		g.log.Debug("the era of the server is not remembered", "error", err)
		return nil
	}
	if err != nil {
		g.log.Warn("the last known lists of servers are not kept", "error", err)
		return nil
	}
	g.closers = append(g.closers, cache.Close)
	return cache
}

func (g *Gateway) closeState() error {
	err := g.signIns.close()
	for _, c := range g.closers {
		err = errors.Join(err, c())
	}
	g.closers = nil
	return err
}

// sessions keeps the sessions of one endpoint: a session is adopted only at the endpoint
// where it was opened.
type sessions struct {
	records eventlog.Records
	where   string
}

func (s sessions) key(id string) string { return "session/" + s.where + " " + id }

// Put implements eventlog.Records.
func (s sessions) Put(ctx context.Context, id string, record []byte, expected uint64) (uint64, error) {
	return s.records.Put(ctx, s.key(id), record, expected)
}

// Get implements eventlog.Records.
func (s sessions) Get(ctx context.Context, id string) ([]byte, uint64, error) {
	return s.records.Get(ctx, s.key(id))
}

// Delete implements eventlog.Records.
func (s sessions) Delete(ctx context.Context, id string, expected uint64) error {
	return s.records.Delete(ctx, s.key(id), expected)
}

// StateCalm is how long nothing may fail before the state counts as written again. On
// a disk that is full, small writes succeed now and then.
const StateCalm = 10 * time.Second

// A StateFailure says that what should outlive the process is not written. All else
// continues.
type StateFailure struct {
	Since  time.Time `json:"since"`
	Last   time.Time `json:"last,omitzero"`    // when a write failed last
	Writes int       `json:"writes,omitempty"` // that failed
	Error  string    `json:"error,omitempty"`  // of the last one
}

// A disk is the directory of the state, and owns the fact whether it is written. It
// says so once when that ends and once when it is so again.
type disk struct {
	log     *slog.Logger
	failing atomic.Bool // what follows is set, so that a write that succeeds costs nothing

	mu  sync.Mutex
	now StateFailure // guarded by mu
}

// recordWrite takes what a write came to.
func (d *disk) recordWrite(err error) {
	if err == nil && !d.failing.Load() {
		return
	}
	d.mu.Lock()
	at, was := time.Now(), d.failing.Load()
	over := err == nil && was && at.Sub(d.now.Last) >= StateCalm
	if over {
		d.failing.Store(false)
	}
	if err != nil {
		if !was {
			d.now = StateFailure{Since: at}
			d.failing.Store(true)
		}
		d.now.Last, d.now.Error = at, err.Error()
		d.now.Writes++
	}
	now := d.now
	d.mu.Unlock()
	switch {
	case over:
		d.log.Info("the state is written again", "since", now.Since, "failed", now.Writes)
	case err != nil && !was:
		d.log.Error("the state is not written: sessions and streams may not survive a restart; make room on its disk, and see dragoman status", "error", err)
	}
}

// failure returns how the state fails to be written, or nil if it does not.
func (d *disk) failure() *StateFailure {
	if d == nil || !d.failing.Load() {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now
	return &now
}

// recordRemoval takes what the removal of something came to. That one succeeds says nothing:
// it needs no room.
func (d *disk) recordRemoval(err error) {
	if err != nil {
		d.recordWrite(err)
	}
}

// diskRecords are records on a disk.
type diskRecords struct {
	eventlog.Records
	disk *disk
}

// Put implements eventlog.Records.
func (s diskRecords) Put(ctx context.Context, key string, record []byte, expected uint64) (uint64, error) {
	revision, err := s.Records.Put(ctx, key, record, expected)
	if !errors.Is(err, store.ErrTooLarge) && !errors.Is(err, eventlog.ErrConflict) {
		s.disk.recordWrite(err)
	}
	return revision, err
}

// Delete implements eventlog.Records.
func (s diskRecords) Delete(ctx context.Context, key string, expected uint64) error {
	err := s.Records.Delete(ctx, key, expected)
	if !errors.Is(err, eventlog.ErrConflict) {
		s.disk.recordRemoval(err)
	}
	return err
}

// A diskLog is a log on a disk.
type diskLog struct {
	eventlog.Log
	disk *disk
}

// Append implements eventlog.Log.
func (l diskLog) Append(ctx context.Context, stream string, after int64, event []byte) (int64, error) {
	at, err := l.Log.Append(ctx, stream, after, event)
	if !errors.Is(err, eventlog.ErrConflict) {
		l.disk.recordWrite(err)
	}
	return at, err
}

// Drop implements eventlog.Log.
func (l diskLog) Drop(ctx context.Context, stream string) error {
	err := l.Log.Drop(ctx, stream)
	l.disk.recordRemoval(err)
	return err
}
