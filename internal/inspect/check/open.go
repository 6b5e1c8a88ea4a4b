package check

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// What a server has time for, if the Options do not say it.
const (
	grace    = 2 * time.Second
	maxGrace = 15 * time.Second // where it starts slowly
	slowEnd  = 4                // times as long as its start may its end take
	glance   = 500 * time.Millisecond
)

// A run looks at one server.
type run struct {
	*Options
	chosen   []Rule
	expected map[string]bool // rules whose processes are started ahead of time
	how      string

	// dial opens a conversation that knows nothing of those before. One of pool, http, old and
	// opened is set where that is how the server is reached: a command, Streamable HTTP,
	// HTTP+SSE or WebSocket.
	dial   func(context.Context) (rawclient.Wire, error)
	pool   *rawclient.Pool
	http   *rawclient.HTTP
	old    *rawclient.HTTP
	opened *rawclient.Reply // to the first handshake of a WebSocket
	shut   func()

	streams []*rawclient.OldSession // those of HTTP+SSE
	sockets []*rawclient.Socket

	// legacy and modern are conversations in the newest revision of each era; nil if the server
	// does not speak it. hello and discovered are what they began with.
	legacy, modern    *rawclient.Client
	hello, discovered *rawclient.Exchange

	tools  *rawclient.Pages      // nil if there are none
	read   []tool                // the same, once a rule has looked at them
	called *rawclient.Exchange   // of the tool that was named; nil if it has not been
	listed []*rawclient.Exchange // the answers to server/discover and all lists in the modern era; nil if they were not asked for

	exchanges []*rawclient.Exchange // all, for rules that judge what was said
	wires     []rawclient.Wire      // to be closed
	sessions  []*rawclient.Session

	// silent says of what a rule needs why it is not there, where it ought to be.
	silent map[needs]string

	// takenBack is where a server of both eras refused the revision that it had agreed to; nil if
	// it has not.
	takenBack *rawclient.Exchange

	// What rules share: the answer to a revision that does not exist, to a ping before the handshake is
	// over, to subscriptions/listen, and to initialize if that is refused; nil if it was not asked.
	unknown, premature, listening, declined *rawclient.Exchange

	// handshakes is a conversation with a process in which one handshake is made after the other; nil if
	// there is none, or if the server answers only the first one as it would at the beginning.
	handshakes *rawclient.Client
	oneEach    bool // it does, so that each handshake gets a process of its own

	another *rawclient.Client // the second conversation of the modern era; nil if there is none

	tried  map[string]*trial // by what it was
	risked *rawclient.Client // the conversation in which they are tried; nil if there is none, or it has ended

	foreign       *rawclient.Exchange // the request of a foreign page; nil if none was made
	exchangeBytes int                 // of those in exchanges
	flood         *rawclient.Exchange // the first in which the server wrote more than is read, or is kept; nil if none
}

// maxKept is how many bytes of exchanges are kept for rules that judge them.
const maxKept = 128 << 20

// open reaches the server, and finds out its eras.
func (r *run) open(ctx context.Context) error {
	if err := r.reach(); err != nil {
		return &UnreachedError{err}
	}
	status, err := r.openEras(ctx)
	if _, unreached := errors.AsType[*UnreachedError](err); unreached && r.http != nil && mayBeOld(status) {
		r.speakHTTPSSE()
		if _, again := r.openEras(ctx); again != nil {
			return &UnreachedError{fmt.Errorf("by Streamable HTTP: %w; by HTTP+SSE: %w", err, again)}
		}
		err = nil
	}
	if err != nil {
		return err
	}
	if r.can(r.main())["tools"] != nil {
		pages := r.list(ctx, r.main(), protocol.MethodListTools, "tools")
		if pages.Last().Result() != nil {
			r.tools = pages
		} else {
			r.silent[haveTools] = "tools/list gets " + pages.Last().Summary()
		}
	}
	r.expect()
	return nil
}

// mayBeOld reports whether a status of Streamable HTTP is that of a server which speaks HTTP+SSE.
func mayBeOld(status int) bool {
	return status == http.StatusBadRequest || status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}

