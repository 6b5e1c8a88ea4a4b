package upstream

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/gateway/store"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/util/proc"
)

// Options are how a Manager behaves. Nil and the zero value hold the defaults.
type Options struct {
	// Name and Version are what we call ourselves towards servers. If empty, they
	// are "dragoman" and dragoman.Version.
	Name, Version string

	// Store keeps the last known lists. If nil, they are kept in memory.
	Store eventlog.Records

	// MaxMessage is the largest message in bytes. Zero means
	// dragoman.DefaultMaxMessage.
	MaxMessage int

	// Unsupervised servers have no conversation of ours beside those of their clients:
	// they are started for those, and what these come to is all that is known of them.
	Unsupervised bool

	// SignIn is how servers are signed in to that want that. If nil, they refuse us.
	SignIn *SignInOptions

	// Stderr is given the lines that servers write to their standard error, without
	// what may be a secret. If nil, they are logged, at debug level.
	Stderr func(server, line string)

	// Notice is told what a user should know at once about a server: that it writes text
	// where messages belong, or that it takes its time to start. If nil, that is logged.
	Notice func(server string, level slog.Level, text string)

	// CommandLine says that a command line names the servers, so that what to do about
	// them is said in flags and not in keys.
	CommandLine bool

	// Observers are told of the messages of connections to servers.
	Observers event.Observers

	// Logger receives what happens to the servers. If nil, nothing is logged.
	Logger *slog.Logger
}

// A Manager keeps any number of servers running. Its methods may be called at any
// time, by anybody.
type Manager struct {
	opts  Options
	began time.Time
	salt  []byte // of digests; it outlives the process if the store does

	target func(*target.Spec) (*target.Target, error) // is target.New, except in tests

	changing sync.Mutex // held by Apply and Shutdown, which are not many

	mu     sync.Mutex
	closed bool
	list   []*Upstream            // in the order of Apply
	old    map[*Upstream]struct{} // that have been replaced or removed, and not retired yet
}

// New returns a manager without servers.
func New(opts *Options) *Manager {
	m := &Manager{began: time.Now(), target: target.New, old: make(map[*Upstream]struct{})}
	if opts != nil {
		m.opts = *opts
	}
	if m.opts.Name == "" {
		m.opts.Name = "dragoman"
	}
	if m.opts.Version == "" {
		m.opts.Version = dragoman.Version
	}
	if m.opts.Store == nil {
		m.opts.Store = store.NewMemory(nil)
	}
	m.opts.Logger = cmp.Or(m.opts.Logger, slog.New(slog.DiscardHandler))
	m.salt = loadSalt(m.opts.Store, m.opts.Logger)
	return m
}

// Changes is what Apply did, by names.
type Changes struct {
	Added    []string `json:"added,omitempty"`
	Kept     []string `json:"kept,omitempty"`
	Replaced []string `json:"replaced,omitempty"`
	Removed  []string `json:"removed,omitempty"`
}

