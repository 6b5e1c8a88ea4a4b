package rawclient

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// An Object is a JSON object.
type Object = map[string]any

// A Client makes the messages of one revision, and sends them over a Wire.
type Client struct {
	Wire

	// Revision is spoken. From the modern era on, requests carry what they need in _meta.
	Revision protocol.Revision

	// Capabilities are told to the server; nil means none.
	Capabilities Object

	// Version is ours, as told to the server, and Timeout how long an answer may take.
	Version string
	Timeout time.Duration

	// Start is how long a process may take until it answers anything, beside others on a busy machine.
	// Zero means no longer than Timeout.
	Start time.Duration

	// MaxList is how many bytes of a list are read; zero means 32 MiB.
	MaxList int

	next    int
	subject *Subject // may be nil
}

// CanAll are the capabilities of a client that can do everything that a server may ask for.
func CanAll() Object {
	return Object{"roots": Object{"listChanged": true}, "sampling": Object{"tools": Object{}}, "elicitation": Object{"form": Object{}, "url": Object{}}}
}

func (c *Client) info() Object { return Object{"name": "dragoman", "version": c.Version} }

func (c *Client) capabilities() Object {
	if c.Capabilities == nil {
		return Object{}
	}
	return c.Capabilities
}

// Meta returns the envelope of a request of the modern era.
func (c *Client) Meta() Object {
	return Object{
		protocol.MetaProtocolVersion:    c.Revision.String(),
		protocol.MetaClientCapabilities: c.capabilities(),
		protocol.MetaClientInfo:         c.info(),
	}
}

// Request makes a request. Its id is the next number, or the given one.
func (c *Client) Request(method string, params Object, given any) Request {
	c.next++
	if given == nil {
		given = c.next
	}
	params = maps.Clone(params)
	if c.Revision.Era() == protocol.Modern {
		if params == nil {
			params = Object{}
		}
		if _, own := params["_meta"]; !own {
			params["_meta"] = c.Meta()
		}
	}
	m := Object{"jsonrpc": "2.0", "id": given, "method": method}
	if params != nil {
		m["params"] = params
	}
	return Request{Text: encode(m), ID: encode(given)}
}

// encode writes what we made ourselves.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("rawclient: %v", err)) // it is made of strings, numbers and maps
	}
	return text
}

// Ask sends a request and waits for its answer.
func (c *Client) Ask(ctx context.Context, method string, params Object) *Exchange {
	return c.AskAs(ctx, nil, method, params)
}

// AskAs sends a request with a given id.
func (c *Client) AskAs(ctx context.Context, id any, method string, params Object) *Exchange {
	return c.exchange(ctx, c.Timeout, c.Request(method, params, id))
}

// Send sends any text, and waits a moment for an answer.
func (c *Client) Send(ctx context.Context, text string) *Exchange {
	return c.exchange(ctx, c.Timeout, Request{Text: []byte(text)})
}

func (c *Client) exchange(ctx context.Context, limit time.Duration, r Request) *Exchange {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrSilent)
	defer cancel()
	return c.Exchange(ctx, r)
}

// Note sends a notification.
func (c *Client) Note(ctx context.Context, method string, params Object) *Exchange {
	m := Object{"jsonrpc": "2.0", "method": method}
	if params != nil {
		m["params"] = params
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, ErrSilent)
	defer cancel()
	return c.Notify(ctx, encode(m))
}

// Initialize asks for a revision, by its name.
func (c *Client) Initialize(ctx context.Context, version string) *Exchange {
	return c.exchange(ctx, c.Timeout, c.initialize(version))
}

func (c *Client) initialize(version string) Request {
	return c.Request(protocol.MethodInitialize, Object{"protocolVersion": version, "capabilities": c.capabilities(), "clientInfo": c.info()}, nil)
}

// Try sends a request that a server may ignore, such as one with a method that it does not know, with an
// id as that of AskAs. If the server answers a later ping, the response is not waited for until Timeout.
func (c *Client) Try(ctx context.Context, id any, method string, params Object) *Exchange {
	return c.try(ctx, c.Timeout, c.Request(method, params, id))
}

