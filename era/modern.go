package era

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/down"
	"github.com/dragoman-mcp/dragoman/era/internal/pool"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A modernConn is a conversation with the server in the modern era.
type modernConn struct {
	dragoman.Conn
	stateful atomic.Bool // a tool may have left something in it
	told     atomic.Bool // its owner knows that it is a new one
}

var _ pool.Item = (*modernConn)(nil)

// Over implements pool.Item.
func (l *modernConn) Over() bool { return l.Err() != nil }

// Stateful implements pool.Item.
func (l *modernConn) Stateful() bool { return l.stateful.Load() }

// errEra says that the server is not of the era that it was.
var errEra = errors.New("era: the server has come back in another era")

// modern serves a request in the modern era.
func (s *Server) modern(ctx context.Context, req *dragoman.Message, from dragoman.Peer, main bool) (*dragoman.Message, error) {
	switch req.Method() {
	case protocol.MethodDiscover:
		resp, err := s.pass(ctx, req, from, main)
		if err != nil {
			return nil, err
		}
		return withLegacy(resp, protocol.Revisions())
	case protocol.MethodListen:
		return s.listen(ctx, req, from, main)
	}
	return s.pass(ctx, req, from, main)
}

// pass passes a request on. One whose conversation was lost in flight is sent
// again only if that does no harm.
func (s *Server) pass(ctx context.Context, req *dragoman.Message, from dragoman.Peer, main bool) (*dragoman.Message, error) {
	for again := false; ; again = true {
		e, err := s.takeModernConn(ctx, main)
		if errors.Is(err, errEra) {
			return nil, err
		}
		if err != nil {
			return unavailable(ctx, req, err)
		}
		l := e.Item.(*modernConn)
		if req.Method() == protocol.MethodCallTool {
			l.stateful.Store(true)
		}
		resp, err := l.Call(ctx, req, from)
		if err == nil && protocol.MayNeedInput(req.Method()) {
			s.keep(e, resp)
		}
		s.pool.Release(e)
		switch {
		case err == nil && e.Renewed != "" && !resp.IsError() && !l.told.Swap(true):
			return renewed(resp, e.Renewed)
		case again || !protocol.MayResend(req.Method(), err) || ctx.Err() != nil:
			return resp, err
		}
	}
}

// keep has a conversation stay open whose server has asked for input: only the same
// process may know what it is about when the client comes back.
func (s *Server) keep(e *pool.Entry, resp *dragoman.Message) {
	if s.Stateless {
		return
	}
	var until time.Time
	if string(resp.Get("resultType")) == `"`+protocol.ResultInputRequired+`"` {
		until = time.Now().Add(cmp.Or(s.SuspendTimeout, down.DefaultSuspendTimeout))
	}
	s.pool.Keep(e, until)
}

// renewed says in an answer what became of the conversation before.
func renewed(resp *dragoman.Message, why string) (*dragoman.Message, error) {
	text, err := json.Marshal(why)
	if err != nil {
		return nil, err
	}
	return resp.Edit().SetMeta(protocol.MetaRenewed, text).Message()
}

// mainOwner is whose the conversation of our own is.
var mainOwner = pool.Key{Caller: "\x00main"}

// takeModernConn returns a conversation for a request, which must be given back to the pool.
func (s *Server) takeModernConn(ctx context.Context, main bool) (*pool.Entry, error) {
	key := s.owner(ctx)
	switch {
	case s.Stateless:
		key = pool.Key{Caller: "#" + dragoman.CallerOf(ctx).Passed}
	case main && s.Isolation != Shared:
		key = mainOwner
	}
	return s.pool.Take(ctx, key, wantModern{s}, pool.Use{
		Single: s.Isolation == PerRequest && !s.Stateless && !main,
		Pinned: main || s.Stateless && key.Caller == "#",
	})
}

// wantModern wants a conversation with a modern server.
type wantModern struct{ server *Server }

func (w wantModern) Kind() any { return protocol.Modern }

func (w wantModern) Fits(kind any) int {
	if kind == protocol.Modern {
		return 1
	}
	return 0
}

