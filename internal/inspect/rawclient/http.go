package rawclient

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/target/diagnose"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/sse"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// An HTTP is a server behind an http or https URL, or HTTP on a Unix socket.
type HTTP struct {
	At *url.URL

	header       http.Header
	signed, bare *httpclient.Client
	lingers      atomic.Bool // streams of requests do not end with their answers
}

// NewHTTP returns the server that a Spec names. Nothing is dialled. The caller closes it.
func NewHTTP(s *target.Spec) (*HTTP, error) {
	o := &httpclient.ClientOptions{URL: s.URL, Schemes: []string{"http", "https", "ws", "wss"}, UnixPath: "/mcp", TLS: s.TLS, Proxy: s.Proxy, Wrap: s.Wrap}
	if path, ok := strings.CutPrefix(s.URL, "http+unix:"); ok {
		o.URL = "unix://" + path
	}
	h := &HTTP{header: s.Header}
	var err error
	if h.signed, err = httpclient.NewClient("raw", o); err != nil {
		return nil, err
	}
	o.Wrap = nil
	if h.bare, err = httpclient.NewClient("raw", o); err != nil {
		return nil, err
	}
	for _, c := range []*httpclient.Client{h.signed, h.bare} {
		c.HTTP.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		c.Acquire()
	}
	at := *h.signed.URL
	at.Scheme = strings.Replace(at.Scheme, "ws", "http", 1)
	h.At = &at
	return h, nil
}

// Explain returns why a connection has failed, and what to do about it, if that is known.
func (h *HTTP) Explain(err error) (reason, advice string, known bool) {
	return diagnose.Explain(h.signed.Explained(err, h.At))
}

// Close closes its connections.
func (h *HTTP) Close() {
	h.signed.Release()
	h.bare.Release()
}

// A Call is one request over HTTP.
type Call struct {
	Method string
	URL    *url.URL // nil means that of the server
	Header Object   // strings; the empty one removes a header
	Host   string   // if not the URL's
	Body   []byte
	Bare   bool // without the credentials of a sign-in

	// Until reports whether an event is the last one of interest; then it is seen whether the
	// server ends the stream. Nil means that each may be.
	Until func(*sse.Event) bool

	// Enough reports whether nothing more of a stream is of interest, not even its end. Nil
	// means that it never is.
	Enough func(*Reply) bool

	// Patience is how long the next event of a stream is waited for; zero means as long as the
	// context lasts.
	Patience time.Duration
}

// A Reply is what HTTP answered.
type Reply struct {
	Request string // in a line, for people
	Status  int    // 0 if there was no answer
	Header  http.Header
	Body    []byte // of what is no event stream
	Stream  bool   // it is an event stream
	Events  []*sse.Event
	Ended   bool // the server has ended the stream
	Err     error
	Took    time.Duration // to the headers
}

// Exchange returns the reply as an exchange of which HTTP alone matters.
func (r *Reply) Exchange() *Exchange { return &Exchange{HTTP: r, Err: r.Err} }

// Type returns the media type.
func (r *Reply) Type() string { return httpframe.MediaType(r.Header) }

// IsJSON reports whether the body is said to be JSON.
func (r *Reply) IsJSON() bool { return r.Type() == "application/json" }

// Summary describes the response in a few words.
func (r *Reply) Summary() string {
	if r.Status == 0 {
		return redact.Printable(redact.Text(fmt.Sprint(r.Err)), "")
	}
	text := fmt.Sprintf("status %d (%s)", r.Status, strings.ToLower(http.StatusText(r.Status)))
	if m := ReadMessage(r.Body); m != nil && m.Error != nil {
		text += fmt.Sprintf(", error %d: %s", m.Error.Code, m.Error.Message)
	} else if kind := r.Type(); kind == "text/plain" && len(r.Body) > 0 {
		line, _, _ := strings.Cut(strings.TrimSpace(string(r.Body)), "\n")
		text += ": " + line[:min(len(line), 120)]
	} else if kind != "" && kind != "application/json" {
		text += " with " + kind
	}
	return redact.Printable(redact.Text(text), "")
}

// request makes the request of a call, with the headers that are configured.
func (h *HTTP) request(ctx context.Context, c *Call, at *url.URL) (*http.Request, error) {
	var body io.Reader
	if c.Body != nil {
		body = bytes.NewReader(c.Body)
	}
	req, err := http.NewRequestWithContext(ctx, c.Method, at.String(), body)
	if err != nil {
		return nil, httpclient.WithoutURL(err)
	}
	req.Header, req.Host = c.headers(h.header)
	return req, nil
}

