package down

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// A key says who may share a session: requests of one caller with the same
// capabilities.
type key struct{ caller, caps string }

// A pool owns the sessions: which there are, who uses them, and when they end.
type pool struct {
	server *Server

	mu      sync.Mutex
	sets    map[key][]*session // oldest first; a request takes the first that it can
	open    int                // sessions, also those that are being opened or closed
	waiting int                // requests that wait for a session
	changed chan struct{}      // closed when those who wait should look again; nil if nobody does
	closed  bool
	nature  nature // of the conversations that dial opens, as far as known
}

// A nature tells conversations that say which call a question belongs to from
// those that do not.
type nature uint8

const (
	unknown nature = iota
	correlates
	confuses
)

func (p *pool) init(s *Server) {
	p.server = s
	p.sets = make(map[key][]*session)
}

// get returns a session for a request, which must be given back by release. With
// asks the server may answer the request by asking, so that a conversation which
// does not say what a question belongs to is the request's alone in that respect.
// The error is a *dragoman.Error, or ctx ended.
func (p *pool) get(ctx context.Context, r *request, asks bool) (*session, error) {
	var late <-chan time.Time
	for {
		got := p.try(ctx, r, asks)
		switch {
		case got.err != nil:
			return nil, got.err
		case got.taken != nil:
			if err := got.taken.wait(ctx); err != nil {
				p.release(got.taken, asks)
				return nil, err
			}
			if !asks || p.confirm(got.taken) {
				return got.taken, nil
			}
		case got.first != nil:
			if err := got.first.wait(ctx); err != nil {
				return nil, err
			}
		case got.full != nil:
			if late == nil {
				late = time.After(p.server.opts.QueueTimeout)
			}
			if err := p.queue(ctx, got.full, late); err != nil {
				return nil, err
			}
		}
	}
}

// A try is one attempt to get a session. If it is empty, the next may succeed at
// once.
type try struct {
	taken *session        // is the one, when it is open
	first *session        // has to be open before one can tell
	full  <-chan struct{} // closed when there may be room
	err   error
}

// try takes a session, or begins to open one.
func (p *pool) try(ctx context.Context, r *request, asks bool) try {
	k := r.key()
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return try{err: protocol.Draining()}
	}
	if !p.server.opts.PerRequest {
		var first *session
		for i := 0; i < len(p.sets[k]); i++ {
			v := p.sets[k][i]
			if v.over() {
				if p.bury(v) {
					i--
				}
				continue
			}
			free, wait := p.usable(v, asks)
			if free {
				v.take(asks)
				p.mu.Unlock()
				return try{taken: v}
			}
			if wait {
				first = v
			}
		}
		if first != nil {
			p.mu.Unlock()
			return try{first: first}
		}
	}
	if p.open < p.server.opts.MaxSessions {
		v := p.add(k)
		v.take(asks)
		p.mu.Unlock()
		// Ends when the session is open, at OpenTimeout or with Close.
		if !p.server.busy.Start(func() { v.open(ctx, r.info) }) {
			p.failed(v, protocol.Draining())
		}
		return try{taken: v}
	}
	if old := p.victim(); old != nil {
		p.unlink(old)
		p.mu.Unlock()
		p.end(old)
		return try{}
	}
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	full := p.changed
	p.mu.Unlock()
	return try{full: full}
}

// usable tells whether a session can be taken, or might be once it is open. The
// caller holds mu.
func (p *pool) usable(v *session, asks bool) (free, wait bool) {
	if !asks || v.askers == 0 {
		return true, false
	}
	if v.isReady() {
		return v.correlates, false
	}
	return p.nature == correlates, p.nature == unknown
}

// confirm tells whether a session that was taken before it was open, with others
// perhaps, serves a request that asks. If not, it is given back.
func (p *pool) confirm(v *session) bool {
	if v.correlates {
		return true
	}
	p.mu.Lock()
	alone := v.askers == 1
	p.mu.Unlock()
	if !alone {
		p.release(v, true)
	}
	return alone
}

// queue waits until there may be room. Between try and queue a session may have
// become free: then full is closed already, because everything that makes room
// wakes those who hold it.
func (p *pool) queue(ctx context.Context, full <-chan struct{}, late <-chan time.Time) error {
	p.mu.Lock()
	if p.waiting >= MaxWaiting {
		p.mu.Unlock()
		return protocol.Overloaded(fmt.Sprintf("all %d sessions with the server are in use and %d requests wait for one; try again later",
			p.server.opts.MaxSessions, MaxWaiting))
	}
	p.waiting++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.waiting--
		p.mu.Unlock()
	}()
	select {
	case <-full:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-late:
		return protocol.Overloaded(fmt.Sprintf("all %d sessions with the server are in use; try again later", p.server.opts.MaxSessions))
	}
}

// find takes the session with that handle, if the caller may use it.
func (p *pool) find(handle, caller string) *session {
	p.mu.Lock()
	defer p.mu.Unlock()
	for k, set := range p.sets {
		if k.caller != caller {
			continue
		}
		for _, v := range set {
			if v.handle == handle && v.isReady() && !v.over() {
				v.take(false)
				return v
			}
		}
	}
	return nil
}
