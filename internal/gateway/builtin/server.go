package builtin

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Options says what is served. The zero value serves all revisions.
type Options struct {
	// Name and Version are what the server calls itself.
	// If empty, they are "dragoman-everything" and "1.0.0".
	Name, Version string

	// Revisions are the revisions that are served, in any order. If nil, it is
	// all of them. With revisions of one era, the server knows nothing of the
	// other: a legacy server takes a modern request for one that lacks its
	// initialize.
	Revisions []protocol.Revision

	// PageSize is the number of entries on one page of a list. Zero means 100,
	// which no list exceeds by itself; negative means that there is one page.
	PageSize int

	// Numbered is how many resources test://numbered/1, test://numbered/2 and
	// so on there are, besides the others.
	Numbered int
}

// withDefaults returns the options with all that was left out filled in.
func (o *Options) withDefaults() Options {
	var full Options
	if o != nil {
		full = *o
	}
	if full.Name == "" {
		full.Name = "dragoman-everything"
	}
	if full.Version == "" {
		full.Version = "1.0.0"
	}
	if full.Revisions == nil {
		full.Revisions = protocol.Revisions()
	}
	full.Revisions = slices.Clone(full.Revisions)
	slices.Sort(full.Revisions)
	slices.Reverse(full.Revisions) // newest first, as clients are to prefer them
	if full.PageSize == 0 {
		full.PageSize = 100
	}
	return full
}

// A Server answers any number of conversations and requests at once.
type Server struct {
	opts     Options
	front    *era.Frontend
	changes  era.Changes      // for clients of the modern era
	sessions subscription.Hub // of the legacy era, that are notified of changes

	tools     []*tool
	prompts   []*prompt
	resources []*resource
	templates []*template

	mu       sync.Mutex
	added    map[string]bool // tools, prompts, resources that were added, by method of their list
	versions map[string]int  // of resources that were updated, by URI
}

// New returns a server. opts may be nil.
func New(opts *Options) *Server {
	s := &Server{opts: opts.withDefaults(), added: make(map[string]bool), versions: make(map[string]int)}
	s.tools = allTools()
	s.prompts = allPrompts()
	s.resources, s.templates = allResources(s.opts.Numbered)
	s.changes.Tools, s.changes.Prompts, s.changes.Resources, s.changes.Subscribable = true, true, true, s.knows
	methods := make(dragoman.Methods)
	for method, h := range handlers {
		methods[method] = s.modern(h)
	}
	s.front = era.FromMethods(methods, &era.FrontendOptions{
		Info: s.opts.info(protocol.Latest), Instructions: instructions,
		Revisions: s.opts.Revisions,
		Legacy: dragoman.AcceptFunc(func(_ context.Context, client dragoman.Conn) (dragoman.Peer, error) {
			// A client that never sets a level still expects to see something.
			return &session{server: s, client: client, level: protocol.LogLevel("info")}, nil
		}),
		Logs: true, Cache: cache, Changes: &s.changes,
	})
	return s
}

// Accept begins a conversation with a client. Its state ends when the client's
// conversation does.
func (s *Server) Accept(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	return s.front.Accept(ctx, client)
}

// Requests returns the peer that answers requests of the modern era.
func (s *Server) Requests() dragoman.Peer { return s.front.Requests() }

// Close ends all subscriptions of the modern era in good order: each gets its
// result. Everything else continues as before.
func (s *Server) Close() error { return s.changes.Close() }

// cache says for how long and for whom a result may be cached.
func cache(req *dragoman.Message) (ttl time.Duration, scope string) {
	switch {
	case req.Method() == protocol.MethodDiscover:
		return time.Hour, "public"
	case req.Method() == protocol.MethodReadResource && req.URI() == watched:
		return 0, "public"
	}
	return 30 * time.Second, "public"
}

const instructions = "A server for trying out clients and bridges: every feature of the protocol has a tool, " +
	"prompt or resource that shows it. Begin with the tool echo."

// info returns how the server introduces itself.
func (o *Options) info(rev protocol.Revision) object {
	info := object{"name": o.Name, "version": o.Version}
	if rev.HasTitles() {
		info["title"] = "Everything"
	}
	if rev.HasIcons() {
		info["description"] = "Every feature of MCP, in every revision"
	}
	return info
}

// capabilities returns what the server can do in a legacy revision.
func (s *Server) capabilities(rev protocol.Revision) object {
	caps := object{
		"tools":     object{"listChanged": true},
		"prompts":   object{"listChanged": true},
		"resources": object{"listChanged": true, "subscribe": true},
		"logging":   object{},
	}
	if rev.HasCompletions() {
		caps["completions"] = object{}
	}
	return caps
}

// change adds the entry that a list has in reserve, or takes it out again, and
// notifies all clients. list is the method of the list.
func (s *Server) change(list, note string) {
	s.mu.Lock()
	s.added[list] = !s.added[list]
	s.mu.Unlock()
	s.publish(note, nil)
}

// hasAdded reports whether the entry that a list has in reserve is in it.
func (s *Server) hasAdded(list string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.added[list]
}

// update gives a resource a new content and notifies its subscribers.
func (s *Server) update(uri string) {
	s.mu.Lock()
	s.versions[uri]++
	s.mu.Unlock()
	s.publish(protocol.NoteResourceUpdated, object{"uri": uri})
}

// version returns how often a resource was updated.
func (s *Server) version(uri string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[uri]
}

// publish notifies the subscribers of both eras of a change.
func (s *Server) publish(method string, params any) {
	note, err := dragoman.NewNotification(method, params)
	if err != nil {
		return // both are ours, so this cannot happen
	}
	s.changes.Publish(note)
	s.sessions.Publish(note)
}
