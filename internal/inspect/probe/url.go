package probe

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/inspect/check"
	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/target/diagnose"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// The transports behind a URL.
const (
	streamable = "Streamable HTTP"
	httpSSE    = "HTTP+SSE"
	webSocket  = "WebSocket"
)

// url looks at a server behind HTTP or WebSocket.
func (p *prober) url(ctx context.Context) {
	h, err := rawclient.NewHTTP(p.Spec)
	if err != nil {
		p.Verdict = Unreachable
		p.problem("connect", "", "%v", err)
		return
	}
	defer h.Close()
	if scheme := target.Scheme(p.Spec.URL); scheme != "unix" && scheme != "http+unix" && !p.network(ctx, h) {
		return
	}
	p.stage("transports")
	p.Transports = map[string]bool{}
	socket := slices.Contains([]string{"ws", "wss"}, target.Scheme(p.Spec.URL))
	var open opener
	if !socket {
		if open = p.post(ctx, h); p.Verdict != "" {
			return
		}
		if stream := p.httpSSE(ctx, h); open == nil {
			open = stream
		}
	}
	if ws := p.webSocket(ctx, h, socket); open == nil {
		open = ws
	}
	if p.Verdict != "" {
		return
	}
	if open == nil {
		p.problem("transport", p.adviceForNothing(ctx, h), "no transport of MCP answers at this URL")
		return
	}
	p.survey(ctx, open)
	if p.Transports[streamable] {
		p.stage("sessions, and protection from foreign pages")
		p.rules(ctx, h)
	}
}

// post tries Streamable HTTP.
func (p *prober) post(ctx context.Context, h *rawclient.HTTP) opener {
	s := &rawclient.Session{HTTP: h}
	c := p.client(s)
	x := c.Greet(ctx)
	for range 3 {
		if !p.redirected(h, x.HTTP) {
			break
		}
		x = c.Greet(ctx)
	}
	defer p.end(ctx, s)
	r := x.HTTP
	_, signIn := errors.AsType[*oauth.SignInError](r.Err)
	_, refused := errors.AsType[*protocol.StatusError](r.Err)
	switch {
	case signIn, refused, r.Status == http.StatusUnauthorized, r.Status == http.StatusForbidden && r.Header.Get("WWW-Authenticate") != "":
		p.authorization(ctx, h, r)
		return nil
	case r.Status == 0:
		p.Verdict = Unreachable
		p.problem("transport", "look at the server's own log", "POST gets no answer: %s", x.Summary())
		return nil
	case x.Answer == nil && r.Status == http.StatusOK:
		p.Transports[streamable] = false
		p.problem("transport", "answer a request by application/json or text/event-stream, with the response in it", "%s: POST is answered with status 200 and no message (%s)", streamable, describeBody(r))
		return nil
	}
	if x.Answer != nil && r.Status == http.StatusOK && !r.IsJSON() && !r.Stream {
		p.problem("transport", "send Content-Type: application/json, or text/event-stream with events", "an answer has the content type %q, which clients do not read", r.Header.Get("Content-Type"))
	}
	how := "JSON"
	if r.Stream {
		how = "event streams"
	}
	if x.Result() == nil { // it may be of the modern era alone
		modern := p.client(&rawclient.Session{HTTP: h})
		modern.Revision = protocol.Latest
		if modern.Greet(ctx).Result() == nil {
			p.Transports[streamable] = false
			p.refused(streamable, http.MethodPost, r)
			return nil
		}
	}
	p.Transports[streamable] = true
	p.ok("transport", "%s: answers by %s, %v", streamable, how, humanize.Duration(r.Took))
	return h.Open
}

// describeBody says what came in place of a message.
func describeBody(r *rawclient.Reply) string {
	switch {
	case r.Stream:
		return "an event stream without it"
	case len(r.Body) == 0:
		return "no body"
	}
	return "a body of " + r.Header.Get("Content-Type") + ": " + short(r.Body)
}

