package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// SignInOptions are how a Manager signs in to servers.
type SignInOptions struct {
	// Store returns where sign-ins are kept. It is called when a server is configured that
	// may want one, and what it returns is not closed.
	Store func() *oauth.Store

	// Prompt tells the user where to sign in to a server; see [oauth.Config]. If nil,
	// nobody is asked.
	Prompt func(server string, p oauth.Prompt) bool

	// NoBrowser says that Prompt opens no browser; see [oauth.Config]. A server whose grant
	// is configured is signed in to by that all the same.
	NoBrowser bool

	// Timeout is how long a sign-in may take; see [oauth.Config].
	Timeout time.Duration

	// Wait has requests wait for the user. Otherwise they are answered at once by an
	// error that says where to sign in.
	Wait bool

	// Callback, if not nil, returns where the browser of a caller that signs in for itself comes
	// back to, or nil if that is this machine; see [oauth.Config].
	Callback func(server, principal string) *oauth.Callback

	// Command returns the command that signs in to a server, for people.
	Command func(c *config.Server) string
}

// maxSignIns is how many sign-ins one request waits for: one, and one more for a scope
// that it lacks.
const maxSignIns = 2

// eachCaller is the mode of signing in in which each caller has tokens of its own.
const eachCaller = "caller"

// maxCallers is how many callers' tokens are in memory at once.
const maxCallers = 1024

// sources have tokens for a server: the one for everybody, or one for each caller.
type sources struct {
	shared *oauth.Source // nil if we do not sign in, or each caller does

	mu     sync.Mutex
	caller map[string]*oauth.Source
	closed bool
}

// close ends them all.
func (s *sources) close() {
	s.mu.Lock()
	s.closed = true
	list := slices.Collect(maps.Values(s.caller))
	s.mu.Unlock()
	if s.shared != nil {
		list = append(list, s.shared)
	}
	for _, source := range list {
		_ = source.Close() // it has no error
	}
}

