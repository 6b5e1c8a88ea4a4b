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
	"github.com/dragoman-mcp/dragoman/internal/gateway/admission"
	"github.com/dragoman-mcp/dragoman/internal/util/jsonschema"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
	"github.com/dragoman-mcp/dragoman/transport/toolhttp"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// Paths of an endpoint, one per transport.
const (
	MCPPath      = "/mcp"      // Streamable HTTP
	SSEPath      = "/sse"      // HTTP+SSE: the stream
	MessagesPath = "/messages" // HTTP+SSE: what clients send
	WSPath       = "/ws"       // WebSocket
	CallPath     = "/call"     // tool calls over plain HTTP, also below it
)

// The transports, as they are called in a Caller.
const (
	viaHTTP = admission.HTTP
	viaSSE  = "sse"
	viaWS   = "ws"
	viaCall = admission.Call
)

// EndpointOptions configures an Endpoint. Zero values mean the defaults of the transports. Host
// and Origin of requests have been checked.
type EndpointOptions struct {
	// Caller returns a caller for each request, which must not be shared, or refuses the
	// request. If nil, callers are identified by their address. Denied, if not nil, is called
	// with requests that are refused, and the transport.
	Caller httpserver.CallerFunc
	Denied func(r *http.Request, transport, rule string, err error)

	MessagesPath string // that clients of HTTP+SSE receive
	MaxMessage   int
	MaxSessions  int
	MaxRequests  int // of one session
	IdleTimeout  time.Duration
	Log          eventlog.Log
	Store        eventlog.Records
	Logger       *slog.Logger
}

// caller returns the function that finds the caller of a request to one transport.
func (o *EndpointOptions) caller(transport string) httpserver.CallerFunc {
	find, denied := o.Caller, o.Denied
	if find == nil {
		find = httpserver.ByAddress
	}
	return func(r *http.Request) (*dragoman.Caller, error) {
		c, err := find(r)
		if err == nil {
			c.Transport = transport
		} else if denied != nil {
			denied(r, transport, "caller", err)
		}
		return c, err
	}
}

// An Endpoint serves a backend to clients over every transport.
type Endpoint struct {
	handlers  map[string]http.Handler // by path
	shutdowns []func(context.Context) error
}

// NewEndpoint returns the endpoint of a backend.
func NewEndpoint(b *Backend, o *EndpointOptions) *Endpoint {
	mcp := &streamable.Server{
		Sessions: b.Sessions, Requests: b.Requests, Trusted: true, Caller: o.caller(viaHTTP),
		MaxMessage: o.MaxMessage, MaxSessions: o.MaxSessions, MaxRequests: o.MaxRequests, IdleTimeout: o.IdleTimeout,
		Log: o.Log, Store: o.Store, Logger: o.Logger,
	}
	events := &sse.Server{
		Acceptor: b.Acceptor, Trusted: true, Caller: o.caller(viaSSE), MessagesPath: o.MessagesPath,
		MaxMessage: o.MaxMessage, Logger: o.Logger,
	}
	sockets := &ws.Server{
		Acceptor: b.Acceptor, Requests: b.Requests, Trusted: true, Caller: o.caller(viaWS),
		MaxMessage: o.MaxMessage, Logger: o.Logger,
	}
	e := &Endpoint{
		handlers:  map[string]http.Handler{MCPPath: mcp, SSEPath: events.Stream(), MessagesPath: events.Messages(), WSPath: sockets},
		shutdowns: []func(context.Context) error{mcp.Shutdown, events.Shutdown, sockets.Shutdown},
	}
	if b.Requests != nil {
		call := &toolhttp.Server{
			Requests: b.Requests, Check: new(jsonschema.Checker).Check, Trusted: true, Caller: o.caller(viaCall),
			MaxMessage: o.MaxMessage, Logger: o.Logger,
		}
		e.shutdowns = append(e.shutdowns, call.Shutdown)
		e.handlers[CallPath] = call
	}
	return e
}

// At returns the handler of a path, and the prefix of the path that it does not expect. It is
// nil if not configured.
func (e *Endpoint) At(path string) (h http.Handler, prefix string) {
	if path == CallPath || strings.HasPrefix(path, CallPath+"/") {
		return e.handlers[CallPath], CallPath
	}
	return e.handlers[path], ""
}

// Shutdown refuses new requests, waits for those in flight until ctx ends, and cuts the rest. It
// returns an error if there was a rest.
func (e *Endpoint) Shutdown(ctx context.Context) error { return shutdownAll(ctx, e.shutdowns) }

// shutdownAll calls all functions at the same time, and returns the first error there is.
func shutdownAll(ctx context.Context, shutdowns []func(context.Context) error) error {
	failed := make([]error, len(shutdowns))
	var closing sync.WaitGroup
	for i, shutdown := range shutdowns {
		closing.Go(func() { failed[i] = shutdown(ctx) }) // ends soon after ctx
	}
	closing.Wait()
	return cmp.Or(failed...)
}