// openEras opens a conversation in each era. If that fails, it returns the status of HTTP, too.
func (r *run) openEras(ctx context.Context) (status int, err error) {
	r.silent = map[needs]string{}
	for _, rev := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
		w, err := r.fresh(ctx)
		if err != nil {
			return 0, &UnreachedError{err}
		}
		c := r.Client(w, rev)
		if rev.Era() == protocol.Legacy {
			if r.pool != nil {
				c.Timeout = r.Start
			}
			x := r.keep(c.Begin(ctx))
			answered := x.Answer != nil
			c.Timeout = r.Timeout
			if r.pool != nil && answered {
				c.Timeout = r.Began(x.Took)
				r.pool.Allow(max(cmp.Or(r.Grace, grace), min(maxGrace, slowEnd*x.Took)))
			}
			if isRefusal(x.Status()) {
				return x.Status(), &AccessError{x.Status()}
			}
			if x.HTTP != nil {
				if refusal, ok := errors.AsType[*protocol.StatusError](x.HTTP.Err); ok { // which the sign-in could not do anything about
					return refusal.Status, &UnreachedError{refusal}
				}
			}
			if x.Result() != nil {
				r.legacy, r.hello = c, x
			} else if r.declined = x; x.Silent() {
				r.silent[legacyEra] = "initialize gets no answer in time"
			}
			if r.pool != nil && answered {
				r.pool.Expect(1) // the next round
				r.expect()
			}
			continue
		}
		x := r.keep(c.Begin(ctx))
		if slices.Contains(x.Supported(), rev.String()) {
			r.modern, r.discovered = c, x
		} else if x.Silent() {
			r.silent[modernEra] = "server/discover gets no answer in time"
		}
	}
	r.holdToItsWord(ctx)
	if r.legacy == nil && r.modern == nil {
		return r.declined.Status(), &UnreachedError{refused(r.declined)}
	}
	return 0, nil
}

// expect has processes started for the rules that apply as far as is known.
func (r *run) expect() {
	if r.pool == nil {
		return
	}
	for i := range r.chosen {
		if rule := &r.chosen[i]; rule.needs >= again && !r.expected[rule.ID] && r.applies(rule).skipped == "" {
			r.expected[rule.ID] = true
			r.pool.Expect(int(rule.needs / again))
		}
	}
}

// holdToItsWord sees whether the revision of the handshake is spoken behind it. If not, a rule says
// so, once, and the others look at the modern era.
func (r *run) holdToItsWord(ctx context.Context) {
	if r.http == nil || r.legacy == nil || r.modern == nil {
		return
	}
	if x := r.ask(ctx, r.legacy, protocol.MethodPing, nil); x.Answer == nil && x.Status() == http.StatusBadRequest {
		r.takenBack, r.legacy, r.hello = x, nil, nil
		r.silent[legacyEra] = "initialize is answered, but then requests get " + x.Summary()
	}
}

// refused says why a handshake has failed.
func refused(x *rawclient.Exchange) error {
	if exit, ok := errors.AsType[*stdio.ExitError](x.Err); ok {
		return &endedError{exit}
	}
	return fmt.Errorf("initialize and server/discover are not answered as a server would: %s", x.Summary())
}

// An endedError says that a process has ended before it answered, and what it said last, without
// secrets.
type endedError struct{ exit *stdio.ExitError }

// Error implements error.
func (e *endedError) Error() string { return redact.Text(e.exit.Error()) }

// Unwrap returns how the process ended.
func (e *endedError) Unwrap() error { return e.exit }

// reach finds out how the server is dialled.
func (r *run) reach() error {
	t, err := target.New(r.Spec)
	if err != nil {
		return err
	}
	r.how = t.How
	scheme := target.Scheme(r.Spec.URL)
	switch d := t.Dialer.(type) {
	case *stdio.Command:
		c := *d
		c.Grace = cmp.Or(r.Grace, grace)
		r.pool, r.how = rawclient.NewPool(&c), "stdio"
		r.dial = r.pool.Open
		return nil
	case *stdio.Address:
		r.dial = func(ctx context.Context) (rawclient.Wire, error) {
			return rawclient.DialSocket(ctx, d, r.Spec.Framing)
		}
		return nil
	}
	if scheme == "ws" || scheme == "wss" {
		r.how = "WebSocket"
		r.dial = func(ctx context.Context) (rawclient.Wire, error) {
			socket, reply, err := rawclient.DialWebSocket(ctx, r.Spec, nil)
			if reply != nil && isRefusal(reply.Status) {
				return nil, &AccessError{reply.Status}
			}
			if err != nil {
				return nil, err
			}
			r.opened, r.sockets = cmp.Or(r.opened, reply), append(r.sockets, socket)
			return rawclient.NewLinkWire(socket), nil
		}
		return nil
	}
	h, err := rawclient.NewHTTP(r.Spec)
	if err != nil {
		return err
	}
	r.http, r.shut, r.how = h, h.Close, "Streamable HTTP"
	r.dial = h.Open
	return nil
}

// speakHTTPSSE has HTTP+SSE spoken instead of Streamable HTTP.
func (r *run) speakHTTPSSE() {
	h := r.http
	r.http, r.old, r.how, r.exchanges = nil, h, "HTTP+SSE", nil // of what was not MCP
	r.dial = func(ctx context.Context) (rawclient.Wire, error) {
		s, _, err := h.OpenOld(ctx, h.At)
		if err != nil {
			return nil, err
		}
		r.streams = append(r.streams, s)
		return rawclient.NewLinkWire(s), nil
	}
}