// Open opens a conversation. Where each is with a server of its own, such as a
// process, that says first whether it is still a modern one.
func (w wantModern) Open(ctx context.Context) (pool.Item, error) {
	s := w.server
	if conn := s.spares.take(protocol.Modern, dragoman.CallerOf(ctx), nil); conn != nil {
		return s.newModernConn(ctx, conn), nil
	}
	conn, err := s.open(ctx, nil)
	switch {
	case err != nil:
		return nil, err
	case s.Stateless || s.Era != nil:
		return s.newModernConn(ctx, conn), nil
	}
	req, err := discoverRequest()
	if err != nil {
		return nil, err
	}
	resp, err := conn.Call(ctx, req, nil)
	if err == nil {
		var era protocol.Era
		if era, err = readDiscover(resp); err == nil && era != protocol.Modern {
			err = errEra
		}
	}
	if err != nil {
		s.discard(conn)
		return nil, err
	}
	return s.newModernConn(ctx, conn), nil
}

// newModernConn makes one of a conversation. Where somebody wants to know of changes we
// subscribe to those of the lists, before anything else is asked. What is passed on for
// a caller makes no difference to others, who share the rest.
func (s *Server) newModernConn(ctx context.Context, conn dragoman.Conn) *modernConn {
	whose := dragoman.CallerOf(ctx)
	if s.Changed == nil || s.Stateless && whose.Passed != "" {
		return &modernConn{Conn: conn}
	}
	if s.Stateless {
		whose = nil // it is everybody's
	}
	// Ends with the conversation, or with the server.
	lists := subscription.New(s.ctx, &subscription.Options{
		Send: func(ctx context.Context, want protocol.Interest, from dragoman.Peer) (*dragoman.Message, error) {
			req, err := listenRequest(want)
			if err != nil {
				return nil, err
			}
			return conn.Call(ctx, req, from)
		},
		Notify: func(note *dragoman.Message) { s.changed(whose, note) },
		Busy:   &s.busy, Done: conn.Done(), Logger: s.log,
	})
	lists.Want(protocol.Interest{Tools: true, Prompts: true, Resources: true})
	lists.Await(ctx, firstHold)
	return &modernConn{Conn: conn}
}

// firstHold is how long a server may take to acknowledge our own subscription before
// it is asked something else.
const firstHold = time.Second

// listenRequest asks for changes.
func listenRequest(want protocol.Interest) (*dragoman.Message, error) {
	req, err := discoverRequest()
	if err != nil {
		return nil, err
	}
	return dragoman.NewRequest(dragoman.StringID("lists"), protocol.MethodListen, map[string]any{
		"notifications": want, "_meta": req.Get("_meta"),
	})
}

// withLegacy returns the answer to server/discover so that it names what is served here:
// the revisions of the legacy era too, and of the modern era those that the server has.
func withLegacy(resp *dragoman.Message, served []protocol.Revision) (*dragoman.Message, error) {
	if resp == nil || resp.IsError() {
		return resp, nil
	}
	theirs, _ := versions(resp.Get("supportedVersions"))
	if !anyOfEra(theirs, protocol.Modern) {
		return resp, nil // it is for the client to judge
	}
	var names []string
	for _, r := range protocol.Revisions() {
		if r.Era() == protocol.Legacy && slices.Contains(served, r) || slices.Contains(theirs, r.String()) {
			names = append(names, r.String())
		}
	}
	if slices.Equal(names, theirs) {
		return resp, nil
	}
	list, err := json.Marshal(names)
	if err != nil {
		return nil, err
	}
	return resp.Edit().Set("supportedVersions", list).Message()
}

// listen passes a subscription on. When its connection is lost, it is sent again on
// another, and what may have changed meanwhile is reported as changed. If there is no
// other, it ends in good order.
func (s *Server) listen(ctx context.Context, req *dragoman.Message, from dragoman.Peer, main bool) (*dragoman.Message, error) {
	if from == nil {
		return s.pass(ctx, req, nil, main)
	}
	client := subscription.NewRelay(req, from)
	defer client.Close()
	var losses subscription.Losses
	for {
		losses.Opened()
		resp, err := s.pass(ctx, req, client, main)
		// A response of the server is an end, whatever it says.
		lost := client.Acknowledged() && !errors.Is(err, dragoman.ErrOverloaded) && (err != nil || isUnavailable(resp))
		if lost {
			if losses.Lost(); losses.Retry(ctx.Done(), s.ctx.Done()) {
				continue
			}
		}
		switch {
		case ctx.Err() != nil && errors.Is(err, dragoman.ErrClosed):
			return nil, err // a client that leaves may have missed something before
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case lost:
			return protocol.EndOfListen(req), nil
		}
		return resp, err
	}
}