// Apply makes the servers those of a configuration. One whose configuration is the
// same is kept with its processes and sessions; what it says of tools, prompts and
// resources is taken over. One that is replaced gets no new requests from then on; it and
// one that is removed are returned, and finish those in flight until their Retire. Apply does
// not wait: all servers are started at the same time.
func (m *Manager) Apply(servers []*config.Server) (changes Changes, gone []*Upstream) {
	m.changing.Lock()
	defer m.changing.Unlock()
	m.mu.Lock()
	old, closed := m.list, m.closed
	m.mu.Unlock()
	if closed {
		return changes, nil
	}
	var list []*Upstream
	for _, c := range servers {
		if slices.ContainsFunc(list, func(u *Upstream) bool { return u.name == c.Name }) {
			continue // the first one with a name has it
		}
		digest := m.digest(c)
		at := slices.IndexFunc(old, func(u *Upstream) bool { return u.name == c.Name })
		switch {
		case at >= 0 && old[at].digest == digest:
			old[at].configure(c)
			list = append(list, old[at])
			changes.Kept = append(changes.Kept, c.Name)
			continue
		case at >= 0:
			changes.Replaced = append(changes.Replaced, c.Name)
		default:
			changes.Added = append(changes.Added, c.Name)
		}
		service := newService(c.Name)
		if at >= 0 {
			service = old[at].service
		}
		u := m.newUpstream(service, c, digest)
		service.replace(u)
		list = append(list, u)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = list
	for _, u := range old {
		if slices.Contains(list, u) {
			continue
		}
		if !slices.ContainsFunc(list, func(n *Upstream) bool { return n.name == u.name }) {
			changes.Removed = append(changes.Removed, u.name)
		}
		m.old[u] = struct{}{}
		gone = append(gone, u)
	}
	return changes, gone
}

// Retire waits until the requests in flight have ended, also those that wait for input of their
// clients, or until ctx ends, and stops the server. It is for an upstream that Apply has replaced or
// removed. It reports whether no request was cut off.
func (u *Upstream) Retire(ctx context.Context) bool {
	settled := u.awaitSuspended(ctx)
	return u.shutdown(ctx) && settled
}

// shutdown refuses new requests, waits for those in flight until ctx ends, and stops the server. It
// reports whether no request was cut off.
func (u *Upstream) shutdown(ctx context.Context) bool {
	whole := u.drain(ctx)
	u.close()
	u.manager.mu.Lock()
	defer u.manager.mu.Unlock()
	delete(u.manager.old, u)
	return whole
}

// digest tells configurations apart that need different processes. What is offered, and
// how, is no matter of the process.
func (m *Manager) digest(c *config.Server) string {
	bare := *c
	bare.Tools, bare.Prompts, bare.Resources = config.Tools{}, config.Prompts{}, config.Resources{}
	bare.Rate, bare.Burst = config.Server{}.Rate, 0
	if limit := newSettings(c).timeout; longest(limit, c.Tools.Timeout) > limit {
		bare.Timeout = longest(limit, c.Tools.Timeout) // era has to know that
	}
	text, _ := json.Marshal(bare) // plain values encode
	sum := hmac.New(sha256.New, m.salt)
	_, _ = sum.Write(text) // it never fails
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// Upstreams returns the upstreams in the order in which they were applied.
func (m *Manager) Upstreams() []*Upstream {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.list)
}

// Statuses returns what there is to say about all upstreams, in the same order, with the
// memory of their processes.
func (m *Manager) Statuses() (list []Status) {
	var memory map[int]int64 // the whole process table is read for it
	for _, u := range m.Upstreams() {
		s := u.Status()
		if len(s.Processes) > 0 && memory == nil {
			memory = proc.MemoryOfGroups()
		}
		for _, pid := range s.Processes {
			s.Memory += memory[pid]
		}
		list = append(list, s)
	}
	return list
}

// Upstream returns the upstream of that name, or nil.
func (m *Manager) Upstream(name string) *Upstream {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range m.list {
		if u.name == name {
			return u
		}
	}
	return nil
}

// Shutdown takes no new work, lets what is in flight end until ctx does, and stops
// all servers. The error is that of ctx if something had to be cut off. All have
// been stopped when it returns.
func (m *Manager) Shutdown(ctx context.Context) error {
	m.changing.Lock()
	defer m.changing.Unlock()
	m.mu.Lock()
	m.closed = true
	list := slices.AppendSeq(slices.Clone(m.list), maps.Keys(m.old))
	m.mu.Unlock()
	var (
		closing sync.WaitGroup
		cut     atomic.Bool
	)
	for _, u := range list {
		closing.Go(func() { // ends when it is drained, or with ctx, and closed
			if !u.shutdown(ctx) {
				cut.Store(true)
			}
		})
	}
	closing.Wait()
	if cut.Load() {
		return context.Cause(ctx)
	}
	return nil
}
