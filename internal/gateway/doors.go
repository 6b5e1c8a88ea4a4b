package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/access/rules"
	"github.com/dragoman-mcp/dragoman/internal/gateway/aggregate"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/jsonschema"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// The paths of the doors.
const (
	MCPPath      = "/mcp"      // Streamable HTTP
	SSEPath      = "/sse"      // HTTP+SSE: the stream
	MessagesPath = "/messages" // HTTP+SSE: what clients send
	WSPath       = "/ws"       // WebSocket
	CallPath     = "/call"     // tool calls over plain HTTP, also below it
)

// The transports of the doors, as callers have them.
const (
	doorHTTP = "http"
	doorSSE  = "sse"
	doorWS   = "ws"
	doorCall = "call"
)

// A Backend is a server as its doors see it.
type Backend struct {
	Acceptor dragoman.Acceptor // takes conversations of either era
	Sessions dragoman.Acceptor // takes sessions of the legacy era; nil if it is not served
	Requests dragoman.Peer     // takes requests of the modern era; nil if it is not served
}

// DoorOptions is what the doors of a server have in common. Zero values mean the
// defaults of the transports. Whoever leads requests to them has checked Host and Origin.
type DoorOptions struct {
	// Caller tells who makes a request, by a value that is its own, or refuses it. If nil, it
	// is the address. Denied, if not nil, is told of requests that it refuses, at a door.
	Caller httpserver.CallerFunc
	Denied func(r *http.Request, door, rule string, err error)

	MessagesPath string // what clients of HTTP+SSE are told
	MaxMessage   int
	MaxSessions  int
	MaxRequests  int // of one session
	IdleTimeout  time.Duration
	Log          eventlog.Log
	Store        streamable.SessionStore
	Logger       *slog.Logger
}

// caller returns what tells who makes a request at one door.
func (o *DoorOptions) caller(door string) httpserver.CallerFunc {
	who, denied := o.Caller, o.Denied
	if who == nil {
		who = httpserver.ByAddress
	}
	return func(r *http.Request) (*dragoman.Caller, error) {
		c, err := who(r)
		if err == nil {
			c.Door = door
		} else if denied != nil {
			denied(r, door, "caller", err)
		}
		return c, err
	}
}

// Doors let clients to one server, over every transport.
type Doors struct {
	at    map[string]http.Handler
	doors []func(context.Context) error // shut them
}

// NewDoors returns the doors of a server.
func NewDoors(s *Backend, o *DoorOptions) *Doors {
	mcp := &streamable.Server{
		Sessions: s.Sessions, Requests: s.Requests, Trusted: true, Caller: o.caller(doorHTTP),
		MaxMessage: o.MaxMessage, MaxSessions: o.MaxSessions, MaxRequests: o.MaxRequests, IdleTimeout: o.IdleTimeout,
		Log: o.Log, Store: o.Store, Logger: o.Logger,
	}
	old := &sse.Server{
		Acceptor: s.Acceptor, Trusted: true, Caller: o.caller(doorSSE), MessagesPath: o.MessagesPath,
		MaxMessage: o.MaxMessage, Logger: o.Logger,
	}
	sockets := &ws.Server{
		Acceptor: s.Acceptor, Requests: s.Requests, Trusted: true, Caller: o.caller(doorWS),
		MaxMessage: o.MaxMessage, Logger: o.Logger,
	}
	d := &Doors{
		at:    map[string]http.Handler{MCPPath: mcp, SSEPath: old.Stream(), MessagesPath: old.Messages(), WSPath: sockets},
		doors: []func(context.Context) error{mcp.Shutdown, old.Shutdown, sockets.Shutdown},
	}
	if s.Requests != nil {
		call := &toolhttp.Server{
			Requests: s.Requests, Check: new(jsonschema.Checker).Check, Trusted: true, Caller: o.caller(doorCall),
			MaxMessage: o.MaxMessage, Logger: o.Logger,
		}
		d.doors = append(d.doors, call.Shutdown)
		d.at[CallPath] = call
	}
	return d
}

// At returns the door at a path, and how much of the path leads to it. It is nil
// if there is none.
func (d *Doors) At(path string) (door http.Handler, prefix string) {
	if path == CallPath || strings.HasPrefix(path, CallPath+"/") {
		return d.at[CallPath], CallPath
	}
	return d.at[path], ""
}

// Shutdown refuses new requests, lets those under way end until ctx does, and
// ends the rest. It returns an error if there was a rest.
func (d *Doors) Shutdown(ctx context.Context) error { return shutdownAll(ctx, d.doors) }

// shutdownAll runs all at once, and returns the first error there is.
func shutdownAll(ctx context.Context, doors []func(context.Context) error) error {
	failed := make([]error, len(doors))
	var closing sync.WaitGroup
	for i, shut := range doors {
		closing.Go(func() { failed[i] = shut(ctx) }) // ends when the door is shut, which ctx bounds
	}
	closing.Wait()
	return cmp.Or(failed...)
}