// headers returns the headers of a call and its host, which is empty if it is the URL's, where
// those that are configured are given.
func (c *Call) headers(configured http.Header) (all http.Header, host string) {
	all = make(http.Header)
	for name, values := range configured {
		all[http.CanonicalHeaderKey(name)] = values
	}
	host = cmp.Or(c.Host, all.Get("Host"))
	for name, value := range c.Header {
		if text, _ := value.(string); text != "" {
			all.Set(name, text)
		} else {
			all.Del(name)
		}
	}
	return all, host
}

// Do makes a request.
func (h *HTTP) Do(ctx context.Context, c *Call) *Reply {
	at := cmp.Or(c.URL, h.At)
	r := &Reply{Request: c.describe(at)}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	req, err := h.request(ctx, c, at)
	if err != nil {
		r.Err = err
		return r
	}
	client := h.signed
	if c.Bare {
		client = h.bare
	}
	began := time.Now()
	resp, err := client.HTTP.Do(req)
	r.Took = time.Since(began)
	if err != nil {
		r.Err = cause(ctx, httpclient.WithoutURL(err))
		return r
	}
	defer resp.Body.Close()
	r.Status, r.Header = resp.StatusCode, resp.Header
	if r.Stream = r.Type() == sse.ContentType; r.Stream {
		h.readStream(ctx, cancel, resp.Body, c, r)
		return r
	}
	r.Body, err = httpclient.ReadAll(resp, dragoman.DefaultMaxMessage)
	r.Err = cause(ctx, err)
	return r
}

