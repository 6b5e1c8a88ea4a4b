package era

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// ErrNoRevision says that a server speaks no revision that we do.
var ErrNoRevision = errors.New("era: the server speaks no revision that we know")

// errProbeUnanswered says that a server has ended or stayed silent instead of answering the
// probe.
var errProbeUnanswered = errors.New("era: no answer to the probe")

// era returns the era in which the server is spoken to: modern if it speaks that.
func (s *Server) era(ctx context.Context) (protocol.Era, error) {
	if s.Era != nil {
		return *s.Era, nil
	}
	if era, ok := s.found.Peek(); ok {
		return era, nil
	}
	var asked atomic.Bool // on behalf of this caller
	for {
		era, err := s.found.Get(ctx, s.busy.Start, func() (protocol.Era, error) {
			asked.Store(true)
			era, err := s.find(dragoman.WithCallerOf(s.ctx, ctx)) // it ends with us, not with who asks first
			if err == nil {
				s.handshakeFailed.Store(false)
				if s.OnEra != nil {
					s.OnEra(era)
				}
				s.log.Info("the server speaks the "+era.String()+" era", "era", era.String(), "assumed", s.assumed.Load())
			}
			return era, err
		})
		if err == nil || ctx.Err() != nil || s.ctx.Err() != nil || asked.Load() || dragoman.CallerOf(ctx).Passed == "" {
			return era, err
		}
		// It was asked on behalf of another, whom the server may not want.
	}
}

// forget makes the next request find out the era again: the server may be another one
// by now.
func (s *Server) forget() {
	s.found.Forget(nil)
	s.refuses.Store(false)
	s.assumed.Store(false)
}