// fresh opens another conversation, which ends with the run.
func (r *run) fresh(ctx context.Context) (rawclient.Wire, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, rawclient.ErrSilent)
	defer cancel()
	w, err := r.dial(ctx)
	if err != nil {
		return nil, err
	}
	r.wires = append(r.wires, w)
	if s, ok := w.(*rawclient.Session); ok {
		r.sessions = append(r.sessions, s)
	}
	return w, nil
}

// handshake sends initialize with a version and capabilities. A process is asked several times, since it
// takes its time to start; an answer that is not good may be due to the handshake before, so that a
// new one is asked then.
func (r *run) handshake(ctx context.Context, version string, can rawclient.Object, good func(*rawclient.Exchange) bool) (*rawclient.Client, *rawclient.Exchange, error) {
	if c := r.handshakes; c != nil {
		c.Capabilities = can
		if x := c.Initialize(ctx, version); good(x) {
			return c, r.keep(x), nil
		}
		r.handshakes, r.oneEach = nil, true
	}
	w, err := r.fresh(ctx)
	if err != nil {
		return nil, nil, err
	}
	c := r.Client(w, protocol.LatestLegacy)
	c.Capabilities = can
	x := r.keep(c.Initialize(ctx, version))
	if r.pool != nil && x.Answer != nil && !x.Misnamed && !r.oneEach {
		r.handshakes = c
	}
	return c, x, nil
}

// begin opens another conversation in the era that is looked at.
func (r *run) begin(ctx context.Context) (*rawclient.Client, error) {
	w, err := r.fresh(ctx)
	if err != nil {
		return nil, err
	}
	c := r.Client(w, r.main().Revision)
	if c.Revision.Era() == protocol.Legacy {
		if x := r.keep(c.Begin(ctx)); x.Result() == nil {
			return nil, refused(x)
		}
	}
	return c, nil
}

// main returns the conversation in which most is looked at.
func (r *run) main() *rawclient.Client {
	if r.legacy != nil {
		return r.legacy
	}
	return r.modern
}

// can returns the capabilities that the server announces in a conversation.
func (r *run) can(c *rawclient.Client) map[string]json.RawMessage {
	x := r.discovered
	if c == r.legacy {
		x = r.hello
	}
	hello := x.Hello()
	return hello.Can()
}

// both returns the conversations of all eras that the server speaks.
func (r *run) both() (list []*rawclient.Client) {
	for _, c := range []*rawclient.Client{r.legacy, r.modern} {
		if c != nil {
			list = append(list, c)
		}
	}
	return list
}

// keep remembers an exchange for the rules that judge what was said, as long as there is room.
func (r *run) keep(x *rawclient.Exchange) *rawclient.Exchange {
	if x.Misnamed {
		r.Hurry()
	}
	full := r.exchangeBytes+x.Size() > maxKept
	if r.flood == nil && (full || errors.Is(x.Err, rawclient.ErrFlood)) {
		r.flood = x
	}
	if !full {
		r.exchangeBytes += x.Size()
		r.exchanges = append(r.exchanges, x)
	}
	return x
}

// ask asks, and remembers the exchange.
func (r *run) ask(ctx context.Context, c *rawclient.Client, method string, params rawclient.Object) *rawclient.Exchange {
	return r.keep(c.Ask(ctx, method, params))
}

// tryUnknown asks for what there is not, which some servers ignore, and remembers the exchange.
func (r *run) tryUnknown(ctx context.Context, c *rawclient.Client, method string, params rawclient.Object) *rawclient.Exchange {
	return r.keep(c.Try(ctx, nil, method, params))
}

// list asks for a list, and remembers its pages.
func (r *run) list(ctx context.Context, c *rawclient.Client, method, member string) *rawclient.Pages {
	pages := c.List(ctx, method, member)
	for _, x := range pages.Exchanges {
		r.keep(x)
	}
	return pages
}

// harmless is a request that any server of the conversation's era answers.
func harmless(c *rawclient.Client) string {
	if c.Revision.Era() == protocol.Modern {
		return protocol.MethodDiscover
	}
	return protocol.MethodPing
}

// close ends all conversations. Sessions are deleted.
func (r *run) close() {
	for _, s := range r.sessions {
		if s.ID != "" {
			s.Delete(context.Background(), time.Second)
		}
	}
	for _, w := range r.wires {
		w.Close()
	}
	if r.pool != nil {
		r.pool.Close()
	}
	if r.shut != nil {
		r.shut()
	}
}

// names returns names in a line.
func names(list []string) string { return strings.Join(list, ", ") }