// cause returns why a context ended if it has, or else err.
func cause(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// describe returns the request in a line.
func (c *Call) describe(at *url.URL) string {
	line := c.Method + " " + redact.URI(at.RequestURI())
	for _, name := range []string{"Origin", protocol.HeaderVersion, protocol.HeaderMethod, protocol.HeaderSession, protocol.HeaderLastEventID, "Accept", "Content-Type"} {
		value, _ := c.Header[name].(string)
		if name == protocol.HeaderSession && value != "" {
			value = value[:min(len(value), 4)] + "…" // who knows it all can use the session
		}
		if value != "" {
			line += ", " + name + ": " + value
		}
	}
	if c.Host != "" {
		line += ", Host: " + c.Host
	}
	return line
}

// errQuiet ends the wait for the next event.
var errQuiet = errors.New("nothing more came")

// readStream reads events as long as they are of interest.
func (h *HTTP) readStream(ctx context.Context, cancel context.CancelCauseFunc, body io.Reader, c *Call, r *Reply) {
	events := sse.NewReader(body, dragoman.DefaultMaxMessage)
	patience, last := c.Patience, false
	var spent budget
	for c.Enough == nil || !c.Enough(r) {
		var timer *time.Timer
		if patience > 0 {
			timer = time.AfterFunc(patience, func() { cancel(errQuiet) })
		}
		e, err := events.Next()
		if timer != nil {
			timer.Stop()
		}
		switch {
		case errors.Is(err, io.EOF):
			r.Ended = true
			return
		case err != nil:
			if r.Err = cause(ctx, err); errors.Is(r.Err, errQuiet) {
				r.Err = nil
				h.lingers.CompareAndSwap(false, last)
			}
			return
		}
		if !spent.spend(e.Data) {
			r.Err = ErrFlood
			return
		}
		r.Events = append(r.Events, e)
		if c.Until != nil && c.Until(e) {
			if last, patience = true, quiet; h.lingers.Load() { // to see whether the server ends it
				patience = brief
			}
		}
	}
}

// HeadersOnly has no event of a stream looked at.
func HeadersOnly(*Reply) bool { return true }

// HasAnswer reports whether the last event carries a response.
func HasAnswer(r *Reply) bool {
	if len(r.Events) == 0 {
		return false
	}
	m := ReadMessage(r.Events[len(r.Events)-1].Data)
	return m != nil && m.IsResponse()
}

// Open opens a conversation by Streamable HTTP, which is a *Session. Nothing is sent.
func (h *HTTP) Open(context.Context) (Wire, error) { return &Session{HTTP: h}, nil }

// A Session is the Wire of Streamable HTTP: each message is a POST.
type Session struct {
	*HTTP

	// ID is the session's, once the server has given one; guarded by mu while several requests are
	// in progress. Version is sent as the protocol version of a session.
	ID, Version string

	// Override replaces headers of all requests; the empty string removes one.
	Override Object

	mu sync.Mutex
}

// Close implements Wire. The session is left to expire.
func (s *Session) Close() {}

// Loose implements Wire.
func (s *Session) Loose() []*Message { return nil }

// Notify implements Wire.
func (s *Session) Notify(ctx context.Context, text []byte) *Exchange {
	return s.Exchange(ctx, Request{Text: text})
}

// All implements Wire.
func (s *Session) All(ctx context.Context, list []Request) []*Exchange {
	answers := make([]*Exchange, len(list))
	var wg sync.WaitGroup
	for i := range list {
		wg.Go(func() { answers[i] = s.Exchange(ctx, list[i]) })
	}
	wg.Wait()
	return answers
}

// Headers returns those of a POST with that body.
func (s *Session) Headers(text []byte) Object {
	h := Object{"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
	s.mu.Lock()
	if s.ID != "" {
		h[protocol.HeaderSession] = s.ID
	}
	s.mu.Unlock()
	if s.Version != "" {
		h[protocol.HeaderVersion] = s.Version
	}
	if m, err := dragoman.Parse(text); err == nil && protocol.IsModern(m) {
		h[protocol.HeaderVersion] = m.MetaText(protocol.MetaProtocolVersion)
		h[protocol.HeaderMethod] = m.Method()
		if name, ok := httpframe.MirrorName(m); ok {
			h[protocol.HeaderName] = httpframe.EncodeHeaderValue(name)
		}
		delete(h, protocol.HeaderSession)
	}
	for name, value := range s.Override {
		h[name] = value
	}
	return h
}

// Exchange implements Wire.
func (s *Session) Exchange(ctx context.Context, req Request) *Exchange {
	text, id := req.Text, req.ID
	x := &Exchange{Sent: text}
	began := time.Now()
	defer func() { x.Took = time.Since(began) }()
	call := &Call{Method: http.MethodPost, Body: text, Header: s.Headers(text)}
	if id == nil {
		call.Patience = quiet
	}
	if req.First {
		call.Enough = func(r *Reply) bool {
			return slices.ContainsFunc(r.Events, func(e *sse.Event) bool { return ReadMessage(e.Data) != nil })
		}
	}
	answers := 0
	call.Until = func(e *sse.Event) bool {
		m := ReadMessage(e.Data)
		if m != nil && m.IsRequest() && !req.First && answers < maxAnswers {
			answers++
			answer := AnswerTo(m)
			s.Do(ctx, &Call{Method: http.MethodPost, Body: answer, Header: s.Headers(answer)})
		}
		return m != nil && m.IsResponse() && (id == nil || m.Is(id))
	}
	r := s.Do(ctx, call)
	x.HTTP, x.Err = r, r.Err
	texts := [][]byte{r.Body}
	if r.Stream {
		texts = nil
		for _, e := range r.Events {
			if len(e.Data) > 0 {
				texts = append(texts, e.Data)
			}
		}
	}
	for _, text := range texts {
		m := ReadMessage(text)
		if m == nil {
			continue
		}
		x.Got = append(x.Got, m)
		if m.IsResponse() && (x.Answer == nil || x.Misnamed) {
			x.Answer, x.Misnamed = m, id != nil && !m.Is(id)
		}
	}
	if x.Answer == nil && x.Err == nil && id != nil {
		x.Err = fmt.Errorf("no answer in %s", r.Summary())
	}
	if given := r.Header.Get(protocol.HeaderSession); given != "" && x.Result() != nil && !bytes.Contains(text, []byte(protocol.MetaProtocolVersion)) {
		s.mu.Lock()
		s.ID = cmp.Or(s.ID, given)
		s.mu.Unlock()
	}
	s.mu.Lock()
	x.Session = s.ID
	s.mu.Unlock()
	return x
}

// OldSession is the Link of HTTP+SSE: an event stream, and a POST for each message.
type OldSession struct {
	h        *HTTP
	cancel   context.CancelFunc
	body     io.Closer
	events   *sse.Reader
	Endpoint *url.URL
	First    *sse.Event // the event that names the endpoint
	Opened   *Reply     // what the request for the stream was answered with
	strange  atomic.Pointer[string]
}

// Strange returns an event that carried a message under another name, or "".
func (s *OldSession) Strange() string {
	if name := s.strange.Load(); name != nil {
		return *name
	}
	return ""
}

// OpenOld opens the event stream of HTTP+SSE at a URL, and waits for the endpoint. The Reply is
// what HTTP answered.
func (h *HTTP) OpenOld(ctx context.Context, at *url.URL) (*OldSession, *Reply, error) {
	call := oldCall()
	r := &Reply{Request: call.describe(at)}
	life, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, cancel) // until the endpoint is there
	req, err := h.request(life, call, at)
	if err != nil {
		cancel()
		return nil, r, err
	}
	began := time.Now()
	resp, err := h.signed.HTTP.Do(req) //nolint:bodyclose // Close does
	r.Took = time.Since(began)
	if err != nil {
		cancel()
		r.Err = cause(ctx, httpclient.WithoutURL(err))
		return nil, r, r.Err
	}
	s := &OldSession{h: h, cancel: cancel, body: resp.Body, Opened: r}
	r.Status, r.Header, r.Stream = resp.StatusCode, resp.Header, httpframe.MediaType(resp.Header) == sse.ContentType
	if r.Status != http.StatusOK || !r.Stream {
		r.Body, _ = io.ReadAll(io.LimitReader(resp.Body, httpclient.MaxErrorBody)) // what can be had of it
		s.Close()
		return nil, r, errors.New(r.Summary())
	}
	s.events = sse.NewReader(resp.Body, dragoman.DefaultMaxMessage)
	s.First, err = s.events.Next()
	if err != nil {
		s.Close()
		r.Err = cause(ctx, err)
		return nil, r, r.Err
	}
	r.Events = append(r.Events, s.First)
	if s.Endpoint, err = at.Parse(strings.TrimSpace(string(s.First.Data))); err != nil || s.First.Name != "endpoint" {
		s.Close()
		return nil, r, fmt.Errorf("its first event is %q and not endpoint", cmp.Or(s.First.Name, "message"))
	}
	if !httpclient.SameOrigin(s.Endpoint, at) { // our credentials must not go there
		s.Close()
		return nil, r, fmt.Errorf("its endpoint is on another origin, %s://%s, which clients refuse", s.Endpoint.Scheme, s.Endpoint.Host)
	}
	stop()
	return s, r, nil
}

// oldCall is the request for the event stream of HTTP+SSE.
func oldCall() *Call { return &Call{Method: http.MethodGet, Header: Object{"Accept": sse.ContentType}} }

// GlanceOld asks for the event stream of HTTP+SSE, but for what is changed, and reads no event of it.
func (h *HTTP) GlanceOld(ctx context.Context, limit time.Duration, change func(*Call)) *Exchange {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, ErrSilent)
	defer cancel()
	call := oldCall()
	call.Enough = HeadersOnly
	change(call)
	return h.Do(ctx, call).Exchange()
}

