package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// What is remembered of a session is bounded.
const (
	// MaxSubscriptions is how many subscriptions are remembered. The client has to make
	// those beyond again itself.
	MaxSubscriptions = 1024

	// MaxSubscriptionBytes bounds the length of all their URIs.
	MaxSubscriptionBytes = 64 << 10

	// MaxHello is the longest initialize that a Record may hold, and MaxInitialize the longest
	// that is accepted: it is kept for as long as the session.
	MaxHello      = 64 << 10
	MaxInitialize = 256 << 10

	maxLevel = 64
)

// CheckInitialize returns an error if an initialize request is too long to be kept.
func CheckInitialize(req *dragoman.Message) *dragoman.Error {
	if req.Len() <= MaxInitialize {
		return nil
	}
	return &dragoman.Error{
		Code:    protocol.CodeInvalidParams,
		Message: fmt.Sprintf("initialize has %d bytes, more than %d; send shorter clientInfo and capabilities, such as URLs in place of icons", req.Len(), MaxInitialize),
	}
}

// A Memory is what the server knows of one session: the handshake, the log level and
// the subscriptions. The zero value knows nothing. Any number of goroutines may use
// it at once.
type Memory struct {
	mu         sync.Mutex
	hello      *dragoman.Message // the initialize request, or nil
	revision   string            // as the server answered it
	lists      protocol.Interest // those of whose changes the server notifies
	ready      bool              // the client has said that it is initialized
	level      json.RawMessage   // or nil
	subscribed []string          // URIs, in the order of their subscription
	size       int               // of subscribed, in bytes
}

// Opened remembers the handshake: the request that was sent and the answer to it.
func (m *Memory) Opened(hello, answer *dragoman.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hello, m.revision, m.lists = hello, protocol.VersionOf(answer), protocol.ListsOf(answer.Get("capabilities"))
}

// IsOpen reports whether there has been a handshake.
func (m *Memory) IsOpen() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hello != nil
}

// Initialized remembers that the client has ended the handshake. It reports whether
// that is new.
func (m *Memory) Initialized() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.ready
	m.ready = true
	return !was
}

// Learn remembers what a request has changed that the server answered with resp. It
// reports whether it has changed anything.
func (m *Memory) Learn(req, resp *dragoman.Message) bool {
	switch req.Method() {
	case protocol.MethodSetLevel, protocol.MethodSubscribe, protocol.MethodUnsubscribe:
	default:
		return false
	}
	if resp == nil || resp.IsError() {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch uri := req.URI(); req.Method() {
	case protocol.MethodSetLevel:
		level := req.Get("level")
		if len(level) > maxLevel {
			return false
		}
		m.level = slices.Clone(level)
		return true
	case protocol.MethodSubscribe:
		return m.subscribe(uri)
	default:
		return m.unsubscribe(uri)
	}
}

func (m *Memory) subscribe(uri string) bool {
	if len(m.subscribed) >= MaxSubscriptions || m.size+len(uri) > MaxSubscriptionBytes || slices.Contains(m.subscribed, uri) {
		return false
	}
	m.subscribed = append(m.subscribed, uri)
	m.size += len(uri)
	return true
}

func (m *Memory) unsubscribe(uri string) bool {
	i := slices.Index(m.subscribed, uri)
	if i < 0 {
		return false
	}
	m.subscribed = slices.Delete(m.subscribed, i, i+1)
	m.size -= len(uri)
	return true
}

// Subscribes reports whether the client waits for news of a resource.
func (m *Memory) Subscribes() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.subscribed) > 0
}

// Missed returns what may have changed while nobody listened: the lists whose
// changes the server tells of, and the resources of the subscriptions.
func (m *Memory) Missed() protocol.Interest {
	m.mu.Lock()
	defer m.mu.Unlock()
	missed := m.lists
	missed.URIs = slices.Clone(m.subscribed)
	return missed
}

