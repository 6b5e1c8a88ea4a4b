package streamable

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A SessionStore keeps a record of each session, by its id, for longer than a
// Server lives. Any number of goroutines may use it at once. Records are of one
// door: a session that was opened at another must not be found in it.
type SessionStore interface {
	Put(id string, record []byte) error
	Get(id string) (record []byte, ok bool, err error)
	Delete(id string) error
}

const (
	// maxHello is the longest initialize that is recorded. A session with a
	// longer one ends with its Server.
	maxHello = 64 << 10

	// maxSubscribed and maxSubscribedBytes bound the subscriptions of a session
	// that are recorded. Those beyond have to be made anew after a restart.
	maxSubscribed      = 256
	maxSubscribedBytes = 64 << 10

	// useEvery is how often it is recorded that a session is in use.
	useEvery = time.Minute
)

// A memo is what a record holds: all that another Server needs to go on with the
// session.
type memo struct {
	Caller     string          `json:"caller"` // a digest
	Revision   string          `json:"revision"`
	Hello      []byte          `json:"hello"` // the initialize request
	Ready      bool            `json:"ready,omitempty"`
	Level      json.RawMessage `json:"level,omitempty"`
	Subscribed []string        `json:"subscribed,omitempty"` // URIs
	Used       time.Time       `json:"used"`
}

// digest stands for a caller in records: who that is may be a secret.
func digest(caller string) string {
	sum := sha256.Sum256([]byte(caller))
	return hex.EncodeToString(sum[:])
}

// expired tells whether nobody has used the session for too long, so far as its
// record knows.
func (m *memo) expired(idle time.Duration) bool { return time.Since(m.Used)-useEvery > idle }

// A recorder keeps the record of one session up to date.
type recorder struct {
	mu      sync.Mutex
	memo    memo
	dirty   bool
	writing bool // somebody writes it, also what becomes dirty meanwhile
	over    bool // nothing more is written
	erased  bool // the record must be gone
}

// record begins to record a session that hello has opened.
func (v *session) record(hello *dragoman.Message) {
	if v.server.Store == nil {
		return
	}
	if hello.Len() > maxHello {
		v.server.opts.logger.Warn("a session is not recorded: its initialize is too long", "bytes", hello.Len())
		return
	}
	v.recorder.Store(&recorder{memo: memo{Caller: digest(v.owner), Revision: v.rev.String(), Hello: hello.Bytes()}})
	v.save()
	if v.Err() != nil {
		v.close(true) // over before it was recorded
	}
	v.server.watchUse()
}

// change changes the record, if there is one and f says that it has to be.
func (v *session) change(f func(m *memo) bool) {
	c := v.recorder.Load()
	if c == nil {
		return
	}
	c.mu.Lock()
	changed := f(&c.memo)
	c.mu.Unlock()
	if changed {
		v.save()
	}
}

// learn takes from a request that was answered what a new peer has to be told.
func (v *session) learn(req, resp *dragoman.Message) {
	if resp == nil || resp.IsError() {
		return
	}
	switch req.Method() {
	case protocol.MethodSetLevel:
		v.change(func(m *memo) bool {
			m.Level = slices.Clone(req.Get("level"))
			return len(m.Level) < maxHello
		})
	case protocol.MethodSubscribe:
		v.change(func(m *memo) bool { return m.subscribe(req.URI()) })
	case protocol.MethodUnsubscribe:
		v.change(func(m *memo) bool {
			i := slices.Index(m.Subscribed, req.URI())
			if i >= 0 {
				m.Subscribed = slices.Delete(m.Subscribed, i, i+1)
			}
			return i >= 0
		})
	}
}

func (m *memo) subscribe(uri string) bool {
	size := len(uri)
	for _, u := range m.Subscribed {
		size += len(u)
	}
	if len(m.Subscribed) >= maxSubscribed || size > maxSubscribedBytes || slices.Contains(m.Subscribed, uri) {
		return false
	}
	m.Subscribed = append(m.Subscribed, uri)
	return true
}

// ready notes that the client has said that it is initialized.
func (v *session) ready() {
	v.change(func(m *memo) bool {
		if m.Ready {
			return false
		}
		m.Ready = true
		return true
	})
}

// save writes the record. If somebody is doing that, it is left to them.
func (v *session) save() {
	c := v.recorder.Load()
	c.mu.Lock()
	c.dirty = true
	if c.writing {
		c.mu.Unlock()
		return
	}
	c.writing = true
	for c.dirty && !c.over {
		c.dirty = false
		c.memo.Used = v.lastUse()
		text, err := json.Marshal(&c.memo)
		c.mu.Unlock()
		if err == nil {
			err = v.server.Store.Put(v.id, text)
		}
		if err != nil {
			v.server.opts.logger.Warn("a session is not recorded", "error", err)
		}
		c.mu.Lock()
	}
	c.writing = false
	erased := c.erased
	c.mu.Unlock()
	if erased { // perhaps before the last Put
		_ = v.server.Store.Delete(v.id)
	}
}

// close ends the recording of a session that is over here. With erase nobody can
// go on with it.
func (v *session) close(erase bool) {
	c := v.recorder.Load()
	if c == nil {
		return
	}
	c.mu.Lock()
	c.over, c.erased = true, erase
	c.mu.Unlock()
	if !erase {
		return
	}
	if err := v.server.Store.Delete(v.id); err != nil {
		v.server.opts.logger.Warn("the record of a session is not deleted", "error", err)
	}
}

// watchUse has the records of sessions tell when they were used, until there are
// no more sessions.
func (s *Server) watchUse() {
	s.past.mu.Lock()
	defer s.past.mu.Unlock()
	if s.past.timer == nil {
		s.past.timer = time.AfterFunc(useEvery, s.noteUse)
	}
}

func (s *Server) noteUse() {
	if !s.enter() {
		return
	}
	defer s.serving.Done()
	sessions := s.all()
	for _, v := range sessions {
		if c := v.recorder.Load(); c != nil && v.usedSince(c.saved()) {
			v.save()
		}
	}
	s.past.mu.Lock()
	defer s.past.mu.Unlock()
	if len(sessions) == 0 {
		s.past.timer = nil
		return
	}
	s.past.timer.Reset(useEvery)
}

// saved returns when the record was written last.
func (c *recorder) saved() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.memo.Used
}

// lastUse returns when the session was used last.
func (v *session) lastUse() time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.busy > 0 {
		return time.Now()
	}
	return v.used
}

// usedSince tells whether the session is in use, or has been since then.
func (v *session) usedSince(then time.Time) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.busy > 0 || v.used.After(then)
}