// redirected goes where a redirect leads if clients do, and reports whether it has.
func (p *prober) redirected(h *rawclient.HTTP, r *rawclient.Reply) bool {
	if r.Status/100 != 3 {
		return false
	}
	to, err := h.At.Parse(r.Header.Get("Location"))
	if err != nil || r.Header.Get("Location") == "" {
		p.problem("redirect", "name where to go in Location", "status %d without a place to go", r.Status)
		return false
	}
	where := redact.URI(to.String())
	keeps := r.Status == http.StatusTemporaryRedirect || r.Status == http.StatusPermanentRedirect
	if !keeps || !httpclient.SameOrigin(to, h.At) {
		why := "to another origin, where clients do not send credentials"
		if !keeps {
			why = "which turns a POST into a GET"
		}
		p.problem("redirect", "use the URL "+where, "status %d to %s, %s", r.Status, where, why)
		return false
	}
	p.note("redirect", "status %d to %s; name that URL to save a request each time", r.Status, where)
	h.At = to
	if target.Scheme(p.Spec.URL) == to.Scheme { // not on a Unix socket
		moved := *p.Spec
		moved.URL = to.String()
		p.Spec = &moved
	}
	return true
}

// refused notes that a transport is not spoken, by how a request of it was answered.
func (p *prober) refused(transport, method string, r *rawclient.Reply) {
	p.Lines = append(p.Lines, Line{Topic: "transport", State: Note, Text: transport + ": no: " + r.Summary(), Advice: adviceFor(method, r.Status)})
}

// adviceFor says in plain words what a status means for MCP, and what to do.
func adviceFor(method string, status int) string {
	switch status {
	case http.StatusNotFound:
		_, advice, _ := diagnose.Explain(&protocol.StatusError{Status: status})
		return advice
	case http.StatusMethodNotAllowed:
		return "the path does not take " + method + ": it may be that of HTTP+SSE, or a page"
	case http.StatusNotAcceptable:
		return "the server refuses Accept: application/json, text/event-stream, which clients must send"
	case http.StatusUnsupportedMediaType:
		return "the server refuses Content-Type: application/json, which clients must send"
	case http.StatusBadRequest:
		return "the server refuses the request as such; its error says why, or its log"
	case http.StatusForbidden:
		return "it is refused to us: an address, a host name or a token may not be allowed there"
	case http.StatusMisdirectedRequest:
		return "the server does not know this host name; check the URL, and its list of allowed hosts"
	case http.StatusTooManyRequests:
		return "too many requests were made; wait, and try again"
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return "a proxy answers, and the server behind it does not"
	case http.StatusInternalServerError:
		return "the server has failed; its log says why"
	}
	return ""
}

// adviceForNothing looks whether the server is somewhere near.
func (p *prober) adviceForNothing(ctx context.Context, h *rawclient.HTTP) string {
	ctx, cancel := context.WithTimeout(ctx, p.Timeout)
	defer cancel()
	for _, path := range []string{"/mcp", "/mcp/", "/"} {
		at := &url.URL{Scheme: h.At.Scheme, Host: h.At.Host, Path: path}
		if at.Path == h.At.Path {
			continue
		}
		x, s := p.client(nil).GreetAs(ctx, h, func(c *rawclient.Call) { c.URL = at })
		if s != nil {
			p.end(ctx, s)
		}
		r := x.HTTP
		if m := rawclient.ReadMessage(r.Body); r.Status == http.StatusOK && (r.Stream || m != nil && m.IsResponse()) || r.Status == http.StatusUnauthorized {
			return "there is a server at " + at.String()
		}
	}
	if s, _, err := h.OpenOld(ctx, &url.URL{Scheme: h.At.Scheme, Host: h.At.Host, Path: "/sse"}); err == nil {
		s.Close()
		return "there is a server of HTTP+SSE at " + h.At.Scheme + "://" + h.At.Host + "/sse"
	}
	return adviceFor(http.MethodPost, http.StatusNotFound)
}

// httpSSE tries HTTP+SSE.
func (p *prober) httpSSE(ctx context.Context, h *rawclient.HTTP) opener {
	limit := p.glance
	if !p.Transports[streamable] {
		limit = p.Timeout
	}
	wait, cancel := context.WithTimeoutCause(ctx, limit, rawclient.ErrSilent)
	defer cancel()
	s, r, err := h.OpenOld(wait, h.At)
	if err == nil {
		s.Close()
		p.Transports[httpSSE] = true
		p.ok("transport", "%s: its endpoint is %s, %v", httpSSE, redact.URI(s.Endpoint.RequestURI()), humanize.Duration(r.Took))
		return func(ctx context.Context) (rawclient.Wire, error) {
			wait, cancel := context.WithTimeoutCause(ctx, p.Timeout, rawclient.ErrSilent)
			defer cancel()
			s, _, err := h.OpenOld(wait, h.At)
			if err != nil {
				return nil, err
			}
			return rawclient.NewLinkWire(s), nil
		}
	}
	p.Transports[httpSSE] = false
	switch {
	case p.Transports[streamable]: // what a GET does there is told below
	case r.Status == http.StatusOK && r.Stream:
		p.problem("transport", "name the endpoint first, on the same origin", "%s: %v", httpSSE, err)
	case r.Status != 0:
		p.refused(httpSSE, http.MethodGet, r)
	default:
		p.note("transport", "%s: no: %v", httpSSE, err)
	}
	return nil
}