// Send implements Link.
func (s *OldSession) Send(ctx context.Context, text []byte) error {
	r := s.Post(ctx, text, nil)
	switch {
	case r.Err != nil:
		return r.Err
	case r.Status/100 != 2:
		return &PostError{r}
	}
	return nil
}

// Post posts a message, but for what is changed, which may be nil.
func (s *OldSession) Post(ctx context.Context, text []byte, change func(*Call)) *Reply {
	call := &Call{Method: http.MethodPost, URL: s.Endpoint, Body: text, Header: Object{"Content-Type": "application/json"}, Enough: HeadersOnly}
	if change != nil {
		change(call)
	}
	return s.h.Do(ctx, call)
}

// A PostError says that a message was refused as it was posted.
type PostError struct{ Reply *Reply }

// Error implements error.
func (e *PostError) Error() string { return e.Reply.Summary() }

// Receive implements Link.
func (s *OldSession) Receive() ([]byte, error) {
	for {
		e, err := s.events.Next()
		if err != nil {
			return nil, err
		}
		if e.HasMessage() {
			return e.Data, nil
		}
		if ReadMessage(e.Data) != nil {
			s.strange.Store(&e.Name)
		}
	}
}

// Close implements Link.
func (s *OldSession) Close() {
	s.cancel()
	_ = s.body.Close() // it is not read any more
}
