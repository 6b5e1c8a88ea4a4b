package streamable

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/backoff"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/rpc"
	"github.com/dragoman-mcp/dragoman/internal/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// answer reads the answer out of a response with a good status.
func (k *clientCall) answer(x *clientExchange) (*dragoman.Message, error) {
	if x.mediaType() == sse.ContentType {
		return k.stream(x)
	}
	body, err := x.readAll(k.conn.opts.limits.Message())
	x.close()
	switch {
	case errors.Is(err, dragoman.ErrTooLarge):
		return nil, err
	case err != nil:
		return nil, k.noResponse(err)
	case len(body) == 0 && k.status != http.StatusOK:
		return k.await()
	case len(body) == 0: // 200 says that this is the answer
		return nil, k.noResponse(errClientEmpty)
	}
	resp, err := k.take(body)
	if resp == nil && err == nil {
		err = k.noResponse(errors.New("the server's answer holds none"))
	}
	return resp, err
}

// refused reads the answer out of a response with a bad status: the body is it
// if that is a JSON-RPC error.
func (k *clientCall) refused(x *clientExchange) (*dragoman.Message, error) {
	refusal := httpx.ReadStatus(x.resp)
	resp := refusal.Response(k.conn.opts.limits)
	if resp != nil && refusal.WantsAuth() {
		refusal.RPC = resp.RPCError()
		return nil, refusal
	}
	ours := resp != nil && resp.ID() == k.ID()
	if refusal.Status == http.StatusNotFound && k.session != nil && k.session.id != "" &&
		(!ours || resp.RPCError().Code == clientCodeNoSession) {
		k.conn.end(ErrSessionGone)
		return nil, refusedError{k.conn.why()}
	}
	if ours || resp != nil && (resp.ID().IsNull() || resp.ID().IsZero()) {
		return resp, nil
	}
	if isUnknownMethod(refusal, k.Request().Method()) {
		return k.Request().Fail(&dragoman.Error{
			Code:    protocol.CodeMethodNotFound,
			Message: "method not found: " + k.Request().Method() + "; the server does not know it",
		}), nil
	}
	return nil, refusal
}

// clientCodeNoSession is what SDKs of the legacy era say for an unknown session.
const clientCodeNoSession = -32001

func (k *clientCall) noResponse(reason error) error {
	return httpx.LostOnTheWay(fmt.Errorf("%w: %s: %w", ErrNoResponse, k.Request().Method(), reason))
}

var errClientEmpty = errors.New("the server's answer is empty")

// await waits for an answer that comes on the session's own stream, as a status
// like 202 promises. If the server has none, it never will.
func (k *clientCall) await() (*dragoman.Message, error) {
	if deaf := k.conn.hears(k.session); deaf != nil {
		select {
		case <-k.ctx.Done():
			return nil, context.Cause(k.ctx)
		case <-deaf:
		}
	}
	return nil, k.noResponse(errClientEmpty)
}

const (
	// clientMaxSessionID bounds the session id that a server gives us, and
	// clientMaxEventID the event id behind which a stream is resumed, both in bytes:
	// they go back to the server in headers.
	clientMaxSessionID = 1024
	clientMaxEventID   = 8 << 10
)

// A clientCursor is how far a stream has been read.
type clientCursor struct {
	last  string        // the id of the last event that has one; empty if the stream cannot be resumed
	retry time.Duration // what the server asks to wait
	known bool          // it does
	count int           // events so far
}

func (u *clientCursor) note(e *sse.Event) {
	u.count++
	switch {
	case e.ID == "":
	case len(e.ID) > clientMaxEventID || strings.ContainsFunc(e.ID, unicode.IsControl):
		u.last = ""
	default:
		u.last = e.ID
	}
	if e.Retry > 0 {
		u.retry, u.known = time.Duration(e.Retry)*time.Millisecond, true
	}
}

// wait waits before a stream is opened anew, after so many failures in a row. It
// tells whether ctx goes on.
func (u *clientCursor) wait(ctx context.Context, r *Retry, failures int) bool {
	d := u.retry
	if !u.known || failures > 0 {
		d = max(d, backoff.Backoff{Min: r.Min, Max: r.Max}.Wait(failures+1))
	}
	return backoff.Sleep(ctx, d) == nil
}

// stream reads events until the answer comes. A stream that breaks off is
// resumed, where that is possible.
func (k *clientCall) stream(x *clientExchange) (*dragoman.Message, error) {
	var u clientCursor
	for {
		r := k.conn.events(x.resp.Body)
		resp, err := k.events(r, &u)
		if resp != nil {
			k.recycle(x, r)
			return resp, nil
		}
		x.close()
		if k.ctx.Err() != nil || !errors.Is(err, errClientBroken) {
			return nil, err
		}
		if k.modern || u.last == "" {
			return nil, k.noResponse(err)
		}
		if x, err = k.resume(&u); err != nil {
			return nil, err
		}
	}
}

