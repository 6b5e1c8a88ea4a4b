package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// OneShot says how Call behaves. The zero value is ready to use.
type OneShot struct {
	// Header is sent with every HTTP request.
	Header http.Header

	// Timeout is how long everything may take, the connecting too. Zero means
	// DefaultTimeout, negative no limit.
	Timeout time.Duration

	// Name and Version are how we introduce ourselves, Era the era to speak; see
	// Options.
	Name, Version string
	Era           *protocol.Era

	// OnNotification is given what the server tells on the way.
	OnNotification func(note *dragoman.Message)
}

// Call makes one request of the server at a URL and returns its result: in the
// modern era as it is, in the legacy era within a session that is opened for it
// and ended behind it. params is as for Request. o may be nil.
//
// Whoever makes several requests of a server does better with Connect.
func Call(ctx context.Context, url, method string, params any, o *OneShot) (json.RawMessage, error) {
	if o == nil {
		o = new(OneShot)
	}
	limit := o.Timeout
	orDefault(&limit, DefaultTimeout)
	c, err := newConnecting(&Server{URL: url, Header: o.Header}, &Options{
		Name: o.Name, Version: o.Version, Era: o.Era, OnNotification: o.OnNotification,
		Timeout: -1, ConnectTimeout: max(limit, 0),
	})
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // the result is there
	inner := ctx
	if limit > 0 {
		var cancel context.CancelFunc
		inner, cancel = context.WithTimeoutCause(ctx, limit, &dragoman.TimeoutError{After: limit})
		defer cancel()
	}
	result, err := c.single(inner, method, params)
	if err != nil && ctx.Err() == nil && inner.Err() != nil {
		err = c.wrap(Timeout, method, true, context.Cause(inner))
	}
	return result, err
}

// single connects, as far as that is needed, and makes the request.
func (c *Client) single(ctx context.Context, method string, params any) (json.RawMessage, error) {
	err := c.connect(ctx)
	if err == nil && c.era == protocol.Legacy {
		_, err = c.openSide(ctx)
	}
	if err != nil {
		return nil, c.unconnected(ctx, err)
	}
	return c.Request(ctx, method, params)
}