// Replay opens the session again on another server: it repeats the handshake, the log
// level and the subscriptions, under ids of newID. accept looks at the answer to the
// handshake before the rest is sent; an error of it ends the replay. What the server
// does not take any more is logged. A Memory that knows nothing has nothing to replay.
func (m *Memory) Replay(ctx context.Context, to dragoman.Peer, newID func() dragoman.ID, accept func(answer *dragoman.Message) error, log *slog.Logger) error {
	m.mu.Lock()
	hello, ready := m.hello, m.ready
	m.mu.Unlock()
	if hello == nil {
		return nil
	}
	answer, err := call(ctx, to, hello.WithID(newID()))
	if err != nil {
		return err
	}
	if answer.IsError() {
		return answer.RPCError()
	}
	if err := accept(answer); err != nil {
		return err
	}
	m.Opened(hello, answer)
	if ready {
		if err := notifyInitialized(ctx, to); err != nil {
			return err
		}
	}
	return m.restore(ctx, to, newID, log)
}

func notifyInitialized(ctx context.Context, to dragoman.Peer) error {
	note, err := dragoman.NewNotification(protocol.NoteInitialized, nil)
	if err != nil {
		return err
	}
	return to.Notify(ctx, note)
}

// restore repeats the log level and the subscriptions.
func (m *Memory) restore(ctx context.Context, to dragoman.Peer, newID func() dragoman.ID, log *slog.Logger) error {
	m.mu.Lock()
	level, subscribed := m.level, slices.Clone(m.subscribed)
	m.mu.Unlock()
	send := func(method string, params any) error {
		req, err := dragoman.NewRequest(newID(), method, params)
		if err != nil {
			return err
		}
		resp, err := call(ctx, to, req)
		if err == nil && resp.IsError() {
			log.Info("the server refuses part of a session that it had before", "method", method, "error", resp.RPCError())
		}
		return err
	}
	if level != nil {
		if err := send(protocol.MethodSetLevel, map[string]json.RawMessage{"level": level}); err != nil {
			return err
		}
	}
	for _, uri := range subscribed {
		if err := send(protocol.MethodSubscribe, map[string]string{"uri": uri}); err != nil {
			return err
		}
	}
	return nil
}

func call(ctx context.Context, to dragoman.Peer, req *dragoman.Message) (*dragoman.Message, error) {
	resp, err := to.Call(ctx, req, nil)
	if err == nil && resp == nil {
		err = errors.New("no answer to " + req.Method())
	}
	return resp, err
}

// A Handshake is what a Memory writes down to outlive the process.
type Handshake struct {
	Revision   string          `json:"revision"`
	Hello      []byte          `json:"hello"` // the initialize request
	Ready      bool            `json:"ready,omitempty"`
	Level      json.RawMessage `json:"level,omitempty"`
	Subscribed []string        `json:"subscribed,omitempty"` // URIs
}

// Record returns the handshake as it is stored.
func (m *Memory) Record() Handshake {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := Handshake{Revision: m.revision, Ready: m.ready, Level: m.level, Subscribed: slices.Clone(m.subscribed)}
	if m.hello != nil {
		r.Hello = m.hello.Bytes()
	}
	return r
}

// Restore returns the Memory that a record was made of.
func (r *Handshake) Restore(limits dragoman.Limits) (*Memory, error) {
	hello, err := limits.Parse(r.Hello)
	if err != nil {
		return nil, err
	}
	if hello.Kind() != dragoman.Request || hello.Method() != protocol.MethodInitialize {
		return nil, fmt.Errorf("the record of a session begins with %s %q, not with %s", hello.Kind(), hello.Method(), protocol.MethodInitialize)
	}
	m := &Memory{hello: hello, revision: r.Revision, ready: r.Ready, level: r.Level}
	for _, uri := range r.Subscribed {
		m.subscribe(uri)
	}
	return m, nil
}
