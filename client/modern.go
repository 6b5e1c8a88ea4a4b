package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/util/retry"
	"github.com/dragoman-mcp/dragoman/internal/util/syncs"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// MaxRounds is how often a server may ask for input in one request.
const MaxRounds = 10

// betweenRounds is the wait before a request is made again that the server wants to
// have again without asking anything.
var betweenRounds = retry.Backoff{Min: 250 * time.Millisecond, Max: time.Minute}

// modern is the side of the modern era: each request has its envelope, and the
// server asks by wanting a request again.
type modern struct {
	client   *Client
	endpoint dragoman.Peer
	busy     syncs.Group // the goroutines of changes
	changes  *subscription.Subscription

	mu       sync.Mutex
	envelope protocol.Envelope // of the next request; guarded by mu
}

func newModern(c *Client, endpoint dragoman.Peer) *modern {
	m := &modern{client: c, endpoint: endpoint}
	// Ends with the Client, whose Close waits for it.
	m.changes = subscription.New(c.ctx, &subscription.Options{Send: m.listen, Notify: c.notify, Busy: &m.busy, Logger: c.opts.Logger})
	rev := c.opts.Revision
	if rev == protocol.Unknown {
		rev = protocol.Latest
	}
	m.envelope = protocol.Envelope{Version: rev.String(), Capabilities: c.opts.capabilities(), Client: c.opts.clientInfo()}
	return m
}

func (m *modern) open(ctx context.Context) (*facts, error) {
	var said struct {
		facts
		Versions []string                   `json:"supportedVersions"`
		Meta     map[string]json.RawMessage `json:"_meta"`
	}
	if err := answered(m.discover(ctx))(&said); err != nil {
		return nil, err
	}
	f := &said.facts
	for _, r := range protocol.Revisions() { // newest first
		wanted := m.client.opts.Revision == protocol.Unknown || m.client.opts.Revision == r
		if r.Era() == protocol.Modern && wanted && slices.Contains(said.Versions, r.String()) {
			f.Revision = r
			break
		}
	}
	if f.Revision == protocol.Unknown {
		return nil, &revisionError{m.client.opts.Revision, strings.Join(said.Versions, ", ")}
	}
	m.mu.Lock()
	m.envelope.Version = f.Revision.String()
	m.mu.Unlock()
	if info := said.Meta[protocol.MetaServerInfo]; info != nil {
		_ = json.Unmarshal(info, &f.Info) // who cannot introduce itself has no name
	}
	if m.client.opts.OnNotification != nil {
		m.changes.Want(protocol.ListsOf(f.Capabilities))
	}
	return f, nil
}

// discover asks the server what it is.
func (m *modern) discover(ctx context.Context) (*dragoman.Message, error) {
	req, err := dragoman.NewRequest(m.client.newID(), protocol.MethodDiscover, struct{}{})
	if err != nil {
		return nil, err
	}
	return m.send(ctx, req, nil)
}

// send makes one request.
func (m *modern) send(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	m.mu.Lock()
	env := m.envelope
	m.mu.Unlock()
	if req.Method() == protocol.MethodListen {
		env.LogLevel = nil // there are no log messages on it
	}
	req, err := env.Put(req)
	if err != nil {
		return nil, err
	}
	return m.endpoint.Call(ctx, req, from)
}

func (m *modern) ask(ctx context.Context, req *dragoman.Message, k *call) (*dragoman.Message, error) {
	idle := 0 // rounds without a question
	for range MaxRounds {
		resp, err := m.send(ctx, req, k)
		if err != nil || resp == nil || resp.IsError() {
			return resp, err
		}
		switch kind := resp.Get("resultType"); {
		case kind == nil || string(kind) == strconv.Quote(protocol.ResultComplete):
			return resp, nil
		case string(kind) != strconv.Quote(protocol.ResultInputRequired) || !protocol.MayNeedInput(req.Method()):
			return nil, fmt.Errorf("the server answers %s with a result of type %s, which it cannot have", req.Method(), kind)
		}
		state := resp.Get("requestState")
		answers, err := m.answers(ctx, k, resp.Get("inputRequests"))
		switch {
		case err != nil:
			return nil, err
		case answers == nil && state == nil:
			return nil, errors.New("the server needs input, but neither asks for it nor gives a requestState")
		case answers == nil:
			idle++
			if err := retry.Sleep(ctx, betweenRounds.Wait(idle)); err != nil {
				return nil, err
			}
		}
		// A state or answers of the round before are not for this one.
		if req, err = req.Edit().Set("inputResponses", answers).Set("requestState", state).Message(); err != nil {
			return nil, err
		}
		req = req.WithID(m.client.newID())
	}
	return nil, fmt.Errorf("the server asks for more after %d rounds of questions", MaxRounds)
}

// answers has the handlers answer the questions of a round, one after the other.
// It is nil if there are none.
func (m *modern) answers(ctx context.Context, k *call, text json.RawMessage) (json.RawMessage, error) {
	var questions map[string]struct {
		Method string          `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	if text != nil {
		if err := json.Unmarshal(text, &questions); err != nil {
			return nil, fmt.Errorf("the server's questions cannot be read: %w", err)
		}
	}
	if len(questions) == 0 {
		return nil, nil
	}
	for _, q := range questions { // before anybody is bothered
		if m.client.opts.handler(q.Method, q.Params) == nil {
			return nil, fmt.Errorf("the server asks %s, which this client has not said that it answers", q.Method)
		}
	}
	defer k.clock.Pause()()
	answers := make(map[string]json.RawMessage, len(questions))
	for key, q := range questions {
		answer, err := m.client.handle(ctx, m.client.opts.handler(q.Method, q.Params), q.Params)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil && q.Method == protocol.MethodElicit:
			answer = json.RawMessage(`{"action":"cancel"}`)
		case err != nil:
			return nil, &unanswered{fmt.Errorf("client: %s has no answer: %w", q.Method, err)}
		}
		answers[key] = answer
	}
	return json.Marshal(answers)
}

// unanswered is a failure of our own handlers.
type unanswered struct{ error }

// Unwrap returns the failure.
func (e *unanswered) Unwrap() error { return e.error }

func (m *modern) ping(ctx context.Context) error {
	_, err := m.client.do(ctx, protocol.MethodDiscover, nil, nil)
	return err
}

// setLevel makes it part of the envelope.
func (m *modern) setLevel(_ context.Context, level string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.envelope.LogLevel = json.RawMessage(strconv.Quote(level))
	return nil
}

func (m *modern) subscribe(ctx context.Context, uri string) error {
	c := m.client
	inner, k := c.newCall(ctx, c.opts.Timeout, nil)
	defer k.end()
	err := m.changes.Add(inner, uri)
	if err == nil {
		return nil
	}
	return c.fault(ctx, inner, k, protocol.MethodListen, nil, err)
}

func (m *modern) unsubscribe(_ context.Context, uri string) error {
	m.changes.Remove(uri)
	return nil
}

// listen sends a listen.
func (m *modern) listen(ctx context.Context, want protocol.Interest, from dragoman.Peer) (*dragoman.Message, error) {
	c := m.client
	req, err := dragoman.NewRequest(c.newID(), protocol.MethodListen, map[string]any{"notifications": want})
	if err != nil {
		return nil, err
	}
	k := &call{failures: c.dialer.count()}
	resp, err := m.send(context.WithValue(ctx, callKey{}, k), req, from)
	if err == nil && resp != nil && resp.IsError() && !k.answered.Load() {
		return nil, c.unsent(k, protocol.MethodListen, resp.RPCError())
	}
	return resp, err
}

func (m *modern) close() { m.busy.Wait() }
