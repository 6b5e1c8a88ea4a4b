package sessions

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/eventlog"
)

// A Recorder keeps the record of one session up to date. A nil Recorder records
// nothing.
type Recorder struct {
	store  eventlog.Records
	log    *slog.Logger
	id     string
	caller string
	memory *Memory
	used   func() time.Time
	closed func()

	mu      sync.Mutex // not held while the record is written
	saved   time.Time  // when the session had been used last, by the record
	dirty   bool
	writing bool // somebody writes it, also what becomes dirty meanwhile
	over    bool // nothing more is written
	erased  bool // the record must be gone
}

// Learn records what a request has changed that was answered with resp.
func (r *Recorder) Learn(req, resp *dragoman.Message) {
	if r != nil && r.memory.Learn(req, resp) {
		r.Save()
	}
}

// Initialized records that the client has ended the handshake.
func (r *Recorder) Initialized() {
	if r != nil && r.memory.Initialized() {
		r.Save()
	}
}

// Save writes the record. If somebody is doing that, it is left to them.
func (r *Recorder) Save() {
	r.mu.Lock()
	r.dirty = true
	if r.writing {
		r.mu.Unlock()
		return
	}
	r.writing = true
	for r.dirty && !r.over {
		r.dirty = false
		r.saved = r.used()
		record := Record{Caller: r.caller, Handshake: r.memory.Record(), Used: r.saved}
		r.mu.Unlock()
		text, err := json.Marshal(&record)
		if err == nil {
			_, err = r.store.Put(context.Background(), r.id, text, eventlog.AnyRevision)
		}
		if err != nil {
			r.log.Warn("a session is not recorded", "error", err)
		}
		r.mu.Lock()
	}
	r.writing = false
	erased := r.erased
	r.mu.Unlock()
	if erased { // perhaps before the last Put
		_ = r.store.Delete(context.Background(), r.id, eventlog.AnyRevision)
	}
}

// saveUse writes the record if the session has been used since it was written.
func (r *Recorder) saveUse() {
	r.mu.Lock()
	saved := r.saved
	r.mu.Unlock()
	if r.used().After(saved) {
		r.Save()
	}
}

// UsedElsewhere reports whether the session has been used at another server since it
// was used here, or that cannot be known.
func (r *Recorder) UsedElsewhere() bool {
	if r == nil {
		return false
	}
	record, err := load(context.Background(), r.store, r.id)
	if err != nil {
		return err != ErrUnknown //nolint:errorlint // load returns it as it is
	}
	return record.Used.After(r.used())
}

// Close ends the recording of a session that is over here. With erase nobody can go
// on with it.
func (r *Recorder) Close(erase bool) {
	if r == nil {
		return
	}
	r.closed()
	r.mu.Lock()
	r.over, r.erased = true, erase
	r.mu.Unlock()
	if !erase {
		return
	}
	if err := r.store.Delete(context.Background(), r.id, eventlog.AnyRevision); err != nil {
		r.log.Warn("the record of a session is not deleted", "error", err)
	}
}
