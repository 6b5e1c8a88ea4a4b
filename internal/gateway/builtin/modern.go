package builtin

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"sync"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// callModern serves one request of the modern era, which stands for itself.
func (s *Server) callModern(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	c := &call{server: s, req: req, from: from, level: len(protocol.LogLevels)}
	if err := c.envelope(); err != nil {
		return req.Fail(err), nil
	}
	h := methodOf(req.Method(), protocol.Modern)
	if h == nil {
		return noMethod(req), nil
	}
	if protocol.MayNeedInput(req.Method()) {
		if err := c.readRounds(); err != nil {
			return req.Fail(err), nil
		}
	}
	resp, err := c.run(ctx, h)
	if err != nil || resp.IsError() {
		return resp, err
	}
	return c.decorate(resp)
}

// envelope reads what every request says about itself in _meta.
func (c *call) envelope() *dragoman.Error {
	e, err := protocol.ReadEnvelope(c.req)
	if err != nil {
		return invalid("%v", err)
	}
	if string(e.Capabilities) != "{}" && json.Unmarshal(e.Capabilities, &c.caps) != nil {
		return invalid("params._meta %s must be an object of capability objects", protocol.MetaClientCapabilities)
	}
	c.rev = protocol.ParseRevision(e.Version)
	if c.rev.Era() != protocol.Modern || !slices.Contains(c.server.opts.Revisions, c.rev) {
		return c.server.unsupported(e.Version)
	}
	if e.LogLevel != nil {
		l, err := levelOf(e.LogLevel)
		if err != nil {
			return invalid("params._meta %s: %v", protocol.MetaLogLevel, err)
		}
		c.level = l
	}
	return nil
}

// headOf returns how every result that is complete begins in a revision.
func headOf(rev protocol.Revision, info json.RawMessage) string {
	if rev.Era() != protocol.Modern {
		return "{"
	}
	return `{"resultType":"` + protocol.ResultComplete + `","_meta":{"` + protocol.MetaServerInfo + `":` + string(info) + `},`
}

// decorate adds to a result what every result of the modern era has, unless it
// began with that.
func (c *call) decorate(resp *dragoman.Message) (*dragoman.Message, error) {
	if resp.Meta(protocol.MetaServerInfo) != nil {
		return resp, nil
	}
	e := resp.Edit().SetMeta(protocol.MetaServerInfo, c.server.infos[c.rev])
	if resp.Get("resultType") == nil {
		e.Set("resultType", []byte(`"`+protocol.ResultComplete+`"`))
		if protocol.Cacheable(c.req.Method()) {
			ttl, scope := c.caching()
			e.Set("ttlMs", strconv.AppendInt(nil, ttl, 10)).Set("cacheScope", []byte(`"`+scope+`"`))
		}
	}
	return e.Message()
}

// caching says for how long and for whom a result may be cached.
func (c *call) caching() (ttl int64, scope string) {
	const second = 1000
	switch {
	case c.rounds.used():
		return 0, "private" // the answers of one user are in it
	case c.req.Method() == protocol.MethodDiscover:
		return 3600 * second, "public"
	case c.req.Method() == protocol.MethodReadResource && c.req.URI() == watched:
		return 0, "public"
	}
	return 30 * second, "public"
}

func discover(_ context.Context, c *call) (any, error) {
	return object{
		"supportedVersions": protocol.Names(c.server.opts.Revisions),
		"capabilities":      c.server.capabilities(c.rev),
		"instructions":      instructions,
	}, nil
}

// isObject reports whether valid JSON text is an object.
func isObject(text json.RawMessage) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{"))
}

// A listen is a subscription of the modern era. Its events wait here
// until its own call sends them, since the caller may be sent nothing after that
// call has returned.
type listen struct {
	wanted protocol.Interest
	wake   chan struct{} // holds one token when there is something to do

	mu      sync.Mutex
	waiting []event // guarded by mu
	ended   bool    // guarded by mu
}

// subscribe notifies the caller of changes until it cancels or the server closes.
func subscribe(ctx context.Context, c *call) (any, error) {
	var params struct {
		Notifications *protocol.Interest `json:"notifications"`
	}
	if err := c.req.Decode(&params); err != nil || params.Notifications == nil {
		return nil, invalid("params.notifications must be an object that names the changes to notify, " +
			`such as {"toolsListChanged":true,"resourceSubscriptions":["` + watched + `"]}`)
	}
	l := &listen{wanted: *params.Notifications, wake: make(chan struct{}, 1)}
	l.wanted.URIs = slices.DeleteFunc(l.wanted.URIs, func(uri string) bool { return !c.server.knows(uri) })
	l.wanted.Tasks = nil // there are none
	if c.from == nil {
		l.wanted = protocol.Interest{} // there is no from to notify
	}
	// From here on nothing is missed, though the acknowledgement goes first.
	c.server.addListen(l)
	defer c.server.removeListen(l)

	tag := object{protocol.MetaSubscriptionID: c.req.ID()}
	c.notify(ctx, protocol.NoteAcknowledged, object{"notifications": l.wanted, "_meta": tag})
	for !l.wanted.Empty() {
		events, ended := l.next()
		for _, e := range events {
			params := object{"_meta": tag}
			if e.uri != "" {
				params["uri"] = e.uri
			}
			c.notify(ctx, e.method, params)
		}
		if ended {
			break
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-l.wake:
		}
	}
	return object{"_meta": tag}, nil
}

// put adds an event, if it is wanted. One that waits already is not added again:
// the client will look at what changed after both.
func (l *listen) put(e event) {
	if !l.wanted.Wants(e.method, e.uri) {
		return
	}
	l.mu.Lock()
	if !slices.Contains(l.waiting, e) {
		l.waiting = append(l.waiting, e)
	}
	l.mu.Unlock()
	l.signal()
}

// end ends the subscription after the events that wait.
func (l *listen) end() {
	l.mu.Lock()
	l.ended = true
	l.mu.Unlock()
	l.signal()
}

func (l *listen) signal() {
	select {
	case l.wake <- struct{}{}:
	default: // awake already
	}
}

// next takes out what waits.
func (l *listen) next() (events []event, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	events, l.waiting = l.waiting, nil
	return events, l.ended
}

// addListen adds a subscription. After Close it ends at once.
func (s *Server) addListen(l *listen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		l.end()
	}
	s.listens[l] = struct{}{}
}

func (s *Server) removeListen(l *listen) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.listens, l)
}
