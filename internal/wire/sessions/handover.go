package sessions

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// useEvery is how often it is recorded that a session is in use.
const useEvery = time.Minute

// ErrUnknown says that there is no record of a session that its caller may use.
var ErrUnknown = errors.New("no such session")

// A Record is what is written down of a session: all that another server needs to go
// on with it.
type Record struct {
	Caller string `json:"caller"` // a digest: who that is may be a secret
	Handshake
	Used time.Time `json:"used"`
}

// Records are those of the sessions of one server, which are of type S.
type Records[S any] struct {
	store eventlog.Records
	idle  time.Duration
	log   *slog.Logger

	deleting sync.Mutex // held while a record is deleted that nobody here keeps
	saving   sync.Mutex // held while it is recorded which sessions are in use

	mu        sync.Mutex
	adoptions map[string]*syncs.Flight[S] // in progress
	recorders map[*Recorder]struct{}      // of sessions that are open
	timer     *time.Timer                 // of saveUse; nil if there are no recorders
}

// NewRecords returns those of a server whose sessions end when nobody has used them
// for so long.
func NewRecords[S any](store eventlog.Records, idle time.Duration, log *slog.Logger) *Records[S] {
	return &Records[S]{store: store, idle: idle, log: log, adoptions: make(map[string]*syncs.Flight[S]), recorders: make(map[*Recorder]struct{})}
}

// Load returns the record of a session that its caller may still use. The error is
// ErrUnknown, or that of the Store.
func (s *Records[S]) Load(ctx context.Context, id, caller string) (*Record, error) {
	r, err := load(ctx, s.store, id)
	switch {
	case err != nil:
		return nil, err
	case r.Caller != digest(caller):
		return nil, ErrUnknown
	case time.Since(r.Used)-useEvery > s.idle:
		_ = s.store.Delete(ctx, id, eventlog.AnyRevision) // or it stays, and is found to be too old again
		return nil, ErrUnknown
	}
	return r, nil
}

func load(ctx context.Context, store eventlog.Records, id string) (*Record, error) {
	text, revision, err := store.Get(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("the record of the session cannot be read: %w", err)
	}
	r := &Record{}
	if revision != 0 {
		_ = json.Unmarshal(text, r) // what makes no sense is as good as none
	}
	if protocol.ParseRevision(r.Revision) == protocol.Unknown {
		return nil, ErrUnknown
	}
	return r, nil
}

func digest(caller string) string {
	sum := sha256.Sum256([]byte(caller))
	return hex.EncodeToString(sum[:])
}

// Delete deletes the record of a session that is not open here, and reports whether
// it was there: of those who do at once one did.
func (s *Records[S]) Delete(ctx context.Context, id string) bool {
	s.deleting.Lock()
	defer s.deleting.Unlock()
	if _, err := load(ctx, s.store, id); err != nil {
		return false
	}
	s.Forget(ctx, id)
	return true
}

// Forget deletes a record.
func (s *Records[S]) Forget(ctx context.Context, id string) {
	if err := s.store.Delete(ctx, id, eventlog.AnyRevision); err != nil {
		s.log.Warn("the record of a session is not deleted", "error", err)
	}
}

// Has reports whether there is a record, so far as can be known.
func (s *Records[S]) Has(ctx context.Context, id string) bool {
	_, revision, err := s.store.Get(ctx, id)
	return err != nil || revision != 0
}

// Adopt returns a session that another server has opened: the one that known returns,
// or what open makes of it, on the goroutine that start chooses. Of those who want one
// session at once one opens it, and the others wait, until ctx ends. When open returns,
// known must know the session.
func (s *Records[S]) Adopt(ctx context.Context, id string, known func() (S, bool), start func(func()) bool, open func() (S, error)) (S, error) {
	s.mu.Lock()
	if v, ok := known(); ok {
		s.mu.Unlock()
		return v, nil
	}
	f := s.adoptions[id]
	if f == nil {
		f = new(syncs.Flight[S])
		s.adoptions[id] = f
	}
	s.mu.Unlock()
	return f.Get(ctx, start, func() (S, error) {
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.adoptions, id)
		}()
		return open()
	})
}

// Record begins to keep the record of an open session, of which used returns when it
// was used last. It is written by Save.
func (s *Records[S]) Record(id, caller string, memory *Memory, used func() time.Time) *Recorder {
	r := &Recorder{store: s.store, log: s.log, id: id, caller: digest(caller), memory: memory, used: used}
	r.closed = func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.recorders, r)
	}
	s.mu.Lock()
	s.recorders[r] = struct{}{}
	if s.timer == nil {
		s.timer = time.AfterFunc(useEvery, s.saveUse)
	}
	s.mu.Unlock()
	return r
}

// saveUse records which sessions are in use, until there are none.
func (s *Records[S]) saveUse() {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.mu.Lock()
	all := make([]*Recorder, 0, len(s.recorders))
	for r := range s.recorders {
		all = append(all, r)
	}
	s.mu.Unlock()
	for _, r := range all {
		r.saveUse()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.recorders) == 0 {
		s.timer = nil
	} else if s.timer != nil {
		s.timer.Reset(useEvery)
	}
}

// Close ends the recording. All sessions must have ended.
func (s *Records[S]) Close() {
	s.mu.Lock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.saving.Lock() // who saves just now sees that nothing is left
	defer s.saving.Unlock()
}