// sourceOf returns what has tokens for a request with what is passed on for it, or nil.
func (u *Upstream) sourceOf(p *passed) *oauth.Source {
	s := &u.sources
	if p == nil || p.subject == "" {
		return s.shared
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if source := s.caller[p.subject]; source != nil || s.closed {
		return source
	}
	source, err := u.newSource(p.subject)
	if err != nil {
		return nil // it could be made for nobody, too, which has been told
	}
	if s.caller == nil {
		s.caller = make(map[string]*oauth.Source)
	}
	for subject, other := range s.caller {
		if len(s.caller) < maxCallers {
			break
		}
		delete(s.caller, subject) // what it has is kept in the store
		go func() { _ = other.Close() }()
	}
	s.caller[p.subject] = source
	return source
}

// newSource returns what has tokens for the server, or nil if we do not sign in to it, or
// not for this subject.
func (u *Upstream) newSource(subject string) (*oauth.Source, error) {
	c, o := u.conf.Load(), u.manager.opts.SignIn
	if o == nil || !SignsIn(c) {
		return nil, nil
	}
	conf, err := o.config(c, u.log)
	if err != nil {
		return nil, err
	}
	if conf.Subject = subject; subject != "" {
		conf.Prompt = func(oauth.Prompt) bool { return false } // it is told to the caller alone
		if o.Callback != nil {
			conf.Callback = func() *oauth.Callback { return o.Callback(u.name, subject) }
		}
	}
	conf.Done = u.signedIn
	source, err := oauth.New(conf)
	if err == nil && subject == "" && c.Auth.SignIn == eachCaller {
		return nil, source.Close() // it was made to see whether it can be
	}
	return source, err
}

// config returns how to sign in to a server, with its user asked as the options say.
func (o *SignInOptions) config(c *config.Server, log *slog.Logger) (*oauth.Config, error) {
	conf, err := SignInConfig(c)
	if err != nil {
		return nil, err
	}
	conf.Store, conf.Timeout, conf.Logger = o.Store(), o.Timeout, log
	conf.NoBrowser = o.NoBrowser && c.Auth.Grant == ""
	if o.Prompt != nil {
		conf.Prompt = func(p oauth.Prompt) bool { return o.Prompt(c.Name, p) }
	}
	return conf, nil
}

// SignInConfig returns how to sign in to a server, as its configuration says.
func SignInConfig(c *config.Server) (*oauth.Config, error) {
	to, from := &oauth.Config{Server: c.URL}, &c.Auth
	var err error
	if to.TLS, to.Proxy, err = connectionOf(c, nil); err != nil {
		return nil, err
	}
	if from.Grant != "browser" {
		to.Grant = oauth.Grant(from.Grant)
	}
	to.ClientID, to.ClientSecret, to.ClientAuth = from.ClientID, from.ClientSecret, from.ClientAuth
	to.KeyID, to.Algorithm, to.MetadataURL = from.KeyID, from.Algorithm, from.MetadataURL
	to.Scopes, to.Issuer, to.Resource = from.Scopes, from.Issuer, from.Resource
	if to.NoResource = from.Resource == "none"; to.NoResource {
		to.Resource = ""
	}
	to.CallbackHost, to.CallbackPort, to.CallbackPath = from.CallbackHost, from.CallbackPort, from.CallbackPath
	to.Parameters = make(url.Values)
	for name, value := range from.Parameters {
		to.Parameters.Set(name, value)
	}
	if from.Assertion != "" {
		to.Assertion = func(context.Context) (string, error) {
			text, err := os.ReadFile(from.Assertion)
			return strings.TrimSpace(string(text)), err
		}
	}
	if x := from.Exchange; x.TokenEndpoint != "" {
		to.Exchange = &oauth.Exchange{TokenEndpoint: x.TokenEndpoint, ClientID: x.ClientID, ClientSecret: x.ClientSecret}
	}
	if from.ClientKey != "" {
		key, err := os.ReadFile(from.ClientKey)
		if err != nil {
			return nil, fmt.Errorf("the client's key cannot be read: %w", err)
		}
		to.ClientKey = key
	}
	return to, nil
}

// SignsIn reports whether we sign in to a server if it wants that: it has a URL for
// that, and no other way to be let in is configured.
func SignsIn(c *config.Server) bool {
	return slices.Contains([]string{"http", "https", "ws", "wss"}, target.Scheme(c.URL)) && c.Auth.SignIn != "none" &&
		!hasCredential(c) && !sendsAuthorization(c) && !passesAuthorization(c)
}

// isSignIn reports whether an error says that a sign-in is needed.
func isSignIn(err error) bool {
	e, ok := errors.AsType[*dragoman.Error](err)
	return ok && e.Code == protocol.CodeSignIn
}

// needsSignIn reports whether a request was not sent because a sign-in is needed.
func needsSignIn(resp *dragoman.Message, err error) bool {
	if err != nil {
		return isSignIn(err)
	}
	return resp != nil && resp.IsError() && resp.RPCError().Code == protocol.CodeSignIn
}

// awaitSignIn waits for a sign-in that is in progress, if requests do, and reports whether it
// has come to a good end.
func (u *Upstream) awaitSignIn(ctx context.Context) bool {
	o := u.manager.opts.SignIn
	source := u.sourceOf(u.passedOf(dragoman.CallerOf(ctx)))
	return o != nil && o.Wait && source != nil && source.Await(ctx) == nil
}

// signedIn has the server tried at once: somebody has signed in.
func (u *Upstream) signedIn() {
	s := u.supervisor
	if s == nil {
		return
	}
	s.mu.Lock()
	s.failures, s.signedInAt = 0, time.Now()
	s.breaker.close()
	s.mu.Unlock()
	s.want()
	s.changed.fire()
}

// signInCommand returns the command that signs in to the server, for people.
func (u *Upstream) signInCommand() string {
	if o := u.manager.opts.SignIn; o != nil && o.Command != nil {
		return o.Command(u.conf.Load())
	}
	return "dragoman login URL"
}

// signInHint says what to do about a server that wants a sign-in.
func (u *Upstream) signInHint(err error) string {
	text := "server needs a sign-in: run " + u.signInCommand()
	if e, ok := errors.AsType[*oauth.SignInError](err); ok && e.Reason != nil {
		text += " (" + u.redactError(e.Reason) + ")"
	}
	return text
}

// signInNeeded is the answer while the server wants a sign-in.
func (u *Upstream) signInNeeded(err error) *dragoman.Error {
	text := fmt.Sprintf("server %q: %s", u.name, strings.TrimPrefix(u.signInHint(err), "server "))
	p := u.signInPrompt()
	if p.Code != "" && !u.tellsCode(nil) {
		p = oauth.Prompt{}
	}
	switch {
	case p.Code != "":
		text += ", or open the page in data.url and enter " + p.Code
	case p.URL != "":
		text += ", or open the page in data.url"
	}
	return protocol.SignInNeeded(text, p.URL, p.Code)
}

// errCode is told in place of a code.
var errCode = errors.New("the code to enter is on the standard error of dragoman")

// tellsCode reports whether a request with what is passed on for it may be told the code of
// its sign-in. Anybody who has the code can sign in, anywhere and as anybody: so callers have
// that of a sign-in for everybody only if they are the user's own, who waits for it.
func (u *Upstream) tellsCode(p *passed) bool {
	return u.manager.opts.SignIn.Wait || p != nil && p.subject != ""
}

// hideCode returns the error of a request without a code that is not for its caller.
func (u *Upstream) hideCode(ctx context.Context, err error) error {
	e, ok := errors.AsType[*oauth.SignInError](err)
	if !ok || e.Prompt.Code == "" || u.tellsCode(u.passedOf(dragoman.CallerOf(ctx))) {
		return err
	}
	return &oauth.SignInError{Server: e.Server, Issuer: e.Issuer, Reason: errCode, Advice: e.Advice}
}

// signInAdvised returns the error of a request that needs a sign-in with the command for that,
// unless each caller has to make its own.
func (u *Upstream) signInAdvised(ctx context.Context, e *oauth.SignInError) error {
	if e.Advice != "" {
		return e
	}
	with := *e
	if c := u.conf.Load(); c.Auth.SignIn != eachCaller {
		with.Advice = "or run " + u.signInCommand()
	}
	return u.hideCode(ctx, &with)
}

// signInPrompt returns where to sign in, if a sign-in for everybody is in progress.
func (u *Upstream) signInPrompt() oauth.Prompt {
	if u.sources.shared != nil {
		if p, ok := u.sources.shared.Pending(); ok {
			return p
		}
	}
	return oauth.Prompt{}
}

// What a modern client is asked by, and has to hand back.
const (
	signInKey   = "sign-in"
	signInState = "dragoman:sign-in"
)

// A signInQuestion asks the user of a client to sign in on a page.
type signInQuestion struct {
	Mode    string `json:"mode"`
	Message string `json:"message"`
	URL     string `json:"url"`
	ID      string `json:"elicitationId,omitempty"` // of the legacy era
}

// questionOf returns what to ask the client of a request that was not sent because a sign-in
// is needed; nil if that is not so, or nobody waits for one.
func (u *Upstream) questionOf(resp *dragoman.Message, err error) *signInQuestion {
	if !needsSignIn(resp, err) {
		return nil
	}
	e, ok := errors.AsType[*dragoman.Error](err)
	if !ok {
		e = resp.RPCError()
	}
	var data struct{ URL, Code string }
	_ = json.Unmarshal(e.Data, &data) // without one there is nothing to ask
	if data.URL == "" {
		return nil
	}
	text := fmt.Sprintf("Sign in to use the server %q", u.name)
	if data.Code != "" {
		text += ", and enter " + data.Code + " there"
	}
	return &signInQuestion{Mode: "url", Message: text, URL: data.URL}
}

// elicits reports whether capabilities say that the user can be sent to a page.
func elicits(capabilities json.RawMessage) bool {
	return dragoman.Member(dragoman.Member(capabilities, "elicitation"), "url") != nil
}

// inputRequired asks a modern client by its result. The client sends the request again, with
// its answer.
func (q *signInQuestion) inputRequired(req *dragoman.Message) (*dragoman.Message, error) {
	return req.Reply(map[string]any{
		"resultType":    protocol.ResultInputRequired,
		"inputRequests": map[string]any{signInKey: map[string]any{"method": protocol.MethodElicit, "params": q}},
		"requestState":  signInState,
	})
}

// errDeclined is why a server cannot be used whose caller was asked to sign in.
var errDeclined = errors.New("the user did not agree to sign in")

// afterQuestion takes our question off a request of a modern client that comes back from it, and
// waits for the sign-in that the user has agreed to. Any other request is as it was.
func (u *Upstream) afterQuestion(ctx context.Context, req *dragoman.Message) (*dragoman.Message, error) {
	if string(req.Get("requestState")) != `"`+signInState+`"` {
		return req, nil
	}
	var answer struct{ Action string }
	_ = json.Unmarshal(dragoman.Member(req.Get("inputResponses"), signInKey), &answer) // none is no agreement
	if answer.Action != "accept" {
		return req, &oauth.SignInError{Server: u.name, Reason: errDeclined}
	}
	if source := u.sourceOf(u.passedOf(dragoman.CallerOf(ctx))); source != nil {
		_ = source.Await(ctx) // the request finds out what came of it
	}
	return req.Edit().Drop("requestState", "inputResponses").Message()
}

// ask asks a legacy client within its request, and reports whether its user has signed in.
func (q *signInQuestion) ask(ctx context.Context, from dragoman.Peer, source *oauth.Source) bool {
	q.ID = "dragoman-sign-in"
	question, err := dragoman.NewRequest(dragoman.StringID(q.ID), protocol.MethodElicit, q)
	if err != nil || from == nil || source == nil {
		return false
	}
	resp, err := from.Call(ctx, question, nil)
	if err != nil || resp == nil || resp.IsError() || string(resp.Get("action")) != `"accept"` {
		return false
	}
	return source.Await(ctx) == nil
}