// isModernOnly reports whether the server is known to serve no legacy clients. If
// somebody is finding that out, it waits for the outcome, since a conversation comes of
// it that a legacy server can be asked on. If it costs no conversation, it finds that out
// first.
func (s *Server) isModernOnly(ctx context.Context) bool {
	if s.Era != nil {
		return *s.Era == protocol.Modern
	}
	limit := cmp.Or(s.ProbeTimeout, DefaultProbeTimeout)
	if s.Probe == nil {
		s.found.Wait(ctx, limit)
		return s.refuses.Load()
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	_, _ = s.era(ctx) // who cannot be asked that is asked by the client
	return s.refuses.Load()
}

// find finds out the era: on one connection by a request that no legacy server knows,
// and if there is no response soon, also by a handshake on another one. A server that
// starts slowly answers the first; one that ignores it or ends because of it, the second. Neither is
// stopped before the other has been answered.
//
// A server that has read the request and stays silent is assumed to be a legacy server, and
// so is one that is remembered as one: the next initialize goes out on the connection that is
// open. If it fails, the assumption is dropped.
//
// If neither has an answer, the next attempts make one of them each, in turns.
//
// A server that ends when it gets the request has not said what it is. The handshake is the
// next thing that is tried also if a Dialer has it wait for so long that this attempt
// is over by then: the two take turns, each on a connection of its own.
func (s *Server) find(ctx context.Context) (protocol.Era, error) {
	if s.Probe != nil {
		return s.Probe(ctx)
	}
	if p := s.lent.Swap(nil); p != nil && p.isModern(ctx) {
		s.silent.Store(false)
		return protocol.Modern, nil
	}
	refuses := false // it answers, and takes no handshake
	if s.silent.Load() {
		before := s.refused.Load()
		err := s.handshake(ctx)
		if refuses = err != nil && s.refused.Load() != before; !refuses {
			return protocol.Legacy, err
		}
	}
	hint := s.hint()
	if hint != nil && *hint == protocol.Legacy {
		return protocol.Legacy, s.assumeLegacy(ctx)
	}
	p := &probe{server: s, opened: make(chan warmConn, 1), result: make(chan probeResult, 1)}
	// Ends with the server's answer, after the time for a dial, or with Close.
	if !s.busy.Start(func() { p.result <- p.run(dragoman.WithCallerOf(s.ctx, ctx)) }) {
		return 0, dragoman.ErrClosed
	}
	handshakeFailed := s.handshakeFailed.Load()
	p.hinted, p.sole = hint != nil, handshakeFailed || hint != nil || refuses
	switch v, outcome := p.await(ctx, !refuses); {
	case outcome == probeAnswered && (!errors.Is(v.err, errProbeUnanswered) || handshakeFailed):
		return v.era, v.err
	case outcome == probeAnswered:
		return protocol.Legacy, s.handshake(ctx)
	case outcome == probeSilent:
		return protocol.Legacy, nil
	case outcome == probeGivenUp:
		return 0, context.Cause(ctx)
	}
	return s.findEither(ctx, p)
}

// findEither tries a handshake beside a probe that has no answer yet.
func (s *Server) findEither(ctx context.Context, p *probe) (protocol.Era, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of the handshake, if the other is answered first
	handshake := make(chan error, 1)
	if !s.busy.Start(func() { handshake <- s.handshake(ctx) }) {
		return 0, dragoman.ErrClosed
	}
	asked := p.result
	for first := true; ; first = false {
		select {
		case v := <-asked:
			if v.err == nil && v.era == protocol.Modern {
				s.pool.End(mainOwner) // nobody needs what the handshake opens
			}
			if v.err == nil || !first {
				return v.era, v.err
			}
			asked = nil
		case err := <-handshake:
			if err == nil || !first {
				return protocol.Legacy, err
			}
			handshake = nil
		}
	}
}

// hintFactor is how many times as long a server may take over the probe if it is
// remembered as a modern one.
const hintFactor = 3

// hint returns the era that is remembered, once: what comes of it is known better then.
func (s *Server) hint() *protocol.Era {
	if s.Hint == nil || s.hinted.Swap(true) {
		return nil
	}
	return s.Hint
}

// assumeLegacy opens a connection for the next initialize, and sends nothing on it.
func (s *Server) assumeLegacy(ctx context.Context) error {
	local := new(lateBoundPeer)
	conn, err := s.open(ctx, local)
	if err != nil {
		return err
	}
	s.assumed.Store(true)
	s.spares.put(warmConn{conn, local, protocol.Legacy, dragoman.CallerOf(ctx).Passed})
	return nil
}

// errEcho says that a server is none.
var errEcho = errors.New("era: it sends back what it is sent, so it is no MCP server")

// A probe asks a server for its era on a connection.
type probe struct {
	server *Server
	opened chan warmConn    // holds the connection once it is open
	result chan probeResult // holds what came of it
	lent   atomic.Bool      // the connection is among the spares, without an answer

	hinted bool // the server is remembered as a modern one
	sole   bool // no handshake is tried beside it
}

// A probeResult is what came of a probe.
type probeResult struct {
	era protocol.Era
	err error
}

// The outcomes of the wait for a probe.
const (
	probeAnswered = iota // or failed: there is a probeResult
	probeSilent          // the server has read the request and is silent; its connection is among the spares
	probeLate            // the time for the answer is over
	probeGivenUp         // the context has ended
)

// silentPart is the part of ProbeTimeout after which a server counts as silent that has
// read the request, and readChecks how often in that time it is checked whether it has.
const (
	silentPart = 5
	readChecks = 10
)

// await waits for the answer. assumes says that a silent server may be assumed to be a legacy
// one. A server of which it is known that it has not read the request yet is still starting: it
// is neither late nor silent.
func (p *probe) await(ctx context.Context, assumes bool) (probeResult, int) {
	limit := cmp.Or(p.server.ProbeTimeout, DefaultProbeTimeout)
	if p.hinted {
		limit *= hintFactor
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	checks := time.NewTicker(max(limit/silentPart/readChecks, 1))
	defer checks.Stop()
	var c warmConn
	opened, isLate := p.opened, false
	for hasRead := 0; ; {
		select {
		case v := <-p.result:
			return v, probeAnswered
		case c = <-opened:
			opened = nil
			continue
		case <-late.C:
			isLate = true
		case <-checks.C:
		case <-ctx.Done():
			return probeResult{}, probeGivenUp
		}
		unread, known := 0, false
		if opened == nil {
			unread, known = unreadOn(c.conn)
		}
		switch {
		case known && unread > 0:
			hasRead = 0
			continue
		case known:
			hasRead++
		}
		if assumes && hasRead > readChecks && p.lent.CompareAndSwap(false, true) {
			p.server.silent.Store(true)
			p.server.assumed.Store(true)
			p.server.lent.Store(p)
			p.server.spares.put(c)
			return probeResult{}, probeSilent
		}
		if isLate && !known && !p.sole {
			return probeResult{}, probeLate
		}
	}
}

// lateWait is how long the answer to a probe is waited for when a handshake on the same
// connection has failed.
const lateWait = time.Second

// isModern reports whether the server was only slow to answer, and is a modern one. It is
// called when the handshake on the connection has failed.
func (p *probe) isModern(ctx context.Context) bool {
	t := time.NewTimer(lateWait)
	defer t.Stop()
	select {
	case v := <-p.result:
		return v.err == nil && v.era == protocol.Modern
	case <-t.C:
	case <-ctx.Done():
	}
	return false
}

// unreadOn returns how many bytes of what was sent on a connection the server has not read
// yet, if the connection knows.
func unreadOn(conn dragoman.Conn) (n int, known bool) {
	c, ok := dragoman.PeerAs[interface{ Unread() (int, bool) }](conn)
	if !ok {
		return 0, false
	}
	return c.Unread()
}

// run asks. The connection is used again by the next client that needs one,
// unless the server took the probe for more than a method that it does not have: some
// servers choose their era by the first request.
func (p *probe) run(ctx context.Context) probeResult {
	s := p.server
	local := new(lateBoundPeer)
	var echoes atomic.Bool
	local.set(dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == protocol.MethodDiscover {
			echoes.Store(true) // our refusal comes back as the answer
		}
		return dragoman.NoPeer.Call(ctx, req, from)
	}})
	conn, err := s.open(ctx, local)
	if err != nil {
		return probeResult{err: err}
	}
	spare := warmConn{conn, local, protocol.Legacy, dragoman.CallerOf(ctx).Passed}
	p.opened <- spare
	req, err := discoverRequest()
	if err != nil {
		s.discard(conn)
		return probeResult{err: err}
	}
	ctx, cancel := s.dialContext(ctx)
	defer cancel()
	resp, err := conn.Call(ctx, req, nil)
	if !p.lent.CompareAndSwap(false, true) {
		if err == nil {
			if era, bad := readDiscover(resp); bad == nil {
				return probeResult{era: era}
			}
		}
		return probeResult{err: errProbeUnanswered}
	}
	if err != nil {
		s.discard(conn)
		if s.ctx.Err() == nil && !isUnsent(err) {
			s.silent.Store(true)
			err = errProbeUnanswered
		}
		return probeResult{err: err}
	}
	if echoes.Load() {
		s.discard(conn)
		return probeResult{err: errEcho}
	}
	era, err := readDiscover(resp)
	if err == nil && (era == protocol.Modern || s.keepsAfter(resp)) {
		spare.era = era
		s.spares.put(spare)
	} else {
		s.discard(conn)
	}
	return probeResult{era, err}
}

