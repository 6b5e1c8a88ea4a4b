package gateway

import "github.com/dragoman-mcp/dragoman/internal/gateway/event"

// An Observer is called with what happens in a gateway: each request before and after it is
// passed on, all messages of the links that it watches, and events beside requests. Its methods
// are called concurrently and must not block. Embed [NopObserver] for those that are
// not needed.
type Observer = event.Observer

// NopObserver is an Observer that ignores everything.
type NopObserver = event.Nop

// An Exchange is one request and its outcome, as Begin and End of an Observer get it.
type Exchange = event.Exchange

// A Link is a session or a connection at a point of observation, or all requests there that
// belong to no session.
type Link = event.Link

// A Role is the point of observation of a Link.
type Role = event.Role

// The roles of links. A request to an aggregate is observed at its endpoint, and as that of each
// member that is asked.
const (
	ServerEndpoint    = event.ServerEndpoint
	AggregateEndpoint = event.AggregateEndpoint
	Member            = event.Member
	Connection        = event.Connection
)

// A Passing is one message on its way, as Message of an Observer gets it.
type Passing = event.Passing

// The directions of a Passing.
const (
	ToServer = event.ToServer
	ToClient = event.ToClient
)

// An Event is something that happens beside requests, such as the beginning of a session.
type Event = event.Event

// A Refusal is an error with which a step of the gateway refuses a request.
type Refusal = event.Refusal
