package gateway

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/schema"
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
	Caller httpx.CallerFunc
	Denied func(r *http.Request, door, rule string, err error)

	MessagesPath string // what clients of HTTP+SSE are told
	MaxMessage   int
	MaxSessions  int
	MaxRequests  int // of one session
	IdleTimeout  time.Duration
	Log          eventlog.Log
	Store        streamable.SessionStore
	Before       *Doors // whose place these take, with their Log and Store; may be nil
	Logger       *slog.Logger
}

// caller returns what tells who makes a request at one door. It does not hold the options:
// Before would be held with them, and so all doors that have been at a place.
func (o *DoorOptions) caller(door string) httpx.CallerFunc {
	who, denied := o.Caller, o.Denied
	if who == nil {
		who = httpx.ByAddress
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
	mcp   *streamable.Server
	at    map[string]http.Handler
	doors []func(context.Context) error // shut them
}

// NewDoors returns the doors of a server.
func NewDoors(s *Backend, o *DoorOptions) *Doors {
	mcp := &streamable.Server{
		Sessions: s.Sessions, Requests: s.Requests, Trusted: true, Caller: o.caller("http"),
		MaxMessage: o.MaxMessage, MaxSessions: o.MaxSessions, MaxRequests: o.MaxRequests, IdleTimeout: o.IdleTimeout,
		Log: o.Log, Store: o.Store, Logger: o.Logger,
	}
	if o.Before != nil {
		mcp.Before = o.Before.mcp
	}
	old := &sse.Server{
		Acceptor: s.Acceptor, Trusted: true, Caller: o.caller("sse"), MessagesPath: o.MessagesPath,
		MaxMessage: o.MaxMessage, Logger: o.Logger,
	}
	sockets := &ws.Server{
		Acceptor: s.Acceptor, Requests: s.Requests, Trusted: true, Caller: o.caller("ws"),
		MaxMessage: o.MaxMessage, Logger: o.Logger,
	}
	d := &Doors{
		mcp:   mcp,
		at:    map[string]http.Handler{MCPPath: mcp, SSEPath: old.Stream(), MessagesPath: old.Messages(), WSPath: sockets},
		doors: []func(context.Context) error{mcp.Shutdown, old.Shutdown, sockets.Shutdown},
	}
	if s.Requests != nil {
		call := &toolhttp.Server{
			Requests: s.Requests, Check: new(schema.Checker).Check, Trusted: true, Caller: o.caller("call"),
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
