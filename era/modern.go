package era

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
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
		return withLegacy(resp)
	case protocol.MethodListen:
		return s.listen(ctx, req, from, main)
	}
	return s.pass(ctx, req, from, main)
}

// pass passes a request on. One whose conversation was lost under way is sent
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
func withLegacy(resp *dragoman.Message) (*dragoman.Message, error) {
	if resp == nil || resp.IsError() {
		return resp, nil
	}
	theirs, _ := versions(resp.Get("supportedVersions"))
	if !anyOfEra(theirs, protocol.Modern) {
		return resp, nil // it is for the client to judge
	}
	var names []string
	for _, r := range protocol.Revisions() {
		if r.Era() == protocol.Legacy || slices.Contains(theirs, r.String()) {
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

// pause waits before an attempt, after so many losses in a row. It reports whether
// to go on: not if whoever wants it has gone.
func (s *Server) pause(gone <-chan struct{}, losses int) bool {
	t := time.NewTimer(down.AfterLosses.Wait(losses - 1))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-gone:
	case <-s.ctx.Done():
	}
	return false
}

// listen passes a subscription on. When its conversation is lost, it goes on on
// another, and what may have changed meanwhile is told as changed. If there is no
// other, it ends in good order.
func (s *Server) listen(ctx context.Context, req *dragoman.Message, from dragoman.Peer, main bool) (*dragoman.Message, error) {
	if from == nil {
		return s.pass(ctx, req, nil, main)
	}
	h := &subscriber{Peer: from, id: req.ID()}
	resp, err := s.pass(ctx, req, h, main)
	for losses, began := 0, time.Now(); h.lost(resp, err); {
		if time.Since(began) > down.Steady {
			losses = 0
		}
		if losses++; losses > down.MaxLosses || !s.pause(ctx.Done(), losses) {
			break
		}
		began = time.Now()
		h.reopen()
		resp, err = s.pass(ctx, req, h, main)
	}
	switch {
	case ctx.Err() != nil && errors.Is(err, dragoman.ErrClosed):
		return nil, err // who leaves may have missed something before
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case h.lost(resp, err):
		return protocol.EndOfListen(req), nil
	}
	return resp, err
}

// A subscriber is a client with a subscription, as the server sees it.
type subscriber struct {
	dragoman.Peer
	id dragoman.ID

	mu           sync.Mutex
	heard        bool              // the server has acknowledged the subscription, on whatever conversation; guarded by mu
	acknowledged protocol.Interest // what it has acknowledged all along; guarded by mu
	renewed      bool              // the next acknowledgement is not the first; guarded by mu
}

// lost reports whether a subscription that had begun was lost on the way. An answer
// of the server is an end, whatever it says.
func (h *subscriber) lost(resp *dragoman.Message, err error) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.heard || errors.Is(err, dragoman.ErrOverloaded) {
		return false
	}
	return err != nil || isUnavailable(resp)
}

// reopen notes that the subscription is sent once more.
func (h *subscriber) reopen() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renewed = true
}

// Notify tells the client. It is told of the first acknowledgement alone; the
// others mean that it may have missed something.
func (h *subscriber) Notify(ctx context.Context, note *dragoman.Message) error {
	if note.Method() != protocol.NoteAcknowledged {
		return h.Peer.Notify(ctx, note)
	}
	ack := protocol.InterestOf(note)
	h.mu.Lock()
	if !h.renewed {
		h.heard, h.acknowledged = true, ack
		h.mu.Unlock()
		return h.Peer.Notify(ctx, note)
	}
	h.acknowledged = h.acknowledged.And(&ack)
	acknowledged := h.acknowledged
	h.mu.Unlock()
	for note := range acknowledged.ChangeNotes() {
		own, err := note.Edit().SetMeta(protocol.MetaSubscriptionID, []byte(h.id.String())).Message()
		if err == nil {
			err = h.Peer.Notify(ctx, own)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
