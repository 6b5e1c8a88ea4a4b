package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/sse"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// checkURL refuses what cannot be dialled, without repeating it: it may hold a
// password.
func checkURL(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" {
		return errors.New("the URL of the server cannot be read; it looks like https://host/mcp")
	}
	return nil
}

// reachUnix makes a server behind HTTP on a Unix socket.
func (t *target) reachUnix(s *settings, header http.Header, v *voice) error {
	at := s.url
	if path, ok := strings.CutPrefix(at, "http+unix:"); ok {
		abs, err := filepath.Abs(path)
		if err != nil || path == "" {
			return errors.New("http+unix: needs the path of a socket, as in http+unix:/run/server.sock")
		}
		at = "unix://" + abs
	}
	if !strings.HasPrefix(at, "unix:///") {
		return errors.New("unix:// needs an absolute path, as in unix:///run/server.sock:/mcp; without // messages go over the socket as lines")
	}
	t.how = "http on a Unix socket"
	client := newStreamable(s, at, header, v)
	t.dialer, t.probe = client, s.bounded(probeOf(client))
	return nil
}

// reachHTTP makes a server behind a URL that speaks either HTTP transport.
func (t *target) reachHTTP(s *settings, header http.Header, v *voice) error {
	if err := checkURL(s.url); err != nil {
		return err
	}
	client := newStreamable(s, s.url, header, v)
	old := &sse.Client{URL: s.url, Header: header, MaxMessage: s.maxMessage, Logger: v.log}
	order := s.order
	if order == "" {
		order = orders[0]
		if u, err := url.Parse(s.url); err == nil && strings.HasSuffix(strings.TrimSuffix(u.Path, "/"), "/sse") {
			order = "sse-first"
		}
	}
	switch order {
	case "http-first":
		client.Fallback = old
		t.dialer, t.probe = client, probeOf(client)
	case "http-only":
		t.dialer, t.probe = client, probeOf(client)
	case "sse-first":
		both := &oldFirst{old: old, new: client}
		t.dialer, t.probe = both, both.Probe
	case "sse-only":
		t.dialer, t.probe = old, legacyIf(old)
	default:
		return fmt.Errorf("unknown transport %q: use %s", order, strings.Join(orders, ", "))
	}
	t.probe = s.bounded(t.probe)
	return nil
}

// newStreamable makes a client without timeouts: era has those.
func newStreamable(s *settings, at string, header http.Header, v *voice) *streamable.Client {
	return &streamable.Client{URL: at, Header: header, Timeout: -1, MaxTimeout: -1, MaxMessage: s.maxMessage, Logger: v.log}
}

func probeOf(c *streamable.Client) func(context.Context) (protocol.Era, error) {
	return func(ctx context.Context) (protocol.Era, error) {
		verdict, err := c.Probe(ctx)
		return verdict.Era, err
	}
}

// legacyIf finds out whether a server that can be of one era only is there.
func legacyIf(d dragoman.Dialer) func(context.Context) (protocol.Era, error) {
	return func(ctx context.Context) (protocol.Era, error) {
		conn, err := d.Dial(ctx, nil)
		if err != nil {
			return 0, err
		}
		return protocol.Legacy, conn.Close()
	}
}

// errUnreached ends the wait for a server that does not say what it speaks.
var errUnreached = errors.New("it does not answer in time")

// bounded ends a probe when it takes as long as a dial may.
func (s *settings) bounded(probe func(context.Context) (protocol.Era, error)) func(context.Context) (protocol.Era, error) {
	limit := s.dialTimeout
	if limit == 0 {
		limit = era.DefaultDialTimeout
	}
	return func(ctx context.Context) (protocol.Era, error) {
		ctx, cancel := context.WithTimeoutCause(ctx, limit, errUnreached)
		defer cancel()
		return probe(ctx)
	}
}

// oldFirst reaches a server by HTTP+SSE, or by Streamable HTTP once it has
// refused that.
type oldFirst struct {
	old   *sse.Client
	new   *streamable.Client
	newer atomic.Bool
}

// Dial implements dragoman.Dialer.
func (d *oldFirst) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	if !d.newer.Load() {
		conn, err := d.old.Dial(ctx, local)
		if _, refused := errors.AsType[*sse.StatusError](err); !refused {
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
func (d *oldFirst) Probe(ctx context.Context) (protocol.Era, error) {
	found, err := legacyIf(d)(ctx)
	if err != nil || !d.newer.Load() {
		return found, err
	}
	return probeOf(d.new)(ctx)
}
