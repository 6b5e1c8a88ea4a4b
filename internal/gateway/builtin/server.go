package builtin

import (
	"context"
	"crypto/cipher"
	"encoding/json"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman"
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
	opts   Options
	sealer cipher.AEAD                           // of request states; its key is this server's alone
	infos  map[protocol.Revision]json.RawMessage // how the server introduces itself
	heads  map[protocol.Revision]string          // how results begin

	tools     []*tool
	prompts   []*prompt
	resources []*resource
	templates []*template

	mu       sync.Mutex
	sessions map[*session]struct{} // that are notified of changes
	sweepAt  int                   // number of sessions at which dead ones are looked for
	listens  map[*listen]struct{}
	closed   bool
	added    map[string]bool // tools, prompts, resources that were added, by method of their list
	versions map[string]int  // of resources that were updated, by URI
}

// New returns a server. opts may be nil.
func New(opts *Options) *Server {
	s := &Server{
		opts:     opts.withDefaults(),
		sealer:   newSealer(),
		infos:    make(map[protocol.Revision]json.RawMessage),
		heads:    make(map[protocol.Revision]string),
		sessions: make(map[*session]struct{}),
		listens:  make(map[*listen]struct{}),
		added:    make(map[string]bool),
		versions: make(map[string]int),
	}
	for _, rev := range s.opts.Revisions {
		s.infos[rev] = s.opts.info(rev)
		s.heads[rev] = headOf(rev, s.infos[rev])
	}
	s.tools = allTools()
	s.prompts = allPrompts()
	s.resources, s.templates = allResources(s.opts.Numbered)
	return s
}

// Accept begins a conversation with a client. Its state ends when the client's
// conversation does.
func (s *Server) Accept(_ context.Context, client dragoman.Conn) (dragoman.Peer, error) {
	// A client that never sets a level still expects to see something.
	return &session{server: s, client: client, level: protocol.LogLevel("info")}, nil
}

// Requests returns the door for requests that stand for themselves. It speaks
// the modern era only.
func (s *Server) Requests() dragoman.Peer {
	return dragoman.Funcs{OnCall: s.callModern}
}

// Close ends all subscriptions of the modern era in good order: each gets its
// result. Everything else goes on as before.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for l := range s.listens {
		l.end()
	}
	return nil
}

// serves reports whether a revision of an era is served.
func (s *Server) serves(era protocol.Era) bool {
	return slices.ContainsFunc(s.opts.Revisions, func(r protocol.Revision) bool { return r.Era() == era })
}

// unsupported is the answer to a revision that is not served.
func (s *Server) unsupported(requested string) *dragoman.Error {
	return protocol.Unsupported(requested, protocol.Names(s.opts.Revisions))
}

const instructions = "A server for trying out clients and bridges: every feature of the protocol has a tool, " +
	"prompt or resource that shows it. Begin with the tool echo."

// info returns how the server introduces itself, as JSON text.
func (o *Options) info(rev protocol.Revision) json.RawMessage {
	info := object{"name": o.Name, "version": o.Version}
	if rev.HasTitles() {
		info["title"] = "Everything"
	}
	if rev.HasIcons() {
		info["description"] = "Every feature of MCP, in every revision"
	}
	text, _ := json.Marshal(info) // strings always encode
	return text
}

// capabilities returns what the server can do.
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

// addSession notifies a session of changes until its conversation ends.
func (s *Server) addSession(ss *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ss.ended() {
		return
	}
	s.sessions[ss] = struct{}{}
	// Dead sessions are forgotten when the number of sessions has doubled, so
	// that none needs a goroutine that waits for its end.
	if len(s.sessions) > s.sweepAt {
		s.sweep()
		s.sweepAt = 2*len(s.sessions) + 8
	}
}

// sweep forgets the sessions that are over. The caller holds mu.
func (s *Server) sweep() {
	for ss := range s.sessions {
		if ss.ended() {
			delete(s.sessions, ss)
		}
	}
}

// subscribers returns the sessions and listens that may want a change.
func (s *Server) subscribers() (sessions []*session, listens []*listen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sweep()
	for ss := range s.sessions {
		sessions = append(sessions, ss)
	}
	for l := range s.listens {
		listens = append(listens, l)
	}
	return sessions, listens
}

// change adds the entry that a list has in reserve, or takes it out again, and
// notifies all clients. list is the method of the list.
func (s *Server) change(ctx context.Context, list, note string) {
	s.mu.Lock()
	s.added[list] = !s.added[list]
	s.mu.Unlock()
	s.notifyAll(ctx, event{method: note})
}

// hasAdded reports whether the entry that a list has in reserve is in it.
func (s *Server) hasAdded(list string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.added[list]
}

// update gives a resource a new content and notifies its subscribers.
func (s *Server) update(ctx context.Context, uri string) {
	s.mu.Lock()
	s.versions[uri]++
	s.mu.Unlock()
	s.notifyAll(ctx, event{protocol.NoteResourceUpdated, uri})
}

// version returns how often a resource was updated.
func (s *Server) version(uri string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[uri]
}

// An event is a change that clients may subscribe to.
type event struct {
	method string
	uri    string // of a resource that was updated
}

// notifyAll notifies all subscribers of a change.
func (s *Server) notifyAll(ctx context.Context, e event) {
	sessions, listens := s.subscribers()
	for _, l := range listens {
		l.put(e)
	}
	var params any
	if e.uri != "" {
		params = object{"uri": e.uri}
	}
	note, err := dragoman.NewNotification(e.method, params)
	if err != nil {
		return // both are ours, so this cannot happen
	}
	// The call that made the change may end before all have heard of it.
	ctx = context.WithoutCancel(ctx)
	for _, ss := range sessions {
		if e.uri == "" || ss.isSubscribed(e.uri) {
			// If it fails, the client is gone, and the next sweep removes it.
			_ = ss.client.Notify(ctx, note)
		}
	}
}
