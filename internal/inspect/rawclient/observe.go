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

// GreetAs makes the first request of a conversation over HTTP, but for what is changed. If the server
// has opened a session, it is the caller's to delete; else it is nil.
func (c *Client) GreetAs(ctx context.Context, h *HTTP, change func(*Call)) (*Exchange, *Session) {
	text := c.hello().Text
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

// Session returns the session that the client has over HTTP. Other transports have none.
func (c *Client) Session() *Session { return c.Wire.(*Session) }

// IsStream reports whether the answer is an event stream.
func (x *Exchange) IsStream() bool { return x.Status() == http.StatusOK && x.HTTP.Stream }

// Refused reports whether HTTP refuses the request as such.
func (x *Exchange) Refused() bool { return x.Status()/100 == 4 }

// Background opens the stream that GET does, and reads no event of it.
func (s *Session) Background(ctx context.Context, limit time.Duration) *Exchange {
	return s.Stream(ctx, limit, "", HeadersOnly, 0)
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

// A Hello is what a server says of itself in the result of initialize, or of server/discover.
type Hello struct {
	ProtocolVersion          string
	SupportedVersions        []string
	Capabilities, ServerInfo json.RawMessage
	Instructions             string
	Meta                     map[string]json.RawMessage `json:"_meta"`
}

// Hello reads the result as what a server says of itself. What cannot be read is left out.
func (x *Exchange) Hello() (h Hello) {
	_ = json.Unmarshal(x.Result(), &h) // as above
	if h.Meta[protocol.MetaServerInfo] != nil {
		h.ServerInfo = h.Meta[protocol.MetaServerInfo]
	}
	return h
}

// Can returns the capabilities that the server announces, by their names.
func (h *Hello) Can() (can map[string]json.RawMessage) {
	_ = json.Unmarshal(h.Capabilities, &can) // else it has none
	return can
}

// Named returns the revision that the result of initialize names, or "".
func (x *Exchange) Named() string { return x.Hello().ProtocolVersion }

// Supported returns the revisions that the result of server/discover names.
func (x *Exchange) Supported() []string { return x.Hello().SupportedVersions }
