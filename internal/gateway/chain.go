package gateway

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/access/rules"
	"github.com/dragoman-mcp/dragoman/internal/gateway/aggregate"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A chain is a server with what stands in front of it, wherever clients come in: at its
// own endpoint, in a group, and among all. Where it is observed is told by whoever leads to it.
type chain struct {
	up        *upstream.Upstream
	log       *slog.Logger
	views     *views
	tags      *tags
	requests  dragoman.Peer // as a server with an endpoint of its own
	member    dragoman.Peer // as a member of an aggregate
	listeners listeners
	known     *config.Server // whose offers the listeners know of; of who applies configurations
}

var (
	_ dragoman.Acceptor = (*chain)(nil)
	_ aggregate.Member  = (*chain)(nil)
)

func newChain(up *upstream.Upstream, set *atomic.Pointer[rules.Set], tags *tags, log *slog.Logger, by event.Observers) *chain {
	c := &chain{up: up, log: log, tags: tags, known: up.Config(), views: &views{server: up.Name(), config: up.Config, rules: set}}
	c.requests = c.authorize(up.Requests(), nil, nil)
	c.member = event.Observe(c.requests, &event.Link{Role: event.Member, Server: up.Name()}, by)
	return c
}

// authorize puts the rules and the filter before a server, or a session with it. client is that
// of a session, and caller who has begun it.
func (c *chain) authorize(p dragoman.Peer, client dragoman.Conn, caller *dragoman.Caller) dragoman.Peer {
	return &filter{Peer: p, views: c.views, tags: c.tags, listeners: &c.listeners, client: client, caller: caller}
}

func (c *chain) backend() *Backend { return &Backend{Acceptor: c, Sessions: c, Requests: c.requests} }

// Accept begins a session with a client of either era.
func (c *chain) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	caller := dragoman.CallerOf(ctx)
	var told dragoman.Conn = filteredClient{client, c.views.hides(ctx, caller)}
	if o, ok := c.tags.owner(caller); ok {
		told = conversation{told, boundPeer{told, o}}
	}
	peer, err := c.up.Accept(ctx, told)
	if err != nil {
		return nil, err
	}
	return c.authorize(peer, client, caller), nil
}

// A conversation is one in which the client is asked and told by way of a peer.
type conversation struct {
	dragoman.Conn
	by dragoman.Peer
}

// Unwrap returns the conversation itself.
func (c conversation) Unwrap() dragoman.Conn { return c.Conn }

// Call implements dragoman.Peer.
func (c conversation) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	return c.by.Call(ctx, req, from)
}

// Notify implements dragoman.Peer.
func (c conversation) Notify(ctx context.Context, note *dragoman.Message) error {
	return c.by.Notify(ctx, note)
}

// Requests implements aggregate.Member: it takes requests of the modern era.
func (c *chain) Requests() dragoman.Peer { return c.member }

// Name implements aggregate.Member.
func (c *chain) Name() string { return c.up.Name() }

// Prefix implements aggregate.Member.
func (c *chain) Prefix() *string { return c.up.Config().Tools.Prefix }

// OnChange implements aggregate.Member: f is told when the server's lists change, or
// what is offered of them.
func (c *chain) OnChange(f func(note string)) (stop func()) {
	l := &listener{
		Peer: dragoman.Funcs{OnNotify: func(_ context.Context, note *dragoman.Message) error {
			f(note.Method())
			return nil
		}},
		wants: protocol.Interest{Tools: true, Prompts: true, Resources: true},
	}
	c.listeners.add(l)
	end := c.up.OnChange(f)
	return func() {
		end()
		c.listeners.remove(l)
	}
}

// announce tells the listeners what a new configuration offers otherwise than the one before, as far as the server alone is concerned. ruled says
// that there are other rules.
func (c *chain) announce(ruled bool) {
	old, now := c.known, c.up.Config()
	c.known = now
	before, after := old.Tools, now.Tools
	before.Timeout, after.Timeout, before.Prefix, after.Prefix = nil, nil, nil, nil
	before.Limits, after.Limits = nil, nil
	c.listeners.tell(&protocol.Interest{
		Tools:     ruled || !reflect.DeepEqual(before, after),
		Prompts:   ruled || !reflect.DeepEqual(old.Prompts, now.Prompts),
		Resources: ruled || !reflect.DeepEqual(old.Resources, now.Resources),
	})
}

// A missing member is a server that the configuration names and that cannot be used,
// because what is said of it has errors. It keeps its place: its names do not become
// those of others.
type missing struct{ *views }

// Name implements aggregate.Member.
func (m missing) Name() string { return m.server }

// Prefix implements aggregate.Member.
func (m missing) Prefix() *string { return nil }

// OnChange implements aggregate.Member.
func (m missing) OnChange(func(string)) func() { return func() {} }

var errConfig = errors.New("the configuration of this server has errors; dragoman config check names them")

// Requests implements aggregate.Member.
func (m missing) Requests() dragoman.Peer {
	return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if v := m.of(ctx, nil); !v.grant.Any() {
			resp, err := v.nothing(req)
			if d, ok := errors.AsType[*event.Refusal](err); ok {
				return req.Fail(d.Answer), nil
			}
			return resp, err
		}
		return req.Fail(protocol.Unavailable(errConfig)), nil
	}}
}

