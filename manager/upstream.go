package manager

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/config"
)

// An Upstream is a server that has a name. It has two doors, Accept and Requests;
// both serve any number of clients at once.
type Upstream struct {
	manager *Manager
	name    string
	digest  string // of its configuration
	conf    atomic.Pointer[config.Server]
	set     settings
	log     *slog.Logger
	logs    *logs
	lists   *lists
	ids     atomic.Int64 // of requests of our own

	admission admission
	broken    error          // why the configuration cannot be used
	main      *instance      // nil if it cannot be used, or is not to be
	busy      sync.WaitGroup // instances that are being closed
	draining  atomic.Bool

	mu        sync.Mutex
	instances map[string]*instance       // by what is passed on; the main one is not among them
	ears      map[*int]func(note string) // see OnChange
	seen      State                      // the last one that somebody looked at, and
	seenAt    time.Time                  // when it was first seen
}

var _ dragoman.Acceptor = (*Upstream)(nil)

// newUpstream makes an upstream, and starts its server unless that is lazy.
func (m *Manager) newUpstream(c *config.Server, digest string) *Upstream {
	u := &Upstream{
		manager: m, name: c.Name, digest: digest, set: newSettings(c), log: m.opts.Logger.With("server", c.Name),
		logs: new(logs), lists: newLists(), instances: make(map[string]*instance), ears: make(map[*int]func(string)),
	}
	u.conf.Store(c)
	u.admission = admission{up: u, max: u.set.calls, queue: u.set.queue}
	if c.Disabled {
		return u
	}
	if !u.set.passes {
		u.load()
	}
	if u.main, u.broken = u.newInstance(nil); u.broken != nil {
		u.event(nil, "its configuration cannot be used: "+u.clean(nil, u.broken))
		return u
	}
	u.since(u.State())
	u.main.begin()
	return u
}

// Name returns the upstream's name.
func (u *Upstream) Name() string { return u.name }

// Config returns the upstream's configuration, which must not be changed.
func (u *Upstream) Config() *config.Server { return u.conf.Load() }

// drain lets requests under way end, and no others begin, until ctx ends.
func (u *Upstream) drain(ctx context.Context) bool {
	u.draining.Store(true)
	for _, i := range u.all() {
		i.keeper.signal.fire() // who waits for the server need not
	}
	return u.admission.empty(ctx)
}

// close ends everything. Requests under way fail; the conversations that clients have
// with us are for their doors to end.
func (u *Upstream) close() {
	u.draining.Store(true)
	var closing sync.WaitGroup
	for _, i := range u.all() {
		closing.Go(func() { _ = i.close() }) // ends when its children have been stopped, which is bounded
	}
	closing.Wait()
	u.busy.Wait()
	u.event(nil, "it is stopped")
}
