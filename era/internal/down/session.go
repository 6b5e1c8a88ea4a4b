package down

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/adapt"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A session is one conversation with the legacy server. As a peer it is the local
// one of that conversation: it takes what the server says outside of calls, and
// what it says inside of one but does not say so.
type session struct {
	server *Server
	key    key
	handle string        // names the session in cursors
	ready  chan struct{} // closed when the session is open, or cannot be opened

	// Set before ready is closed, and not changed afterwards.
	err          *dragoman.Error // why it cannot be opened
	conn         dragoman.Conn
	correlates   bool
	hears        bool // the conversation delivers what belongs to no call
	rev          protocol.Revision
	info         json.RawMessage // serverInfo
	caps         json.RawMessage
	instructions json.RawMessage // or nil
	serves       services

	// Guarded by pool.mu.
	users  int // requests, calls and subscriptions
	askers int // those of them that the server may ask
	used   time.Time
	idle   *time.Timer
	gone   bool // not in the pool any more

	level     atomic.Int32 // of logs that the server was told to send; unset is larger than all
	levelling gate         // who changes level
	watching  gate         // who changes watched
	tools     taskTools

	mu      sync.Mutex
	calls   map[*call]struct{} // that the server may ask
	loggers map[logger]struct{}
	listens map[*listen]struct{}
	watched map[string]int // how many subscriptions want a URI; changed by who holds watching
}

// services are what matters of a server's capabilities.
type services struct {
	Tools, Prompts struct{ ListChanged bool }
	Resources      struct{ ListChanged, Subscribe bool }
	Logging        *struct{}
	Tasks          struct {
		Requests struct{ Tools struct{ Call *struct{} } }
	}
}

// unset is the level of a session whose server was not told any.
const unset = 1000

func newSession(s *Server, k key) *session {
	v := &session{
		server: s, key: k, handle: rand.Text(), ready: make(chan struct{}), levelling: newGate(), watching: newGate(), tools: newTaskTools(),
		calls:   make(map[*call]struct{}),
		loggers: make(map[logger]struct{}),
		listens: make(map[*listen]struct{}),
		watched: make(map[string]int),
	}
	v.level.Store(unset)
	return v
}

// take makes the session somebody's. The caller holds pool.mu.
func (v *session) take(asks bool) {
	v.users++
	if asks {
		v.askers++
	}
}

func (v *session) isReady() bool {
	select {
	case <-v.ready:
		return true
	default:
		return false
	}
}

// over tells whether the conversation has been open and is no more.
func (v *session) over() bool {
	if !v.isReady() {
		return false
	}
	if v.err != nil {
		return true
	}
	select {
	case <-v.conn.Done():
		return true
	default:
		return false
	}
}

// wait waits until the session is open.
func (v *session) wait(ctx context.Context) error {
	select {
	case <-v.ready:
	default:
		select {
		case <-v.ready:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if v.err != nil {
		return v.err
	}
	return nil
}

// route returns how messages go between a client of a revision and the server.
func (v *session) route(client protocol.Revision) adapt.Route {
	return adapt.Route{Client: client, Server: v.rev}
}

// open opens the conversation and initializes it. It is shared by all who wait
// for the session, so it does not end with the request that ctx belongs to.
func (v *session) open(ctx context.Context, info json.RawMessage) {
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), OpenTimeout, errOpen)
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(v.server.ctx, func() { stop(dragoman.ErrClosed) })()

	err := v.handshake(ctx, info)
	if err == nil {
		v.server.pool.opened(v)
		return
	}
	v.server.pool.failed(v, protocol.Unavailable(err))
}

var errOpen = errors.New("the server took too long to open a session")

// handshake dials and initializes. If the server refuses the newest legacy
// revision and names others, one of those is asked for.
func (v *session) handshake(ctx context.Context, info json.RawMessage) (err error) {
	if v.conn, err = v.server.dial(ctx, v); err != nil {
		return fmt.Errorf("it cannot be dialled: %w", err)
	}
	resp, err := v.hello(ctx, protocol.LatestLegacy, info)
	if err == nil && resp.IsError() {
		if other := named(resp.RPCError()); other != protocol.Unknown {
			resp, err = v.hello(ctx, other, info)
		}
	}
	switch {
	case err != nil:
		return fmt.Errorf("initialize failed: %w", err)
	case resp.IsError():
		return errors.New("initialize was refused: " + resp.RPCError().Error())
	}
	if err := v.learn(resp); err != nil {
		return err
	}
	note, err := dragoman.NewNotification(protocol.NoteInitialized, nil)
	if err == nil {
		err = v.conn.Notify(ctx, note)
	}
	if err != nil {
		return fmt.Errorf("the handshake failed: %w", err)
	}
	c, ok := v.conn.(dragoman.Correlator)
	v.correlates = ok && c.Correlates()
	h, ok := v.conn.(dragoman.Hearer)
	v.hears = !ok || h.Hears()
	return nil
}

func (v *session) hello(ctx context.Context, rev protocol.Revision, info json.RawMessage) (*dragoman.Message, error) {
	if info == nil {
		info, _ = json.Marshal(map[string]string{"name": v.server.opts.Name, "version": v.server.opts.Version}) // strings encode
	}
	req, err := dragoman.NewRequest(v.server.newID(), protocol.MethodInitialize, map[string]any{
		"protocolVersion": rev.String(), "capabilities": json.RawMessage(v.key.caps), "clientInfo": info,
	})
	if err != nil {
		return nil, err
	}
	return v.conn.Call(ctx, req, v)
}

// named returns the newest legacy revision that an error says the server has.
func named(e *dragoman.Error) protocol.Revision {
	var data struct{ Supported []string }
	if json.Unmarshal(e.Data, &data) != nil {
		return protocol.Unknown
	}
	best := protocol.Unknown
	for _, name := range data.Supported {
		if rev := protocol.ParseRevision(name); rev.HasSessions() && rev != protocol.LatestLegacy {
			best = max(best, rev)
		}
	}
	return best
}

// learn takes the server's answer to initialize.
func (v *session) learn(resp *dragoman.Message) error {
	var version string
	_ = json.Unmarshal(resp.Get("protocolVersion"), &version) // none is as bad as an unknown one
	v.rev = protocol.ParseRevision(version)
	if v.rev == protocol.Unknown || !v.rev.HasSessions() {
		return &dragoman.Error{
			Code:    protocol.CodeInternal,
			Message: fmt.Sprintf("the server answers initialize with protocol version %q, which the gateway cannot speak to it", version),
		}
	}
	if info := resp.Get("serverInfo"); isObject(info) {
		v.info = info
	}
	v.caps = json.RawMessage("{}")
	if caps := resp.Get("capabilities"); isObject(caps) {
		v.caps = caps
		_ = json.Unmarshal(caps, &v.serves) // what cannot be read is not served
	}
	if text := resp.Get("instructions"); len(text) > 0 && text[0] == '"' {
		v.instructions = text
	}
	return nil
}

// A gate lets one at a time see to something that takes a while.
type gate chan struct{}

func newGate() gate { return make(gate, 1) }

// enter fails if ctx ends first.
func (g gate) enter(ctx context.Context) error {
	select {
	case g <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (g gate) leave() { <-g }

// ask sends the server a request of our own.
func (v *session) ask(ctx context.Context, method string, params any) (*dragoman.Message, error) {
	req, err := dragoman.NewRequest(v.server.newID(), method, params)
	if err != nil {
		return nil, err
	}
	return v.conn.Call(ctx, req, aside{v})
}
