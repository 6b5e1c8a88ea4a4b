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
	"github.com/dragoman-mcp/dragoman/internal/util/retry"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
)

// errStreamEnded says that a stream ended.
var errStreamEnded = errors.New("the stream ended")

// maxEventID bounds the event id behind which a stream is resumed, in bytes: it goes
// back to the server in a header.
const maxEventID = 8 << 10

// A cursor is how far a stream has been read.
type cursor struct {
	last  string        // the id of the last event that has one; empty if the stream cannot be resumed
	retry time.Duration // what the server asks to wait
	known bool          // retry is set
	count int           // events so far
}

func (u *cursor) advance(e *sse.Event) {
	u.count++
	switch {
	case e.ID == "":
	case len(e.ID) > maxEventID || strings.ContainsFunc(e.ID, unicode.IsControl):
		u.last = ""
	default:
		u.last = e.ID
	}
	if e.Retry > 0 {
		u.retry, u.known = time.Duration(e.Retry)*time.Millisecond, true
	}
}

// wait waits before a stream is opened again, after so many failures in a row. It
// reports whether ctx continues.
func (u *cursor) wait(ctx context.Context, r *Retry, failures int) bool {
	d := u.retry
	if !u.known || failures > 0 {
		d = max(d, retry.Backoff{Min: r.Min, Max: r.Max}.Wait(failures+1))
	}
	return retry.Sleep(ctx, d) == nil
}

// readStream reads events until the answer comes. A stream that breaks off is
// resumed, where that is possible.
func (k *clientCall) readStream(x *httpCall) (*dragoman.Message, error) {
	var u cursor
	for {
		r := k.conn.newEventReader(x.resp.Body)
		resp, err := k.readEvents(r, &u)
		if resp != nil {
			k.readToEnd(x, r)
			return resp, nil
		}
		x.close()
		if k.ctx.Err() != nil || !errors.Is(err, errStreamEnded) {
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

// readEvents reads what a stream brings until the answer comes or it ends.
func (k *clientCall) readEvents(r *sse.Reader, u *cursor) (*dragoman.Message, error) {
	for {
		e, err := r.Next()
		switch {
		case errors.Is(err, dragoman.ErrTooLarge):
			if kind, id := k.conn.skip(r); k.wasAnswer(kind, id) {
				return nil, err
			}
			k.conn.log.Warn("message on the stream of a call skipped", "error", err)
			continue
		case errors.Is(err, io.EOF):
			return nil, errStreamEnded
		case err != nil:
			return nil, fmt.Errorf("%w: %w", errStreamEnded, err)
		}
		u.advance(e)
		if !e.HasMessage() {
			continue
		}
		if resp, err := k.take(e.Data); resp != nil || err != nil {
			return resp, err
		}
	}
}

// wasAnswer reports whether a message that is too large was the answer, or may have
// been.
func (k *clientCall) wasAnswer(kind dragoman.Kind, id dragoman.ID) bool {
	return kind == dragoman.Invalid || kind == dragoman.Response && id == k.ID()
}

// newEventReader returns a reader for events that have room for the largest message and
// the fields around it.
func (c *clientConn) newEventReader(body io.Reader) *sse.Reader {
	return sse.NewReader(body, c.opts.limits.Message()+1024)
}

// skip passes over an event that is too large. It returns what the event was, as
// oversize does.
func (c *clientConn) skip(r *sse.Reader) (dragoman.Kind, dragoman.ID) {
	head, tail, err := r.Skip(8 * c.opts.limits.Message())
	if err != nil {
		return dragoman.Invalid, dragoman.ID{}
	}
	return c.oversize(head, tail)
}

// resume opens the rest of a stream.
func (k *clientCall) resume(u *cursor) (*httpCall, error) {
	c := k.conn
	u.count = 0
	for failures := 0; ; {
		if !u.wait(k.ctx, &c.opts.retry, failures) {
			return nil, context.Cause(k.ctx)
		}
		x, err := c.get(k.ctx, k.session, u.last)
		if err == nil {
			status := x.resp.StatusCode
			if status == http.StatusOK && x.isStream() {
				return x, nil
			}
			err = httpclient.ReadStatus(x.resp)
			x.close()
			if c.endIfSessionGone(status, k.session) || !isTemporary(status) {
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

// isTemporary reports whether the same request may get another status soon.
func isTemporary(status int) bool {
	return status >= 500 || status == http.StatusRequestTimeout || status == http.StatusTooManyRequests
}
