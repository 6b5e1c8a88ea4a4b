package down

import (
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// A desk keeps the calls that have been suspended, until they are answered or
// given up.
type desk struct {
	server *Server

	mu        sync.Mutex
	calls     map[string]*call     // by id; also those with a turn at the moment
	suspended int                  // those without
	spent     map[string]time.Time // states to be used once that have been, and when they expire
	closed    bool
}

func (d *desk) init(s *Server) {
	d.server = s
	d.calls = make(map[string]*call)
	d.spent = make(map[string]time.Time)
}

// admit takes a call in, if there is room.
func (d *desk) admit(c *call) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.suspended >= d.server.opts.MaxSuspended {
		return false
	}
	d.suspended++
	d.calls[c.id] = c
	return true
}

func (d *desk) get(id string) *call {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calls[id]
}

// resumed notes that a call has a turn again.
func (d *desk) resumed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.suspended--
}

// remove forgets a call.
func (d *desk) remove(id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.calls, id)
}

// spend uses up a state that counts once. It tells whether it had not been.
func (d *desk) spend(id string, expires time.Time) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, used := d.spent[id]; used {
		return false, nil
	}
	if len(d.spent) >= d.server.opts.MaxSuspended {
		now := time.Now()
		for id, at := range d.spent {
			if now.After(at) {
				delete(d.spent, id)
			}
		}
	}
	if len(d.spent) >= d.server.opts.MaxSuspended {
		return false, protocol.Overloaded("too many calls are being sent again after their user was sent to a web site; try again later")
	}
	d.spent[id] = expires
	return true, nil
}

// close gives up all calls that are suspended.
func (d *desk) close() {
	d.mu.Lock()
	d.closed = true
	calls := make([]*call, 0, len(d.calls))
	for _, c := range d.calls {
		calls = append(calls, c)
	}
	d.mu.Unlock()
	for _, c := range calls {
		c.expire(0)
	}
}