// The paths of servers and groups.
const (
	serversPath = "/servers/"
	groupsPath  = "/groups/"
)

// routes says which doors a path leads to. It never changes.
type routes struct {
	servers map[string]*entry
	groups  map[string]*entry // by the path that is before their doors
	all     *entry
	passes  []string // headers of callers that some server has passed on
	rules   *atomic.Pointer[rules.Set]
	grouped map[*entry][]string // the servers of groups
}

// shows reports whether there is something for a caller behind an entry.
func (t *routes) shows(e *entry, c *dragoman.Caller) bool {
	set := t.rules.Load()
	if e.chain != nil {
		return set.Any(c, e.chain.service.Name())
	}
	servers, ok := t.grouped[e]
	return !ok || slices.ContainsFunc(servers, func(name string) bool { return set.Any(c, name) })
}

// An entry is what stands behind a path, with its doors: one server, or several.
type entry struct {
	*Doors
	backend *Backend // what the doors lead to
	path    string   // before the doors
	mcp     string   // where Streamable HTTP is, if not at the usual place
	chain   *chain   // of one server; nil if it is a union, or the caller's own
	union   *union   // nil if it is no union
}

// members returns servers as members of a union. Those without an entry keep their
// places, and those that are disabled have none.
func (t *routes) members(names []string) []aggregate.Member {
	list := make([]aggregate.Member, 0, len(names))
	for _, name := range names {
		switch e := t.servers[name]; {
		case e == nil:
			list = append(list, missing{&views{server: name, config: noConfig, rules: t.rules}})
		case !e.chain.service.Upstream().Config().Disabled:
			list = append(list, member{e.chain, e.chain.service.Upstream()})
		}
	}
	return list
}

// noConfig is that of a server that has errors.
func noConfig() *config.Server { return &config.Server{} }

// find returns the entry for a path, and the path below it.
func (t *routes) find(path string) (e *entry, rest string) {
	if after, ok := strings.CutPrefix(path, serversPath); ok {
		name, rest, _ := strings.Cut(after, "/")
		return t.servers[name], "/" + rest
	}
	for _, e := range t.groups {
		if path == e.mcp {
			return e, MCPPath
		}
		if rest, ok := strings.CutPrefix(path, e.path); ok && strings.HasPrefix(rest, "/") {
			return e, rest
		}
	}
	return t.all, path
}

// nearServers asks whether a server was meant that has nearly the name in the path and is
// there for the caller, or returns "".
func (t *routes) nearServers(r *http.Request) string {
	after, ok := strings.CutPrefix(r.URL.Path, serversPath)
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(after, "/")
	hint := humanize.SuggestHint(name, func(yield func(string) bool) {
		for other, e := range t.servers {
			if t.shows(e, dragoman.CallerOf(r.Context())) && !yield(other) {
				return
			}
		}
	})
	if hint != "" {
		hint += " "
	}
	return hint
}

// leads reports whether there is a door at a path, whoever may use it.
func (t *routes) leads(path string) bool {
	e, rest := t.find(path)
	if e == nil {
		return false
	}
	door, _ := e.At(rest)
	return door != nil
}

// withoutSlash returns a request whose URL is that of a door and a slash as one at the door itself:
// users copy such URLs. It is not redirected, as many clients lose the body of a POST by that. All that goes
// by paths is asked about the request that is returned, so that a slash leads around nothing. One that
// is escaped is part of a name.
func (t *routes) withoutSlash(r *http.Request) *http.Request {
	path, ok := strings.CutSuffix(r.URL.Path, "/")
	if !ok || !strings.HasSuffix(r.URL.EscapedPath(), "/") || t.leads(r.URL.Path) || !t.leads(path) {
		return r
	}
	there, where := *r, *r.URL
	where.Path, where.RawPath = path, strings.TrimSuffix(where.RawPath, "/")
	there.URL = &where
	return &there
}

// serve answers a request by the doors of its path. If there is none, it answers 404 and returns why.
func (t *routes) serve(w http.ResponseWriter, r *http.Request) (missing string) {
	e, rest := t.find(r.URL.Path)
	if e == nil || !t.shows(e, dragoman.CallerOf(r.Context())) {
		missing = "there is no server of that name; " + t.nearServers(r) + "GET /status lists them"
		http.Error(w, missing, http.StatusNotFound)
		return missing
	}
	door, prefix := e.At(rest)
	if door == nil {
		missing = "nothing is here; the doors of a server are /mcp, /sse, /messages, /ws and /call"
		http.Error(w, missing, http.StatusNotFound)
		return missing
	}
	if prefix != "" {
		door = http.StripPrefix(strings.TrimSuffix(r.URL.Path, rest)+prefix, door)
	}
	door.ServeHTTP(w, r)
	return ""
}