// keepsAfter reports whether the connection can be used for a handshake after a legacy server
// has answered the probe: it does not have the method, or takes the request for an invalid one, as
// the Python SDK does. That the handshake works then is an assumption.
func (s *Server) keepsAfter(resp *dragoman.Message) bool {
	if !resp.IsError() {
		return false
	}
	switch resp.RPCError().Code {
	case protocol.CodeMethodNotFound:
		return true
	case protocol.CodeInvalidRequest, protocol.CodeInvalidParams:
		if s.spoils.Load() {
			return false
		}
		s.assumed.Store(true)
		return true
	}
	return false
}

// isUnsent reports whether an error says that the server could not be asked.
func isUnsent(err error) bool {
	fault, ok := errors.AsType[protocol.Fault](err)
	return ok && fault.Outcome() == protocol.OutcomeNotSent
}

// handshake finds out whether a server that has said nothing so far takes a handshake.
// One that does not may yet turn out to be of either era.
func (s *Server) handshake(ctx context.Context) error {
	req, err := discoverRequest()
	if err != nil {
		return err
	}
	if err = s.down.Handshake(ctx, req); err != nil && ctx.Err() == nil {
		s.handshakeFailed.Store(true)
	}
	return err
}

// discard closes a conversation that nobody needs, which may take a while.
func (s *Server) discard(conn dragoman.Conn) {
	// Ends when a child has been stopped, which is bounded.
	if !s.busy.Start(func() { _ = conn.Close() }) {
		_ = conn.Close()
	}
}

func discoverRequest() (*dragoman.Message, error) {
	return dragoman.NewRequest(dragoman.StringID("probe"), protocol.MethodDiscover, map[string]any{"_meta": map[string]any{
		protocol.MetaProtocolVersion:    protocol.Latest.String(),
		protocol.MetaClientCapabilities: struct{}{},
		protocol.MetaClientInfo:         map[string]string{"name": "dragoman", "version": dragoman.Version},
	}})
}

// readDiscover draws the conclusion from the answer to server/discover. Whatever a
// server says that does not know the method makes it legacy.
func readDiscover(resp *dragoman.Message) (protocol.Era, error) {
	if !resp.IsError() {
		names, ok := versions(resp.Get("supportedVersions"))
		if ok && !anyOfEra(names, protocol.Modern) && !anyOfEra(names, protocol.Legacy) {
			return 0, fmt.Errorf("%w: it speaks %q", ErrNoRevision, names)
		}
		if anyOfEra(names, protocol.Modern) {
			return protocol.Modern, nil
		}
		return protocol.Legacy, nil
	}
	e := resp.RPCError()
	if e.Code != protocol.CodeUnsupported {
		return protocol.Legacy, nil
	}
	var data struct {
		Supported json.RawMessage `json:"supported"`
	}
	_ = json.Unmarshal(e.Data, &data) // without it, a handshake tells
	names, named := versions(data.Supported)
	switch {
	case anyOfEra(names, protocol.Modern):
		return protocol.Modern, nil
	case !named, anyOfEra(names, protocol.Legacy):
		return protocol.Legacy, nil
	}
	return 0, fmt.Errorf("%w: %w", ErrNoRevision, e)
}

func versions(list json.RawMessage) (names []string, ok bool) {
	return names, list != nil && json.Unmarshal(list, &names) == nil
}

// anyOfEra reports whether a revision of an era that we know is among names.
func anyOfEra(names []string, era protocol.Era) bool {
	return slices.ContainsFunc(protocol.Revisions(), func(r protocol.Revision) bool {
		return r.Era() == era && slices.Contains(names, r.String())
	})
}
