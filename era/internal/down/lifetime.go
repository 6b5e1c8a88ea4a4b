package down

import (
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// add makes a session that is yet to be opened. The caller holds mu.
func (p *pool) add(k key) *session {
	v := newSession(p.server, k)
	p.sets[k] = append(p.sets[k], v)
	p.open++
	return v
}

// victim returns the session to be closed for another: one that is over, or else
// the one that nobody has used for the longest time. The caller holds mu.
func (p *pool) victim() *session {
	var oldest *session
	for _, set := range p.sets {
		for _, v := range set {
			switch {
			case v.users > 0 || !v.isReady():
			case v.over():
				return v
			case oldest == nil || v.used.Before(oldest.used):
				oldest = v
			}
		}
	}
	return oldest
}

// unlink takes a session out of the pool, so that nobody gets it any more. The
// caller holds mu and, if nobody uses the session, calls end.
func (p *pool) unlink(v *session) {
	if v.gone {
		return
	}
	v.gone = true
	set := p.sets[v.key]
	if i := slices.Index(set, v); i >= 0 {
		set = slices.Delete(set, i, i+1)
	}
	if len(set) == 0 {
		delete(p.sets, v.key)
	} else {
		p.sets[v.key] = set
	}
	if v.idle != nil {
		v.idle.Stop()
	}
}

// bury ends a session that is over, unless somebody still uses it, who then does.
// It tells whether it is out of the pool. The caller holds mu.
func (p *pool) bury(v *session) bool {
	if v.users > 0 {
		return false
	}
	p.unlink(v)
	// Ends at once: there is nothing left to close. If we are closing already,
	// nobody counts sessions any more.
	p.server.busy.Start(func() { p.end(v) })
	return true
}

// end closes a session that has been unlinked and makes room for another.
func (p *pool) end(v *session) {
	if v.conn != nil {
		_ = v.conn.Close() // why it ends is of no interest any more
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open--
	p.wake()
}

// wake makes those who wait look again. The caller holds mu.
func (p *pool) wake() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// release gives a session back.
func (p *pool) release(v *session, asks bool) {
	p.mu.Lock()
	v.users--
	if asks {
		v.askers--
	}
	last := v.users == 0
	if last {
		v.used = time.Now()
	}
	if last && v.isReady() && v.err == nil && (p.server.opts.PerRequest || v.over()) {
		p.unlink(v)
	}
	ends := last && v.gone && v.err == nil && !p.closed
	if !ends {
		p.wake()
	}
	p.mu.Unlock()
	// Ends when the conversation is closed. Nobody need wait for that; if we are
	// closing, that closes it.
	if ends && !p.server.busy.Start(func() { p.end(v) }) {
		p.end(v)
	}
}

// opened makes a session ready for those who wait for it.
func (p *pool) opened(v *session) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		p.failed(v, protocol.Draining())
		return
	}
	p.nature = confuses
	if v.correlates {
		p.nature = correlates
	}
	v.used = time.Now()
	v.idle = time.AfterFunc(p.server.opts.IdleTimeout, func() { p.idle(v) })
	close(v.ready)
	p.wake()
	p.mu.Unlock()
}

// failed tells those who wait for a session that it could not be opened.
func (p *pool) failed(v *session, err *dragoman.Error) {
	p.mu.Lock()
	v.err = err
	p.unlink(v)
	close(v.ready)
	p.mu.Unlock()
	p.end(v)
}

// idle ends a session that nobody has used for IdleTimeout, or looks again later.
func (p *pool) idle(v *session) {
	p.mu.Lock()
	left := p.server.opts.IdleTimeout
	if v.users == 0 {
		left -= time.Since(v.used)
	}
	switch {
	case v.gone || p.closed:
		p.mu.Unlock()
	case v.users > 0 || left > 0 && !v.over():
		v.idle.Reset(max(left, time.Millisecond))
		p.mu.Unlock()
	default:
		p.unlink(v)
		p.mu.Unlock()
		// Ends when the conversation is closed.
		if !p.server.busy.Start(func() { p.end(v) }) {
			p.end(v)
		}
	}
}

// close ends all sessions. Those that are being opened end by themselves.
func (p *pool) close() {
	p.mu.Lock()
	p.closed = true
	var all []*session
	for _, set := range p.sets {
		for _, v := range set {
			if v.isReady() {
				all = append(all, v)
			}
		}
	}
	for _, v := range all {
		p.unlink(v)
	}
	p.wake()
	p.mu.Unlock()
	var closing sync.WaitGroup
	for _, v := range all {
		closing.Go(func() { p.end(v) }) // ends when the conversation is closed
	}
	closing.Wait()
}