// errClientBroken says that a stream ended.
var errClientBroken = errors.New("the stream ended")

// events reads what a stream brings until the answer comes or it ends.
func (k *clientCall) events(r *sse.Reader, u *clientCursor) (*dragoman.Message, error) {
	for {
		e, err := r.Next()
		switch {
		case errors.Is(err, dragoman.ErrTooLarge):
			if kind, id := k.conn.skip(r, k.session); k.losesBy(kind, id) {
				return nil, err
			}
			continue
		case errors.Is(err, io.EOF):
			return nil, errClientBroken
		case err != nil:
			return nil, fmt.Errorf("%w: %w", errClientBroken, err)
		}
		u.note(e)
		if len(e.Data) == 0 || e.Name != "" && e.Name != "message" {
			continue
		}
		if resp, err := k.take(e.Data); resp != nil || err != nil {
			return resp, err
		}
	}
}

// losesBy tells whether a message that is too large was the answer, or may have
// been.
func (k *clientCall) losesBy(kind dragoman.Kind, id dragoman.ID) bool {
	return kind == dragoman.Invalid || kind == dragoman.Response && id == k.ID()
}

// events reads events with room for the fields around the largest message.
func (c *clientConn) events(body io.Reader) *sse.Reader {
	return sse.NewReader(body, c.opts.limits.Message()+1024)
}

// skip passes over an event that is too large. It returns what the event was, as
// oversize does.
func (c *clientConn) skip(r *sse.Reader, s *clientSession) (dragoman.Kind, dragoman.ID) {
	head, tail, err := r.Skip(8 * c.opts.limits.Message())
	if err != nil {
		return dragoman.Invalid, dragoman.ID{}
	}
	return c.oversize(head, tail, s)
}

// oversize tells what a message was that is too large, from its ends, if that can
// be told. A question is refused.
func (c *clientConn) oversize(head, tail []byte, s *clientSession) (dragoman.Kind, dragoman.ID) {
	c.lost.Add(1)
	kind, id := rpc.Oversize(head, tail)
	if kind == dragoman.Request {
		c.refuse(dragoman.NewFailure(id, &dragoman.Error{
			Code: protocol.CodeInvalidRequest, Message: "Invalid request: " + dragoman.ErrTooLarge.Error(),
		}), s)
	}
	return kind, id
}

// resume opens the rest of a stream.
func (k *clientCall) resume(u *clientCursor) (*clientExchange, error) {
	c := k.conn
	u.count = 0
	for failures := 0; ; {
		if !u.wait(k.ctx, &c.opts.retry, failures) {
			return nil, context.Cause(k.ctx)
		}
		x, err := c.get(k.ctx, k.session, u.last)
		if err == nil {
			status := x.resp.StatusCode
			if status == http.StatusOK && x.mediaType() == sse.ContentType {
				return x, nil
			}
			err = httpx.ReadStatus(x.resp)
			x.close()
			if status == http.StatusNotFound && k.session != nil && k.session.id != "" {
				c.end(ErrSessionGone)
				return nil, k.noResponse(ErrSessionGone)
			}
			if !clientPasses(status) {
				return nil, k.noResponse(err)
			}
		}
		if k.ctx.Err() != nil {
			return nil, context.Cause(k.ctx)
		}
		if failures++; failures > c.opts.retry.Attempts {
			return nil, k.noResponse(err)
		}
	}
}

// clientPasses tells whether what a status says may be otherwise soon.
func clientPasses(status int) bool {
	return status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests
}

// learn takes the session out of the answer to initialize.
func (k *clientCall) learn(x *clientExchange, resp *dragoman.Message) error {
	if resp.IsError() {
		return nil
	}
	var result struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if err := resp.Decode(&result); err != nil {
		return fmt.Errorf("streamable: the answer to initialize cannot be read: %w", err)
	}
	id := x.resp.Header.Get(protocol.HeaderSession)
	if len(id) > clientMaxSessionID {
		return fmt.Errorf("streamable: the server's session id has %d characters, more than %d", len(id), clientMaxSessionID)
	}
	for i := range len(id) {
		if id[i] < 0x21 || id[i] > 0x7e {
			return errors.New("streamable: the server's session id has characters other than visible ASCII")
		}
	}
	k.opened = &clientSession{id: id, version: result.ProtocolVersion, revision: protocol.ParseRevision(result.ProtocolVersion)}
	return nil
}
