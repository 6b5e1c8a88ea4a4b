package target

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// Orders are the ways in which an http URL is tried. The first is the default,
// except for URLs that end in /sse.
var Orders = []string{"http-first", "sse-first", "http-only", "sse-only"}

// ErrUnreached ends the wait for a server that does not say what it speaks.
var ErrUnreached = errors.New("it does not answer")

// Unreached is ErrUnreached after a wait.
func Unreached(wait time.Duration) error { return fmt.Errorf("%w within %v", ErrUnreached, wait) }

// reachHTTP makes a server behind a URL that speaks either HTTP transport.
func (t *Target) reachHTTP(s *Spec) error {
	if err := checkHost(s.URL); err != nil {
		return err
	}
	client := newStreamable(s, s.URL)
	old := &sse.Client{URL: s.URL, Header: s.Header, Wrap: s.Wrap, TLS: s.TLS, Proxy: s.Proxy, MaxMessage: s.MaxMessage, Logger: s.Logger}
	switch s.order() {
	case "http-only", "http":
		t.Dialer, t.Probe = client, probeOf(client)
	case "sse-first":
		both := &sseFirst{old: old, new: client}
		t.Dialer, t.Probe = both, both.Probe
	case "sse-only", "sse":
		t.Dialer, t.Probe = old, legacyProbe(old)
	default:
		client.Fallback = old
		t.Dialer, t.Probe = client, probeOf(client)
	}
	t.Probe = s.bounded(t.Probe)
	t.Stateless = true
	return nil
}

// order returns how an http URL is tried.
func (s *Spec) order() string {
	if s.Transport != "" && s.Transport != "auto" {
		return s.Transport
	}
	if u, err := url.Parse(s.URL); err == nil && strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/sse") {
		return "sse-first"
	}
	return Orders[0]
}

// newStreamable makes a client without timeouts: era has those.
func newStreamable(s *Spec, at string) *streamable.Client {
	return &streamable.Client{URL: at, Header: s.Header, Wrap: s.Wrap, TLS: s.TLS, Proxy: s.Proxy, Timeout: -1, MaxTimeout: -1, MaxMessage: s.MaxMessage, Logger: s.Logger}
}

func probeOf(c *streamable.Client) func(context.Context) (protocol.Era, error) {
	return func(ctx context.Context) (protocol.Era, error) {
		verdict, err := c.Probe(ctx)
		return verdict.Era, err
	}
}

// legacyProbe finds out whether a server that can be of one era only is there.
func legacyProbe(d dragoman.Dialer) func(context.Context) (protocol.Era, error) {
	return func(ctx context.Context) (protocol.Era, error) {
		conn, err := d.Dial(ctx, nil)
		if err != nil {
			return 0, err
		}
		return protocol.Legacy, conn.Close()
	}
}

// bounded ends a probe when it takes as long as a dial may.
func (s *Spec) bounded(probe func(context.Context) (protocol.Era, error)) func(context.Context) (protocol.Era, error) {
	limit := s.DialTimeout
	if limit == 0 {
		limit = era.DefaultDialTimeout
	}
	return func(ctx context.Context) (protocol.Era, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, limit, Unreached(limit))
		defer cancel()
		return probe(ctx)
	}
}

// sseFirst reaches a server by HTTP+SSE, or by Streamable HTTP once it has
// refused that.
type sseFirst struct {
	old   *sse.Client
	new   *streamable.Client
	newer atomic.Bool
}

// Dial implements dragoman.Dialer.
func (d *sseFirst) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	if !d.newer.Load() {
		conn, err := d.old.Dial(ctx, local)
		if _, refused := errors.AsType[*protocol.StatusError](err); !refused {
			return conn, err
		}
		if _, probe := d.new.Probe(ctx); probe != nil {
			return nil, err // about the transport that the URL names
		}
		d.newer.Store(true)
	}
	return d.new.Dial(ctx, local)
}

// Probe finds out the server's era.
func (d *sseFirst) Probe(ctx context.Context) (protocol.Era, error) {
	found, err := legacyProbe(d)(ctx)
	if err != nil || !d.newer.Load() {
		return found, err
	}
	return probeOf(d.new)(ctx)
}