// webSocket tries WebSocket.
func (p *prober) webSocket(ctx context.Context, h *rawclient.HTTP, named bool) opener {
	if !named && target.Scheme(p.Spec.URL) != "http" && target.Scheme(p.Spec.URL) != "https" {
		return nil // not on a Unix socket
	}
	limit := p.glance
	if named {
		limit = p.Timeout
	}
	began := time.Now()
	x := rawclient.Upgrade(ctx, p.Spec, limit, nil)
	if x.Err == nil {
		p.Transports[webSocket] = true
		p.ok("transport", "%s: open after %v", webSocket, humanize.Duration(time.Since(began)))
		switch foreign := rawclient.Upgrade(ctx, p.Spec, limit, rawclient.FromForeignOrigin); {
		case foreign.Err == nil:
			p.foreignAccepted(h, "a page of another origin gets a socket")
		case foreign.Refused():
			p.ok("security", "a page of another origin is refused a socket (%d)", foreign.Status())
		default:
			p.note("security", "whether a page of another origin gets a socket is not known: %s", foreign.HTTP.Summary())
		}
		return func(ctx context.Context) (rawclient.Wire, error) {
			wait, cancel := context.WithTimeoutCause(ctx, limit, rawclient.ErrSilent)
			defer cancel()
			socket, _, err := rawclient.DialWebSocket(wait, p.Spec, nil)
			if err != nil {
				return nil, err
			}
			return rawclient.NewLinkWire(socket), nil
		}
	}
	p.Transports[webSocket] = false
	if !named {
		return nil
	}
	p.Verdict = Unreachable
	_, signIn := errors.AsType[*oauth.SignInError](x.Err)
	switch {
	case signIn, x.Status() == http.StatusUnauthorized:
		p.Verdict = Authorization
		p.problem("authorization", "give it a token with -H 'Authorization: Bearer ...' or --server-token-file", "the handshake is refused with status 401")
	case x.Status() != 0:
		p.problem("transport", adviceFor(http.MethodGet, x.Status()), "no socket is opened: %s", x.HTTP.Summary())
	default:
		p.problem("transport", "check the URL", "no socket is opened: %v", x.Err)
	}
	return nil
}

// end ends a session.
func (p *prober) end(ctx context.Context, s *rawclient.Session) *rawclient.Reply {
	if s.ID == "" {
		return nil
	}
	return s.Delete(ctx, p.Timeout).HTTP
}

// shown are the rules of package check that a report on Streamable HTTP shows, with their topics
// and what to do about a server that breaks them.
var shown = []struct{ rule, topic, advice string }{
	{"init-kept", "session", "speak the revision that initialize was answered with, or answer initialize with an error"},
	{"http-accepted", "session", "answer notifications with status 202 and no body"},
	{"http-get", "transport", "send the headers of an event stream immediately, followed by a comment, or answer 405"},
	{"http-stream-end", "transport", "end the stream of a request behind its response"},
	{"http-resume", "resumption", "keep what was sent and bring it at a GET with Last-Event-ID, or give events no ids"},
	{"http-session-id", "session", "make ids of 16 or more random characters"},
	{"http-session-unknown", "session", "answer a session that is not there with status 404: clients start over then, and at no other status"},
	{"http-delete", "session", "answer DELETE with 200 or 204, forget the session and answer 404 from then on; or answer 405 if clients cannot end sessions"},
	{"http-version", "versions", "answer an MCP-Protocol-Version that does not exist with 400"},
	{foreignOrigin, "security", refuseForeign},
	{"http-host", "security", "refuse requests whose Host is not the one that the server listens on: a name that leads to this machine is enough to use the server (DNS rebinding)"},
}

const (
	foreignOrigin = "http-origin"
	refuseForeign = "refuse an Origin that is not yours with 403: else any page that a user visits can use the server (DNS rebinding)"
)

