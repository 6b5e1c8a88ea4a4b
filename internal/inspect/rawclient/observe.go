package rawclient

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// What does not exist, to see how a server takes it.
const (
	NoRevision    = "1999-01-01"
	NoSession     = "dragoman-no-such-session"
	ForeignOrigin = "https://dragoman.invalid" // of a page that has no business with any server
	foreignHost   = "dragoman.invalid"
)

// A List is something that a server may offer.
type List struct {
	Capability, Method string
	Member             string // of the result
	One                string // what an entry is called
}

// Lists are what a server may offer.
var Lists = []List{
	{"tools", protocol.MethodListTools, "tools", "tool"},
	{"resources", protocol.MethodListResources, "resources", "resource"},
	{"resources", protocol.MethodListTemplates, "resourceTemplates", "resource template"},
	{"prompts", protocol.MethodListPrompts, "prompts", "prompt"},
}

// Local reports whether the server is on this machine.
func (h *HTTP) Local() bool { return isLocal(h.At) }

// IsLocal reports whether a URL leads to this machine.
func IsLocal(text string) bool {
	at, err := url.Parse(text)
	return err == nil && isLocal(at)
}

func isLocal(at *url.URL) bool {
	host := at.Hostname()
	return oidc.Loopback(host) || oidc.Localhost(host)
}

// Hello returns the text of a request that may be the first one: initialize, or server/discover.
func (c *Client) Hello() []byte {
	method, params := protocol.MethodDiscover, Object(nil)
	if c.Revision.Era() == protocol.Legacy {
		method, params = protocol.MethodInitialize, c.greeting(c.Revision.String())
	}
	text, _ := c.Request(method, params, nil)
	return text
}

// Greet makes the first request of a conversation over HTTP, but for what is changed. If the server
// has opened a session, it is the caller's to delete; else it is nil.
func (c *Client) Greet(ctx context.Context, h *HTTP, change func(*Call)) (*Exchange, *Session) {
	text := c.Hello()
	s := &Session{HTTP: h}
	call := &Call{Method: http.MethodPost, Body: text, Header: s.Headers(text), Enough: HasAnswer}
	change(call)
	ctx, cancel := context.WithTimeoutCause(ctx, c.Timeout, ErrSilent)
	defer cancel()
	x := h.Do(ctx, call).Exchange()
	x.Sent = text
	if s.ID = x.HTTP.Header.Get(protocol.HeaderSession); s.ID == "" || c.Revision.Era() == protocol.Modern {
		return x, nil
	}
	return x, s
}

// FromForeignOrigin and ForForeignHost change a request into one that a page of somebody else makes.
func FromForeignOrigin(c *Call) { c.Header["Origin"] = ForeignOrigin }

// ForForeignHost is the other one.
func ForForeignHost(c *Call) { c.Host = foreignHost }

// in returns a client of the same kind in another session.
func (c *Client) in(s *Session) *Client {
	other := *c
	other.Wire = s
	return &other
}

// PingWithout pings without the id of the session that the client has over HTTP.
func (c *Client) PingWithout(ctx context.Context) *Exchange {
	own := c.Wire.(*Session) // who has none has no sessions
	return c.in(&Session{HTTP: own.HTTP, Version: own.Version}).Ask(ctx, protocol.MethodPing, nil)
}

// PingUnknown pings in a session that does not exist.
func (c *Client) PingUnknown(ctx context.Context) *Exchange {
	own := c.Wire.(*Session) // as above
	return c.in(&Session{HTTP: own.HTTP, ID: NoSession, Version: own.Version}).Ask(ctx, protocol.MethodPing, nil)
}

// PingVersion pings with an MCP-Protocol-Version that does not exist.
func (c *Client) PingVersion(ctx context.Context) *Exchange {
	own := c.Wire.(*Session) // as above
	return c.in(&Session{HTTP: own.HTTP, ID: own.ID, Version: NoRevision}).Ask(ctx, protocol.MethodPing, nil)
}

// PingUnversioned pings without an MCP-Protocol-Version.
func (c *Client) PingUnversioned(ctx context.Context) *Exchange {
	own := c.Wire.(*Session) // as above
	return c.in(&Session{HTTP: own.HTTP, ID: own.ID}).Ask(ctx, protocol.MethodPing, nil)
}

// Delete ends the session, and says how the server took that.
func (s *Session) Delete(ctx context.Context, limit time.Duration) *Exchange {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrSilent)
	defer cancel()
	return s.Do(ctx, &Call{Method: http.MethodDelete, Header: s.Headers(nil)}).Exchange()
}

// Stream opens the stream that GET does, behind an event if one is named, and returns when there is
// enough of it, or nothing more came for a while.
func (s *Session) Stream(ctx context.Context, limit time.Duration, behind string, enough func(*Reply) bool, patience time.Duration) *Exchange {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrSilent)
	defer cancel()
	header := s.Headers(nil)
	header["Accept"], header["Content-Type"], header[protocol.HeaderLastEventID] = sse.ContentType, "", behind
	return s.Do(ctx, &Call{Method: http.MethodGet, Header: header, Enough: enough, Patience: patience}).Exchange()
}

// Resumable returns the first id of the events of a stream, or "", and how many events are behind
// that one.
func (r *Reply) Resumable() (id string, behind int) {
	i := slices.IndexFunc(r.Events, func(e *sse.Event) bool { return e.ID != "" })
	if i < 0 {
		return "", 0
	}
	return r.Events[i].ID, len(r.Events) - 1 - i
}

// Named returns the revision that the result of initialize names, or "".
func (x *Exchange) Named() string {
	var hello struct{ ProtocolVersion string }
	_ = json.Unmarshal(x.Result(), &hello) // else it names none
	return hello.ProtocolVersion
}

// Supported returns the revisions that the result of server/discover names.
func (x *Exchange) Supported() []string {
	var found struct{ SupportedVersions []string }
	_ = json.Unmarshal(x.Result(), &found) // else it names none
	return found.SupportedVersions
}
