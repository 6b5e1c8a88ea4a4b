package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A Protocol is what a server turned out to speak.
type Protocol struct {
	// Era is that in which it should be used.
	Era protocol.Era

	// Revisions are those of the era that it is known to speak and we do too,
	// the newest first. There are none if it has not named any.
	Revisions []protocol.Revision

	// SSE says that it speaks HTTP+SSE instead of Streamable HTTP.
	SSE bool
}

// ErrNoRevision says that a server speaks no revision that we do.
var ErrNoRevision = errors.New("streamable: the server speaks no revision that we know")

// Probe finds out what the server speaks: it asks for server/discover. If the
// answer leaves that open, or there is none, it tries initialize, then looks for HTTP+SSE. A session
// that initialize opens is left to expire: some servers do not survive a DELETE.
// The result is remembered until something contradicts it. Probe fails if the server
// cannot be reached, wants authorization or fails.
func (c *Client) Probe(ctx context.Context) (Protocol, error) {
	if err := c.prepare(); err != nil {
		return Protocol{}, err
	}
	if v := c.remembered(); v != nil {
		return *v, nil
	}
	conn := newClientConn(c, nil)
	defer func() { _ = conn.Close() }() // it has no session, see probeLegacy
	v, err := conn.probe(ctx)
	if err != nil {
		return Protocol{}, err
	}
	c.remember(&v)
	return v, nil
}

func (c *Client) remembered() *Protocol {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known
}

func (c *Client) remember(v *Protocol) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known = v
}

// forget is called when the server contradicts what is remembered.
func (c *Client) forget() { c.remember(nil) }

// forgetIfRefused forgets what is remembered if the server refuses a call without a
// JSON-RPC error, as one of another era or transport would.
func (c *Client) forgetIfRefused(err error) {
	if err != nil && isProtocolRefusal(err) && c.remembered() != nil {
		c.forget()
	}
}

func (c *clientConn) probe(ctx context.Context) (Protocol, error) {
	k, resp, err := c.discover(ctx)
	if err != nil {
		refusal, hasStatus := errors.AsType[*protocol.StatusError](err)
		switch {
		case ctx.Err() != nil, hasStatus && saysNothing(refusal.Status), !hasStatus && !isUnanswered(err):
			return Protocol{}, err
		case hasStatus:
			// The Python SDK puts an id of its own into what it says of HTTP.
			resp = refusal.Response(c.opts.limits)
		}
	}
	if resp != nil {
		if v, ok, err := c.readDiscover(k.status, resp); ok || err != nil {
			return v, err
		}
	}
	return c.probeLegacy(ctx)
}

// saysNothing reports whether a status of failure says nothing about what the server speaks: it
// is about who asks and how often, or the server is not reached.
func saysNothing(status int) bool {
	switch status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout, http.StatusTooManyRequests,
		http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return status < 400
}

// isUnanswered reports whether an error says that the server may have got a request, and has
// closed the connection or answered by what is no response.
func isUnanswered(err error) bool {
	fault, ok := errors.AsType[protocol.Fault](err)
	return ok && fault.Outcome() == protocol.OutcomeUnknown
}

// isProtocolRefusal reports whether an error of an HTTP request says something about
// what the server speaks.
func isProtocolRefusal(err error) bool {
	e, ok := errors.AsType[*protocol.StatusError](err)
	return ok && e.Status >= 400 && e.Status < 500 && !isTemporary(e.Status) &&
		e.Status != http.StatusUnauthorized && e.Status != http.StatusForbidden
}

func (c *clientConn) discover(ctx context.Context) (*clientCall, *dragoman.Message, error) {
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodDiscover, map[string]any{"_meta": map[string]any{
		protocol.MetaProtocolVersion:    protocol.Latest.String(),
		protocol.MetaClientCapabilities: struct{}{},
		protocol.MetaClientInfo:         ourInfo,
	}})
	if err != nil {
		return nil, nil, err
	}
	return c.call(ctx, req, nil)
}

var ourInfo = map[string]string{"name": "dragoman", "version": dragoman.Version}