// rules shows what rules of package check say of a server behind Streamable HTTP.
func (p *prober) rules(ctx context.Context, h *rawclient.HTTP) {
	o := &check.Options{Subject: p.Subject}
	for _, s := range shown {
		o.Only = append(o.Only, s.rule)
	}
	r, err := check.Run(ctx, o)
	if err != nil {
		p.problem("session", "it answered before; look at its own log", "another session cannot be begun: %v", err)
		return
	}
	skipped := map[string]bool{}
	for _, s := range shown {
		x := r.Results[slices.IndexFunc(r.Results, func(x check.Result) bool { return x.ID == s.rule })]
		switch {
		case x.State == check.Passed:
			p.ok(s.topic, "%s", x.Requirement)
		case x.State == check.Skipped && !skipped[x.Reason] && (s.topic == "session" || s.topic == "resumption"):
			skipped[x.Reason] = true
			p.note(s.topic, "%s", x.Reason)
		}
		for _, f := range x.Findings {
			if s.rule == foreignOrigin && !h.Local() {
				p.foreignAccepted(h, f.Text)
				continue
			}
			p.problem(s.topic, s.advice, "%s: %s", x.Requirement, f.Text)
		}
	}
}

// foreignAccepted says that pages of other origins can use the server.
func (p *prober) foreignAccepted(h *rawclient.HTTP, what string) {
	if h.Local() {
		p.problem("security", refuseForeign, "%s", what)
		return
	}
	p.note("security", "%s: right for a public server that wants tokens, wrong for any other", what)
}

// authorization finds out what a server wants to know.
func (p *prober) authorization(ctx context.Context, h *rawclient.HTTP, r *rawclient.Reply) {
	p.stage("how to sign in")
	p.Verdict = Authorization
	if r.Status == 0 { // a sign-in of ours kept the answer for itself
		x, _ := p.client(nil).GreetAs(ctx, h, func(c *rawclient.Call) { c.Bare = true })
		r = x.HTTP
	}
	p.note("authorization", "it answers with %s", r.Summary())
	challenge := r.Header.Values("WWW-Authenticate")
	if len(challenge) == 0 {
		p.problem("authorization", "send WWW-Authenticate: Bearer resource_metadata=\"...\" with a 401, so that clients find out how to sign in", "there is no WWW-Authenticate")
	}
	if p.Options.SignIn == nil {
		p.problem("authorization", "give it a token with -H 'Authorization: Bearer ...' or --server-token-file", "the credentials that are configured are not good, or there are none")
		return
	}
	d, err := oauth.Discover(ctx, p.Options.SignIn, r.Header)
	if err != nil {
		p.problem("authorization", "publish metadata as RFC 9728 and RFC 8414 have it; or give it a token with -H 'Authorization: Bearer ...'", "how to sign in cannot be found out: %v", err)
		return
	}
	p.Report.SignIn = d
	if d.Announced == "" && len(challenge) > 0 {
		p.note("authorization", "the challenge names no resource_metadata; it was looked for at the well-known places")
	}
	if d.Resource != "" {
		p.ok("authorization", "tokens are for %s", d.Resource)
	} else {
		p.problem("authorization", "publish protected resource metadata (RFC 9728)", "the server does not say who issues its tokens")
	}
	if d.Guessed { // so nothing is known of how clients register and sign in
		p.problem("authorization", "give it a token with -H 'Authorization: Bearer ...' or --server-token-file; who runs the server can publish metadata (RFC 9728, RFC 8414)",
			"%s publishes nothing of itself, so nobody can tell how to sign in", d.Issuer)
		if p.Login != "" {
			p.Lines = append(p.Lines, Line{Topic: "authorization", State: Note, Text: "a sign-in has to guess its endpoints", Advice: "if it is known to have one, try: " + p.Login})
		}
		return
	}
	p.ok("authorization", "tokens are issued by %s", d.Issuer)
	if d.PKCE {
		p.ok("authorization", "PKCE with S256")
	} else {
		p.problem("authorization", "list S256 in code_challenge_methods_supported: clients must refuse to continue without", "PKCE with S256 is not announced")
	}
	switch {
	case d.Documents && d.Registration:
		p.ok("authorization", "clients register by themselves, or by a client id metadata document")
	case d.Documents:
		p.ok("authorization", "clients register by a client id metadata document")
	case d.Registration:
		p.ok("authorization", "clients register by themselves")
	default:
		p.note("authorization", "clients cannot register: get a client id from its operator, and name it with --client-id")
	}
	if len(d.Scopes) > 0 {
		p.note("authorization", "scopes: %s", strings.Join(d.Scopes, " "))
	}
	if p.Login != "" {
		p.Lines = append(p.Lines, Line{Topic: "authorization", State: Note, Text: "nobody is signed in", Advice: "run: " + p.Login})
	}
}