// Parts of Timeout that a response may take when a ping that was sent later has been answered: usually,
// and if the server is known to ignore requests.
const (
	usualPart = 5
	knownPart = 10
)

func (c *Client) try(ctx context.Context, limit time.Duration, r Request) *Exchange {
	ping := c.Request(protocol.MethodPing, nil, fmt.Sprintf("witness-%d", c.next))
	r.Witness, r.Patience = &ping, c.Timeout/usualPart
	if c.subject != nil && c.subject.ignores {
		r.Patience = c.Timeout / knownPart
	}
	x := c.exchange(ctx, limit, r)
	if c.subject != nil && x.Silent() {
		c.subject.ignores = true
	}
	return x
}

// Greet makes the first request of a conversation: initialize, or server/discover.
func (c *Client) Greet(ctx context.Context) *Exchange {
	if c.Revision.Era() == protocol.Modern {
		return c.try(ctx, c.Timeout, c.hello())
	}
	return c.exchange(ctx, c.Timeout, c.hello())
}

func (c *Client) hello() Request {
	if c.Revision.Era() == protocol.Modern {
		return c.Request(protocol.MethodDiscover, nil, nil)
	}
	return c.initialize(c.Revision.String())
}

// Begin begins a conversation: with the handshake of a legacy revision, or by asking what a modern
// server is. The exchange is that of initialize, or of server/discover.
func (c *Client) Begin(ctx context.Context) *Exchange {
	if c.Revision.Era() == protocol.Modern {
		return c.try(ctx, max(c.Timeout, c.Start), c.hello()) // its process may be starting
	}
	x := c.Greet(ctx)
	if x.Result() == nil {
		return x
	}
	if s, ok := c.Wire.(*Session); ok {
		s.Version = x.Named()
	}
	if r := protocol.ParseRevision(x.Named()); r != protocol.Unknown && r.Era() == protocol.Legacy {
		c.Revision = r
	}
	c.Note(ctx, protocol.NoteInitialized, nil)
	return x
}

// Pages are what a server lists.
type Pages struct {
	Entries   []json.RawMessage
	Exchanges []*Exchange // one for each page
	Endless   bool        // the list had no end
	Flooded   bool        // the list is longer than what is read
	Bytes     int
}

// Tokens returns what the list costs a model, roughly.
func (p *Pages) Tokens() int { return p.Bytes / 4 }

// Last returns the last exchange.
func (p *Pages) Last() *Exchange { return p.Exchanges[len(p.Exchanges)-1] }

// OK reports whether the list was had whole.
func (p *Pages) OK() bool { return p.Last().Result() != nil && !p.Endless && !p.Flooded }

// List asks for all pages of a list, whose entries are the member of that name.
func (c *Client) List(ctx context.Context, method, member string) *Pages {
	p := &Pages{}
	var params Object
	seen := map[string]bool{}
	for range maxPages {
		x := c.Ask(ctx, method, params)
		p.Exchanges = append(p.Exchanges, x)
		var result map[string]json.RawMessage
		if json.Unmarshal(x.Result(), &result) != nil {
			return p
		}
		if p.Bytes += len(x.Result()); p.Bytes > cmp.Or(c.MaxList, maxBytes) {
			p.Flooded = true
			return p
		}
		var entries []json.RawMessage
		_ = json.Unmarshal(result[member], &entries) // that there are none is told by who looks
		p.Entries = append(p.Entries, entries...)
		var cursor *string
		if json.Unmarshal(result["nextCursor"], &cursor) != nil || cursor == nil {
			return p
		}
		if seen[*cursor] {
			break
		}
		seen[*cursor] = true
		params = Object{"cursor": *cursor}
	}
	p.Endless = true
	return p
}

// maxPages is how many pages of a list are asked for.
const maxPages = protocol.MaxPages
