package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/target"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

const (
	// patience is how long a server may take to come up before we say that we
	// wait for it.
	patience = 2 * time.Second

	// urlStart is how long we wait for a server at a URL before we serve it all
	// the same.
	urlStart = 10 * time.Second
)

// A bridge is a server that is named on the command line, as clients of either
// era see it.
type bridge struct {
	*target.Target
	server *era.Server
	calls  *witness
}

// newBridge makes the bridge that the settings ask for. Nothing is started.
func newBridge(s *settings, framing stdio.Framing, v *voice) (*bridge, error) {
	t, err := newTarget(s, framing, v)
	if err != nil {
		return nil, err
	}
	chosen, err := s.eraChoice()
	if err != nil {
		return nil, err
	}
	isolation, err := s.isolationChoice()
	if err != nil {
		return nil, err
	}
	b := &bridge{Target: t, calls: &witness{Dialer: t.Dialer}}
	b.server = &era.Server{
		Dialer: b.calls,
		Era:    chosen, Probe: t.Probe, ProbeTimeout: t.ProbeTimeout, DialTimeout: s.dialTimeout,
		Timeout: s.timeout, Isolation: isolation, Stateless: t.Stateless, Warm: s.pool,
		Name: "dragoman", Version: versionText(), Logger: v.log,
	}
	return b, nil
}

// start has the server come up, and returns its era. If that takes a while, v
// says so.
func (b *bridge) start(ctx context.Context, v *voice) (protocol.Era, error) {
	waiting := time.AfterFunc(patience, func() { v.say("starting %s …", b.Name) })
	defer waiting.Stop()
	if !b.Process {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, urlStart, target.ErrUnreached)
		defer cancel()
	}
	defer b.calls.over.Store(true)
	found, err := b.server.Start(ctx)
	if err == nil && b.server.Era != nil { // then nobody has spoken to it yet
		err = b.greet(ctx)
	}
	if exit, ok := errors.AsType[*stdio.ExitError](b.calls.failure()); ok && err != nil {
		err = exit // what came of it says less
	}
	return found, err
}

// greet makes the server say who it is, as if a client had asked.
func (b *bridge) greet(ctx context.Context) error {
	limit := b.server.DialTimeout
	if limit == 0 {
		limit = era.DefaultDialTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, target.ErrUnreached)
	defer cancel()
	req, err := dragoman.NewRequest(dragoman.StringID("start"), protocol.MethodDiscover, map[string]any{"_meta": map[string]any{
		protocol.MetaProtocolVersion:    protocol.Latest.String(),
		protocol.MetaClientCapabilities: struct{}{},
		protocol.MetaClientInfo:         map[string]string{"name": b.server.Name, "version": b.server.Version},
	}})
	if err != nil {
		return err
	}
	resp, err := b.server.Requests().Call(ctx, req, nil)
	if err == nil && resp.IsError() {
		switch e := resp.RPCError(); e.Code {
		case protocol.CodeUnavailable, protocol.CodeLost, protocol.CodeTimeout:
			err = e
		}
	}
	return err // nil also if it refuses: it is there
}

// explain says in a line why the server cannot be reached, and what to do.
func (b *bridge) explain(err error) error {
	if e, ok := errors.AsType[*stdio.StartError](err); ok {
		advice := e.Advice
		if errors.Is(e.Err, exec.ErrNotFound) || errors.Is(e.Err, fs.ErrNotExist) {
			advice = "give the full path, or check --cwd and PATH"
			if strings.Contains(e.Command, ":") {
				advice = "if it is a URL, begin it with http:// or https://"
			}
		}
		return errors.New(strings.TrimSuffix(fmt.Sprintf("cannot start %q: %v; %s", e.Command, e.Err, advice), "; "))
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the URL may hold a secret
	}
	if b.Process {
		return fmt.Errorf("the server did not come up: %w", err)
	}
	return fmt.Errorf("%s cannot be reached: %w", b.Name, err)
}