// listeners are those who are told when a reload changes what of a server is offered,
// and how. They are the clients whom the server has promised to tell of changed lists, by
// its capabilities in a session of the legacy era, by its acknowledgement of a listen in
// the modern one; and the unions that the server is in. What the server itself tells of
// changes does not come this way.
type listeners struct {
	mu      sync.Mutex
	all     map[*listener]struct{} // guarded by mu
	sweepAt int                    // how many there are when those are forgotten that have gone; guarded by mu
}

// A listener is a session, a listen, or a union. As a peer it is whom the server tells
// of what a listen is about.
type listener struct {
	dragoman.Peer                                   // the client
	id            dragoman.ID                       // of a listen
	asked         protocol.Interest                 // by a listen
	hides         func(note *dragoman.Message) bool // of a listen: what it is not told
	gone          func() bool                       // reports whether a session is over; nil of others, which are removed

	mu    sync.Mutex
	wants protocol.Interest // in lists; guarded by mu
}

// add has somebody told from now on.
func (s *listeners) add(l *listener) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all == nil {
		s.all = make(map[*listener]struct{})
	}
	// Sessions that are over are forgotten when the number has doubled, so that none
	// needs a goroutine that waits for its end.
	if len(s.all) >= s.sweepAt {
		maps.DeleteFunc(s.all, func(l *listener, _ struct{}) bool { return l.gone != nil && l.gone() })
		s.sweepAt = 2*len(s.all) + 16
	}
	s.all[l] = struct{}{}
}

// remove has nobody told after it has returned.
func (s *listeners) remove(l *listener) {
	s.mu.Lock()
	delete(s.all, l)
	s.mu.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wants = protocol.Interest{}
}

// tell tells everybody of lists that have changed. It does not wait for anybody.
func (s *listeners) tell(changed *protocol.Interest) {
	if changed.Empty() {
		return
	}
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.all))
	s.mu.Unlock()
	for _, l := range all {
		l.tell(changed)
	}
}

// tell holds the lock meanwhile: who has been removed is not told, and nobody before
// the acknowledgement.
func (l *listener) tell(changed *protocol.Interest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wanted := l.wants.And(changed)
	for note := range wanted.ChangeNotes() {
		if !l.id.IsZero() {
			note, _ = note.Edit().SetMeta(protocol.MetaSubscriptionID, []byte(l.id.String())).Message() // an id is JSON
		}
		_ = l.Peer.Notify(context.Background(), note) // who cannot be told has gone
	}
}

// Notify implements dragoman.Peer, for a listen: it passes on what the server tells.
func (l *listener) Notify(ctx context.Context, note *dragoman.Message) error {
	switch {
	case l.hides(note):
		return nil
	case note.Method() != protocol.NoteAcknowledged:
		return l.Peer.Notify(ctx, note)
	}
	note, wants, err := l.acknowledged(note)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wants = wants
	return l.Peer.Notify(ctx, note)
}

// acknowledged returns the server's acknowledgement, and the lists that it promises to tell
// of. We tell of these alone, too: who promised more would promise the server's own changes.
// A kind that was not asked for is not promised, whatever the server says; what cannot be
// read promises nothing.
func (l *listener) acknowledged(note *dragoman.Message) (*dragoman.Message, protocol.Interest, error) {
	said, text := protocol.InterestOf(note), note.Get("notifications")
	edited := false
	for _, kind := range []struct {
		name, none  string
		said, asked bool
	}{
		{"toolsListChanged", "false", said.Tools, l.asked.Tools},
		{"promptsListChanged", "false", said.Prompts, l.asked.Prompts},
		{"resourcesListChanged", "false", said.Resources, l.asked.Resources},
		{"resourceSubscriptions", "[]", len(said.URIs) > 0, len(l.asked.URIs) > 0},
		{"taskIds", "[]", len(said.Tasks) > 0, len(l.asked.Tasks) > 0},
	} {
		if kind.said && !kind.asked {
			text, edited = dragoman.WithMember(text, kind.name, []byte(kind.none)), true
		}
	}
	if edited {
		var err error
		if note, err = note.Edit().Set("notifications", text).Message(); err != nil {
			return nil, protocol.Interest{}, err
		}
	}
	return note, said.And(&l.asked), nil
}

// A union is several servers as one: those of a group, or all. It lives as long
// as its group is configured, whatever servers come and go.
type union struct {
	all   *aggregate.Aggregate
	front *era.Front // for clients of both eras
	plain bool       // names are left as they are
}

func newUnion(g *Gateway, plain bool) *union {
	all := aggregate.New(&aggregate.Options{Name: g.opts.Name, Version: g.opts.Version, Plain: plain, Logger: g.log})
	return &union{all: all, plain: plain, front: era.NewFront(all, &era.FrontOptions{
		Name: g.opts.Name, Version: g.opts.Version, Logger: g.log,
		Ended: func(ctx context.Context) {
			for _, up := range g.manager.Upstreams() {
				up.End(ctx)
			}
		},
	})}
}

func (u *union) backend() *Backend {
	return &Backend{Acceptor: u.front, Sessions: u.front, Requests: u.front.Requests()}
}

// close ends what is under way. Its doors have been shut before.
func (u *union) close() {
	_ = u.all.Close() // listens end with their results while there is somebody to tell
	_ = u.front.Close()
}
