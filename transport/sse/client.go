package sse

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Defaults of a Client.
const (
	DefaultEndpointTimeout = 10 * time.Second
	DefaultPostTimeout     = 30 * time.Second
)

// A Client is a server at a URL. It is a Dialer.
type Client struct {
	// URL is that of the event stream. If the server has none there, the same
	// URL with /sse behind it is tried.
	URL string

	// HTTP makes the requests. Its Timeout is not used. If nil, each conversation
	// has connections of its own, which TLS configures. Redirects to another origin,
	// or which turn a POST into a GET, are not followed unless HTTP says otherwise.
	HTTP *http.Client
	TLS  *tls.Config

	// Proxy says through which proxy connections go if HTTP is nil. If it is nil, too, the
	// environment does.
	Proxy func(*http.Request) (*url.URL, error)

	// Wrap, if not nil, returns what makes the requests in place of the given, which
	// it uses: it may add to each request, and repeat one. See package oauth.
	Wrap func(http.RoundTripper) http.RoundTripper

	// Header is sent with every request.
	Header http.Header

	// EndpointTimeout is how long Dial waits for the endpoint, PostTimeout how
	// long the server may take to answer the POST of a message. Zero means the
	// defaults.
	EndpointTimeout, PostTimeout time.Duration

	// Sync speaks the variant without sessions to a server that names no
	// endpoint: messages are posted to URL/messages, and answers come in the
	// response.
	Sync bool

	// MaxMessage is the largest message accepted, in bytes. Zero means
	// dragoman.DefaultMaxMessage; negative means no limit. A larger one is
	// skipped, and one of eight times the limit ends the conversation.
	MaxMessage int

	// Logger receives what is skipped. If nil, nothing is logged.
	Logger *slog.Logger
}

var _ dragoman.Dialer = (*Client)(nil)

// Dial opens the event stream and waits for the endpoint that it names. A
// server that says no gives a *[protocol.StatusError].
//
// A message that the server does not take fails its call and nothing else. The
// conversation ends with the event stream, and when the server does not know
// the session any more; then calls fail with an error that is
// [dragoman.ErrClosed] and says why.
func (c *Client) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	client, err := httpclient.NewClient("sse", &httpclient.ClientOptions{URL: c.URL, HTTP: c.HTTP, TLS: c.TLS, Proxy: c.Proxy, Wrap: c.Wrap, Header: c.Header})
	if err != nil {
		return nil, err
	}
	client.HTTP.Timeout = 0 // it would end the stream
	cs := newClientStream(c, client)
	if err := cs.connect(ctx, client.URL, cmp.Or(c.EndpointTimeout, DefaultEndpointTimeout)); err != nil {
		_ = cs.Close()
		return nil, err
	}
	conn := jsonrpc.New(cs, &jsonrpc.Options{Limits: cs.limits, Queued: true, Logger: c.Logger})
	conn.Start(local)
	return conn, nil
}

// errNoEndpoint says that a server is silent, or not one of this transport.
var errNoEndpoint = errors.New("sse: the server named no endpoint in time")

// connect opens the event stream and finds out where messages go.
func (cs *clientStream) connect(ctx context.Context, base *url.URL, timeout time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, errNoEndpoint)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { cs.end(context.Cause(ctx)) })
	resp, err := cs.open(base)
	if !stop() {
		<-cs.ctx.Done()
		err = context.Cause(cs.ctx)
	}
	if err != nil {
		if resp != nil {
			_ = resp.Body.Close()
		}
		if status, ok := errors.AsType[*protocol.StatusError](err); ok && cs.allowSync && noStream(status.Status) {
			cs.endpoint, cs.sync = syncEndpoint(base), true // there are no notifications, but calls work
			return nil
		}
		return err
	}
	cs.running.Add(1)
	go cs.readEvents(resp.Body) // ends with the stream
	var first *sse.Event
	select {
	case first = <-cs.first:
	case <-cs.ctx.Done():
		return context.Cause(cs.ctx)
	case <-ctx.Done():
		if err := context.Cause(ctx); !cs.allowSync || !errors.Is(err, errNoEndpoint) {
			return err
		}
	}
	return cs.setEndpoint(base, resp.Request.URL, first)
}

// setEndpoint sets where messages are posted, by the first event of the stream at that
// URL, or by its absence.
func (cs *clientStream) setEndpoint(base, at *url.URL, first *sse.Event) error {
	if first == nil || first.Name != eventEndpoint {
		if !cs.allowSync {
			return errors.New("sse: the event stream does not begin with an endpoint")
		}
		cs.endpoint, cs.sync = syncEndpoint(base), true
		return nil
	}
	endpoint, err := at.Parse(strings.TrimSpace(string(first.Data)))
	if err != nil {
		return errors.New("sse: the endpoint that the server names is no URL")
	}
	if !httpclient.SameOrigin(endpoint, at) {
		return fmt.Errorf("sse: the endpoint that the server names is at another origin, %s://%s", endpoint.Scheme, endpoint.Host)
	}
	endpoint.Fragment, endpoint.User = "", at.User
	cs.endpoint = endpoint
	return nil
}

