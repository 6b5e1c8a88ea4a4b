package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/state"
)

// stateDir returns the directory for what outlives the process, or "".
func (g *Gateway) stateDir() string { return cmp.Or(g.opts.State, g.first.State) }

// openState opens what outlives the process, if there is a directory for it. It
// returns where the lists of servers are kept.
func (g *Gateway) openState() (lists state.Store, err error) {
	dir := g.stateDir()
	if dir == "" {
		g.store, g.events = state.NewMemory(maxSessionRecords), eventlog.NewMemory(nil)
		g.boundKey = state.NewKey()
		return g.openCache(), nil
	}
	records, err := state.OpenWith(filepath.Join(dir, "records"), &state.DirOptions{Logger: g.log})
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
	g.store, g.events = diskStore{records, g.disk}, diskLog{events, g.disk}
	if g.boundKey, err = state.LoadKey(filepath.Join(dir, "tags.key")); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	return g.store, nil
}

// openCache opens the directory for lists. Without one they are asked for anew.
func (g *Gateway) openCache() state.Store {
	if g.opts.Cache == "" {
		return nil
	}
	cache, err := state.OpenWith(g.opts.Cache, &state.DirOptions{Logger: g.log})
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

// sessions keeps the sessions of one set of doors: a session is adopted by those
// who stand where it was opened, and by nobody else.
type sessions struct {
	store state.Store
	where string
}

const sessionKind = "session"

func (s sessions) key(id string) string { return s.where + " " + id }

// Put implements streamable.SessionStore.
func (s sessions) Put(id string, record []byte) error {
	return s.store.Put(sessionKind, s.key(id), record)
}

// Get implements streamable.SessionStore.
func (s sessions) Get(id string) ([]byte, bool, error) { return s.store.Get(sessionKind, s.key(id)) }

// Delete implements streamable.SessionStore.
func (s sessions) Delete(id string) error { return s.store.Delete(sessionKind, s.key(id)) }