// readDiscover returns what an answer of a server that may be modern says about it. It
// returns false if the answer leaves that open.
func (c *clientConn) readDiscover(status int, resp *dragoman.Message) (v Protocol, ok bool, err error) {
	if resp.IsError() && status >= 400 && saysNothing(status) {
		return v, false, resp.RPCError()
	}
	if !resp.IsError() {
		v, ok = readRevisions(resp.Get("supportedVersions"))
		return v, ok, nil
	}
	switch e := resp.RPCError(); e.Code {
	case protocol.CodeUnsupported:
		var data struct {
			Supported json.RawMessage `json:"supported"`
		}
		_ = json.Unmarshal(e.Data, &data) // without it, a handshake tells
		if v, ok = readRevisions(data.Supported); !ok && data.Supported != nil {
			err = fmt.Errorf("%w: %w", ErrNoRevision, e)
		}
		return v, ok, err
	case protocol.CodeHeaderMismatch, protocol.CodeMissingCapability:
		c.log.Warn("the server speaks the modern era but refuses the probe", "error", e)
		return Protocol{Era: protocol.Modern, Revisions: []protocol.Revision{protocol.Latest}}, true, nil
	default:
		// A modern server has the method. A legacy one says so, or wants a session.
		return Protocol{Era: protocol.Legacy}, status >= 400 && status < 500 || declines(e.Code), nil
	}
}

// declines reports whether the code of an error that comes with status 200
// says that a request is not for this server: it is one of those that JSON-RPC
// reserves, and does not say that the server has failed.
func declines(code int) bool {
	return code >= -32768 && code <= -32000 && code != protocol.CodeInternal
}

// readRevisions reads a list of revisions, and keeps those of the newest era.
func readRevisions(list json.RawMessage) (v Protocol, ok bool) {
	var names []string
	if json.Unmarshal(list, &names) != nil {
		return v, false
	}
	for _, r := range protocol.Revisions() {
		if !slices.Contains(names, r.String()) || !r.HasStreamableHTTP() {
			continue
		}
		if len(v.Revisions) == 0 {
			v.Era = r.Era()
		}
		if r.Era() == v.Era {
			v.Revisions = append(v.Revisions, r)
		}
	}
	return v, len(v.Revisions) > 0
}

// probeLegacy tries initialize, then HTTP+SSE. The session does not become that of the
// conversation, so that the end of the conversation does not delete it.
func (c *clientConn) probeLegacy(ctx context.Context) (Protocol, error) {
	req, err := dragoman.NewRequest(dragoman.IntID(1), protocol.MethodInitialize, map[string]any{
		"protocolVersion": protocol.LatestLegacy.String(), "capabilities": struct{}{}, "clientInfo": ourInfo,
	})
	if err != nil {
		return Protocol{}, err
	}
	k, resp, err := c.call(ctx, req, nil)
	switch {
	case k == nil || err != nil && !isProtocolRefusal(err):
		return Protocol{}, err
	case k.opened != nil:
		if k.opened.revision == protocol.Unknown {
			return Protocol{}, fmt.Errorf("%w: it answers %q", ErrNoRevision, k.opened.version)
		}
		return Protocol{Era: protocol.Legacy, Revisions: []protocol.Revision{k.opened.revision}}, nil
	case err == nil && resp.IsError() && isModernCode(resp.RPCError().Code):
		v, _, err := c.readDiscover(k.status, resp)
		return v, err
	case !looksLikeSSE(k.status, resp, err):
		if err == nil {
			err = resp.RPCError()
		}
		return Protocol{}, err
	}
	return c.probeSSE(ctx, resp, err)
}

// probeSSE looks for the event that opens a conversation over HTTP+SSE.
func (c *clientConn) probeSSE(ctx context.Context, resp *dragoman.Message, refusal error) (Protocol, error) {
	if refusal == nil {
		refusal = resp.RPCError()
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.oneWayTimeout, &dragoman.TimeoutError{After: c.opts.oneWayTimeout})
	defer cancel()
	x, err := c.get(ctx, nil, "")
	if err != nil {
		return Protocol{}, err
	}
	defer x.close()
	if x.resp.StatusCode != http.StatusOK || !x.isStream() {
		return Protocol{}, refusal
	}
	e, err := sse.NewReader(x.resp.Body, httpclient.MaxErrorBody).Next()
	if err != nil || e.Name != "endpoint" {
		return Protocol{}, refusal
	}
	return Protocol{SSE: true, Era: protocol.Legacy, Revisions: []protocol.Revision{protocol.V20241105}}, nil
}