// open gets the event stream: at base, or behind it.
func (cs *clientStream) open(base *url.URL) (*http.Response, error) {
	resp, err := cs.get(base)
	status, said := errors.AsType[*protocol.StatusError](err)
	if !said || strings.HasSuffix(base.Path, "/sse") || status.Status != http.StatusNotFound && !cs.allowSync {
		return resp, err
	}
	again, err := cs.get(base.JoinPath("sse"))
	if _, said := errors.AsType[*protocol.StatusError](err); said {
		return nil, status // about the URL that was configured
	}
	return again, err
}

// get opens the event stream at a URL.
func (cs *clientStream) get(at *url.URL) (*http.Response, error) {
	resp, err := cs.http.Do(cs.ctx, http.MethodGet, at, nil, func(h http.Header) {
		h.Set("Accept", sse.ContentType)
		h.Set("Accept-Encoding", "identity") // compressed streams get stuck in buffers
		h.Set("Cache-Control", "no-cache")
	})
	if err != nil {
		return nil, fmt.Errorf("sse: cannot reach the server: %w", err)
	}
	if resp.StatusCode == http.StatusOK && httpframe.MediaType(resp.Header) == sse.ContentType {
		return resp, nil
	}
	defer resp.Body.Close()
	status := httpclient.ReadStatus(resp)
	if status.Status == http.StatusOK {
		status.Text = "that is no event stream"
	}
	return nil, status
}

// syncEndpoint returns where the variant without sessions takes messages.
func syncEndpoint(base *url.URL) *url.URL {
	u := *base
	u.Path, u.RawPath = strings.TrimSuffix(u.Path, "/sse"), ""
	return u.JoinPath("messages")
}

const (
	// endlessFactor is how many times the limit an event may have before it counts
	// as one that will not end.
	endlessFactor = 8

	// eventOverhead is what an event may have besides its data.
	eventOverhead = 4 << 10
)

// A clientStream is the mux.Stream of a client: it reads the event stream and posts
// what is written.
type clientStream struct {
	http      *httpclient.Client // released by Close
	limits    dragoman.Limits
	timeout   time.Duration // for one POST
	allowSync bool          // the variant without sessions is allowed
	log       *slog.Logger

	endpoint *url.URL // set by connect
	sync     bool     // answers come in the response; set by connect

	ctx      context.Context // ends with the stream
	cancel   context.CancelCauseFunc
	first    chan *sse.Event // the first event
	incoming chan incoming

	mu             sync.Mutex // guards what follows
	closed         bool
	queues         [kinds]backlog
	handshaking    bool          // a message of the handshake is not posted yet
	afterHandshake []*post       // posts that wait for that
	postDone       chan struct{} // closed when a POST is over; nil if no goroutine waits

	// What waits or is in progress, and others may have to follow:
	requests   map[dragoman.ID]*post // requests
	cancels    []*post               // cancels
	lastReport *post                 // the last of the reports, or nil

	running sync.WaitGroup // of readEvents and posts
	release sync.Once      // of http
}

// An incoming is what Read returns.
type incoming struct {
	data []byte
	err  error
}

func newClientStream(c *Client, client *httpclient.Client) *clientStream {
	cs := &clientStream{
		http: client, limits: dragoman.Limits{MaxMessage: c.MaxMessage},
		timeout: cmp.Or(c.PostTimeout, DefaultPostTimeout), allowSync: c.Sync, log: httpserver.Logger(c.Logger),
		first: make(chan *sse.Event, 1), incoming: make(chan incoming),
		requests: make(map[dragoman.ID]*post),
	}
	client.Acquire()
	cs.ctx, cs.cancel = context.WithCancelCause(context.Background())
	return cs
}

// readEvents reads events until the stream ends, and ends the conversation.
func (cs *clientStream) readEvents(body io.ReadCloser) {
	defer cs.running.Done()
	defer body.Close()
	limit := cs.limits.Message()
	r := sse.NewReader(body, limit+eventOverhead)
	for {
		e, err := r.Next()
		var bad *jsonrpc.BadFrame
		switch {
		case errors.Is(err, dragoman.ErrTooLarge):
			bad = &jsonrpc.BadFrame{Err: err}
			if bad.Head, bad.Tail, err = r.Skip(endlessFactor * limit); err == nil {
				cs.deliver(incoming{err: bad})
				continue
			}
		case err == nil && e.Name == eventEndpoint:
			cs.keepFirst(e)
			continue
		case err == nil:
			if e.HasMessage() {
				cs.keepFirst(e)
				cs.deliver(cs.check(e.Data))
			}
			continue
		case errors.Is(err, io.EOF):
			err = fmt.Errorf("sse: the server has ended the event stream: %w", err)
		default:
			err = fmt.Errorf("sse: the event stream broke: %w", err)
		}
		cs.end(err)
		return
	}
}

// keepFirst keeps the first event for connect.
func (cs *clientStream) keepFirst(e *sse.Event) {
	select {
	case cs.first <- e:
	default:
	}
}

// check refuses a message over the limit.
func (cs *clientStream) check(data []byte) incoming {
	const ends = 256
	if limit := cs.limits.Message(); len(data) > limit {
		return incoming{err: &jsonrpc.BadFrame{
			Err:  fmt.Errorf("%w: %d bytes", dragoman.ErrTooLarge, len(data)),
			Head: data[:min(len(data), ends)], Tail: data[max(0, len(data)-ends):],
		}}
	}
	return incoming{data: data}
}

// deliver hands something to Read.
func (cs *clientStream) deliver(a incoming) {
	select {
	case cs.incoming <- a:
	case <-cs.ctx.Done():
	}
}

// end ends the stream, for the first reason given.
func (cs *clientStream) end(reason error) { cs.cancel(reason) }

// Read implements mux.Stream.
func (cs *clientStream) Read() ([]byte, error) {
	select {
	case a := <-cs.incoming:
		return a.data, a.err
	case <-cs.ctx.Done():
		return nil, context.Cause(cs.ctx)
	}
}

// Close implements mux.Stream. It waits for all that is in flight.
func (cs *clientStream) Close() error {
	cs.flush()
	cs.end(dragoman.ErrClosed)
	cs.mu.Lock()
	cs.closed = true
	cs.mu.Unlock()
	cs.running.Wait()
	cs.release.Do(cs.http.Release)
	return nil
}

// maxRest is how much of the body of a response is read and dropped, so that its
// connection can be used again.
const maxRest = 64 << 10

// noStream reports whether a status means that there is no event stream, rather than
// that there is one for others.
func noStream(status int) bool {
	switch status {
	case http.StatusOK, http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotAcceptable:
		return true
	}
	return false
}

// outcome takes what the server says to a message that was posted.
func (cs *clientStream) outcome(resp *http.Response, m *dragoman.Message) {
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		if cs.sync && m != nil && m.Kind() == dragoman.Request {
			cs.answer(resp, m)
			return
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxRest))
		return
	}
	e := httpclient.ReadStatus(resp)
	switch {
	case !cs.sync && (e.Status == http.StatusNotFound || e.Status == http.StatusGone):
		gone := fmt.Errorf("sse: the session is gone: %w", e)
		if m != nil && m.Kind() == dragoman.Request {
			cs.fail(m, dragoman.Closed(gone)) // it was refused; the outcome of others is unknown
		}
		cs.end(httpclient.UnknownOutcome(gone))
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden, e.Unwrap() != nil && !hasOwnError(e):
		cs.fail(m, e)
	default:
		cs.refused(m, e)
	}
}

// hasOwnError reports whether the body says what became of the request, as ours do: that
// says more than the status.
func hasOwnError(e *protocol.StatusError) bool {
	answer := e.Response(dragoman.Limits{})
	return answer != nil && protocol.IsGatewayError(answer.RPCError())
}

// refused makes a JSON-RPC error in the body of a refusal the answer.
func (cs *clientStream) refused(m *dragoman.Message, e *protocol.StatusError) {
	answer := e.Response(dragoman.Limits{})
	if answer == nil || m == nil || m.Kind() != dragoman.Request {
		cs.fail(m, e)
		return
	}
	cs.deliver(incoming{data: answer.WithID(m.ID()).Bytes()})
}

// errNoAnswer says that a server took a request but did not answer it.
var errNoAnswer = errors.New("sse: no response received for request")

// answer takes the answer in the body of a response.
func (cs *clientStream) answer(resp *http.Response, m *dragoman.Message) {
	limit := cs.limits.Message()
	body, err := httpclient.ReadAll(resp, limit)
	if errors.Is(err, dragoman.ErrTooLarge) {
		cs.fail(m, fmt.Errorf("%w: an answer of more than %d bytes", err, limit))
		return
	}
	if err != nil {
		cs.fail(m, fmt.Errorf("%w: %w", errNoAnswer, err))
		return
	}
	answer, err := cs.limits.Parse(body)
	switch {
	case len(body) == 0:
		cs.fail(m, errNoAnswer)
	case err != nil:
		cs.fail(m, fmt.Errorf("%w: %w", errNoAnswer, err))
	case answer.Kind() != dragoman.Response || answer.ID().Key() != m.ID().Key() && !answer.IsError():
		cs.fail(m, fmt.Errorf("%w: the body is another message", errNoAnswer))
	default:
		cs.deliver(incoming{data: answer.WithID(m.ID()).Bytes()})
	}
}

// fail ends the call that posted m, if it is a request. An answer that the server
// has refused is replaced by an error, so that the server need not wait.
func (cs *clientStream) fail(m *dragoman.Message, err error) {
	if m != nil && m.Kind() == dragoman.Request {
		cs.deliver(incoming{err: &jsonrpc.BadFrame{Err: err, Call: m.ID()}})
		return
	}
	if cs.ctx.Err() != nil {
		return
	}
	cs.log.Warn("message not taken by the server", "error", err)
	if _, refused := errors.AsType[*protocol.StatusError](err); refused && m != nil && m.Kind() == dragoman.Response && !m.IsError() {
		instead := protocol.Failure(m, err)
		p := cs.newPost(instead)
		defer p.cancel()
		cs.send(p)
	}
}
