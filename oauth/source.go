package oauth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/util/fileutil"
)

// maxEarly is how long before its end a token is refreshed. One that lives for less than
// ten times as long is refreshed when a tenth of its life is left.
const maxEarly = time.Minute

// retryEarly is how long a token that is still good is sent as it is after it could not be
// refreshed: an authorization server in trouble holds up one request, not all.
const retryEarly = 10 * time.Second

// rereadTime is how long the store is not read again while its token is good: within that
// a running process notices that somebody else has signed out.
const rereadTime = 10 * time.Second

// A Source has the tokens for one server. Any number of goroutines may use it.
type Source struct {
	conf   Config
	server *url.URL
	key    string // of the files
	who    *oidc.Credentials
	wire   *oidc.Client
	log    *slog.Logger

	ctx    context.Context // ends with Close
	cancel context.CancelFunc

	mu     sync.Mutex
	cached *record   // what the store had last; nil before; never changed
	readAt time.Time // when that was
	signIn *attempt  // in progress, or the last that failed
	failed time.Time // when a token that was still good was not refreshed
	busy   sync.WaitGroup

	accepted   atomic.Pointer[string]    // the last token that the server has taken
	notOffered atomic.Pointer[time.Time] // when the server was last seen to offer no sign-in
}

// New returns the source for a server. Nothing is asked of anybody yet.
func New(c *Config) (*Source, error) {
	server, err := normal(c.Server)
	if err != nil {
		return nil, err
	}
	if err := c.check(); err != nil {
		return nil, err
	}
	who, err := c.credentials()
	if err != nil {
		return nil, err
	}
	s := &Source{conf: *c, server: server, who: who}
	s.key = keyOf(server.String(), c.Subject)
	if s.conf.Store == nil {
		s.conf.Store = NewMemory()
	}
	s.conf.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	s.conf.Name = cmp.Or(c.Name, "Dragoman")
	s.log = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	s.ctx, s.cancel = context.WithCancel(context.Background())
	trusted := []string{}
	for _, at := range []string{c.Issuer, exchangeAt(c.Exchange)} {
		if u, err := url.Parse(at); err == nil && u.Host != "" {
			trusted = append(trusted, u.Host)
		}
	}
	s.wire = oidc.New(&oidc.Options{Network: oidc.Network{TLS: c.TLS, Proxy: c.Proxy}, Server: server, Trusted: trusted})
	return s, nil
}

func exchangeAt(e *Exchange) string {
	if e == nil {
		return ""
	}
	return e.TokenEndpoint
}

// Close gives up a sign-in that is in progress. What is kept stays.
func (s *Source) Close() error {
	s.cancel()
	s.busy.Wait()
	s.wire.Close()
	return nil
}

// load reads what is kept of the sign-in.
func (s *Source) load() (*record, error) {
	r := &record{}
	ok, err := s.conf.Store.read(s.key+recordFile, r)
	if err != nil {
		return nil, err
	}
	if !ok {
		r = &record{}
	}
	r.Server, r.Subject = s.server.String(), s.conf.Subject
	if s.conf.ClientID != "" && r.Client != s.conf.ClientID {
		r.forget() // another client's tokens
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cached, s.readAt = r, time.Now()
	copied := *r
	return &copied, nil
}

// save keeps a sign-in. The caller has its lock.
func (s *Source) save(r *record) error {
	copied := *r
	if err := s.conf.Store.write(s.key+recordFile, &copied); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cached, s.readAt = &copied, time.Now()
	return nil
}

// lock keeps all others from changing what is kept, and returns that.
func (s *Source) lock(ctx context.Context) (r *record, unlock func(), err error) {
	unlock, err = s.conf.Store.lock(ctx, s.key+recordLock)
	if err != nil {
		return nil, nil, err
	}
	if r, err = s.load(); err != nil {
		unlock()
		return nil, nil, err
	}
	return r, unlock, nil
}

// update changes what is kept.
func (s *Source) update(ctx context.Context, change func(*record)) error {
	r, unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	change(r)
	return s.save(r)
}

// forget drops the tokens.
func (r *record) forget() {
	r.Client, r.Access, r.Refresh, r.Scope, r.Asked, r.User = "", "", "", "", "", ""
	r.Expires, r.Obtained = time.Time{}, time.Time{}
}

// fresh reports whether the token of a record can be sent for some time.
func (r *record) fresh(now time.Time) bool {
	if r.Access == "" {
		return false
	}
	early := max(0, min(maxEarly, r.Expires.Sub(r.Obtained)/10)) // the clock may have been wrong
	return r.Expires.IsZero() || now.Before(r.Expires.Add(-early))
}

// valid reports whether the token of a record can be sent now.
func (r *record) valid(now time.Time) bool {
	return r.Access != "" && (r.Expires.IsZero() || now.Before(r.Expires))
}

// good reports whether the token of a record is sent as it is.
func (s *Source) good(r *record) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return r.fresh(now) || r.valid(now) && now.Sub(s.failed) < retryEarly
}

// known returns what the store had last, or nil if that cannot be used as it is. It has one
// request every rereadTime read again what others may have done since.
func (s *Source) known() (r *record, again bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if r = s.cached; r == nil || !r.fresh(now) && (r.Access != "" || r.Refresh != "") {
		return nil, true
	}
	if again = now.Sub(s.readAt) >= rereadTime; again {
		s.readAt = now
	}
	return r, again // a server that wants more than nothing says so
}

// token returns the token to send, or "" if there is none. It refreshes one that is at its
// end.
func (s *Source) token(ctx context.Context) (string, error) {
	last, again := s.known()
	if !again {
		return last.Access, nil
	}
	r, err := s.load() // another process may have a newer one, or none any more
	if err != nil && last != nil {
		return last.Access, nil //nolint:nilerr // a store in trouble costs no good token
	}
	if err != nil {
		return "", err
	}
	if s.good(r) || r.AS == nil {
		return r.Access, nil
	}
	r, unlock, err := s.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if s.good(r) { // by somebody else, meanwhile
		return r.Access, nil
	}
	switch err := s.renew(ctx, r, cmp.Or(r.Asked, s.scope(r, nil))); {
	case err == nil:
		return r.Access, nil
	case r.valid(time.Now()):
		s.log.Debug("the token is not refreshed yet", "server", s.server.Host, "error", err)
		s.mu.Lock()
		s.failed = time.Now()
		s.mu.Unlock()
		return r.Access, nil // it is still good
	case errors.Is(err, errSignIn):
		return "", nil // the server says what it wants
	default:
		return "", err
	}
}

// ErrNotOffered is what a sign-in ends with at a server that has none. Such a server may
// need no token, or one that its users get elsewhere.
var ErrNotOffered = errors.New("the server offers no sign-in")

// ErrNoAnswer says that the server, or the one that issues its tokens, was not reached or did
// not answer in time.
var ErrNoAnswer = oidc.ErrNoAnswer

// errSignIn says that there are no tokens without a sign-in.
var errSignIn = errors.New("oauth: sign-in needed")

// renew gets new tokens without asking anybody. The caller has the lock of the record,
// which is kept. The error is errSignIn if it cannot be done so. scope is what to ask for
// where that is asked for again.
func (s *Source) renew(ctx context.Context, r *record, scope string) error {
	if r.AS == nil {
		return errSignIn
	}
	ctx = context.WithoutCancel(ctx) // a token that was rotated must be kept even if nobody waits for it any more
	switch s.conf.Grant {
	case ClientCredentials:
		return s.obtain(ctx, r, s.who, url.Values{"grant_type": {"client_credentials"}}, scope)
	case JWTBearer:
		return s.bearer(ctx, r, scope)
	}
	who := s.client(r)
	if r.Refresh == "" || who == nil {
		return errSignIn
	}
	old := r.Refresh
	err := s.obtain(ctx, r, who, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {old}}, "")
	if e, ok := errors.AsType[*oidc.Error](err); ok && !e.Temporary() && e.Code != "slow_down" {
		s.log.Info("a refresh token is not accepted any more", "server", s.server.Host, "error", e)
		r.Refresh = ""
		if saved := s.save(r); saved != nil {
			return saved
		}
		return errSignIn
	}
	return err
}

// obtain asks the token endpoint, and keeps what it gives.
func (s *Source) obtain(ctx context.Context, r *record, who *oidc.Credentials, form url.Values, scope string) error {
	if scope != "" {
		form.Set("scope", scope)
	}
	if r.Resource != "" {
		form.Set("resource", r.Resource)
	}
	t, err := s.wire.Token(ctx, r.AS, who, form)
	if err != nil {
		return err
	}
	s.log.Debug("there is a new token", "server", s.server.Host, "grant", form.Get("grant_type"), "expires", t.Expires)
	r.Client, r.Access, r.Expires, r.Obtained = who.ID, t.Access, t.Expires, time.Now()
	if t.Refresh != "" {
		r.Refresh = t.Refresh // else the old one stays good
	}
	if scope != "" {
		r.Asked = scope
	}
	r.Scope = cmp.Or(t.Scope, scope, r.Scope)
	r.User = cmp.Or(nameOf(t.ID), r.User)
	return s.save(r)
}

// bearer exchanges an assertion for a token.
func (s *Source) bearer(ctx context.Context, r *record, scope string) error {
	assertion, err := s.conf.Assertion(ctx)
	if err != nil {
		return fmt.Errorf("oauth: there is no assertion: %w", err)
	}
	if x := s.conf.Exchange; x != nil {
		t, err := s.wire.Token(ctx, &oidc.Metadata{TokenEndpoint: x.TokenEndpoint, TokenAuthMethods: []string{"client_secret_post", "client_secret_basic", "none"}},
			&oidc.Credentials{ID: x.ClientID, Secret: x.ClientSecret}, url.Values{
				"grant_type":           {"urn:ietf:params:oauth:grant-type:token-exchange"},
				"requested_token_type": {"urn:ietf:params:oauth:token-type:id-jag"},
				"subject_token":        {assertion},
				"subject_token_type":   {"urn:ietf:params:oauth:token-type:id_token"},
				"audience":             {r.AS.Issuer},
				"resource":             {cmp.Or(r.Resource, s.server.String())},
			})
		if err != nil {
			return fmt.Errorf("oauth: the identity provider does not exchange the token: %w", err)
		}
		assertion = t.Access
	}
	return s.obtain(ctx, r, s.who, url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:jwt-bearer"}, "assertion": {assertion}}, scope)
}

// client returns who we are at the authorization server of a record, or nil if we do not
// know yet, or not any more: files can be deleted at any time.
func (s *Source) client(r *record) *oidc.Credentials {
	switch {
	case r.AS == nil:
		return nil
	case s.conf.ClientID != "":
		return s.who
	case s.conf.MetadataURL != "" && r.AS.ClientIDDocuments:
		return &oidc.Credentials{ID: s.conf.MetadataURL, Method: "none"}
	}
	c := r.Clients[r.AS.Issuer]
	if c == nil || !c.Expires.IsZero() && time.Now().After(c.Expires) {
		return nil
	}
	return &oidc.Credentials{ID: c.ID, Secret: c.Secret, Method: c.Method, SecretExpires: c.Expires}
}

// scope returns what to ask for: what is configured, or what the server wants now, or
// what it publishes.
func (s *Source) scope(r *record, ch *oidc.Challenge) string {
	var list []string
	switch {
	case len(s.conf.Scopes) > 0:
		list = slices.Clone(s.conf.Scopes)
		if ch != nil && ch.Error == insufficientScope {
			list = join(list, strings.Fields(ch.Scope))
		}
	case ch != nil && ch.Scope != "":
		list = strings.Fields(ch.Scope)
		if ch.Error == insufficientScope {
			list = join(strings.Fields(cmp.Or(r.Asked, r.Scope)), list)
		}
	default:
		list = slices.Clone(r.Scopes)
	}
	if s.conf.Grant == AuthorizationCode || s.conf.Grant == DeviceCode {
		if len(s.conf.Scopes) == 0 && r.AS != nil && slices.Contains(r.AS.ScopesSupported, offlineAccess) {
			list = join(list, []string{offlineAccess})
		}
	}
	return strings.Join(list, " ")
}

const (
	insufficientScope = "insufficient_scope"
	offlineAccess     = "offline_access"
)

// join returns what is in either list.
func join(a, b []string) []string {
	for _, x := range b {
		if !slices.Contains(a, x) {
			a = append(a, x)
		}
	}
	return a
}

// covers reports whether all of the scopes in want are in have.
func covers(have, want string) bool {
	list := strings.Fields(have)
	return !slices.ContainsFunc(strings.Fields(want), func(x string) bool { return !slices.Contains(list, x) })
}

// answer gets a token for a server that has refused used by a challenge. It returns "" if
// there is nothing that could be tried.
func (s *Source) answer(ctx context.Context, used string, ch *oidc.Challenge) (string, error) {
	if last := s.notOffered.Load(); last != nil && time.Since(*last) < coolDown {
		return "", nil
	}
	r, scope, err := s.prepare(ctx, used, ch)
	switch {
	case err != nil || scope == nil:
		return r.Access, err
	case s.conf.Prompt == nil && r.Guessed && s.client(r) == nil:
		return "", nil
	case s.conf.Prompt == nil:
		return "", s.signInError(Prompt{}, nil)
	}
	err = s.await(ctx, s.begin(r, *scope, false))
	if errors.Is(err, ErrNotOffered) {
		s.notOffered.Store(new(time.Now()))
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if r, err = s.load(); err != nil {
		return "", err
	}
	return r.Access, nil
}

// prepare finds out who issues tokens, and gets one if that can be done without asking
// anybody. Otherwise it returns the scope to ask for.
func (s *Source) prepare(ctx context.Context, used string, ch *oidc.Challenge) (_ *record, scope *string, err error) {
	none := &record{}
	r, unlock, err := s.lock(ctx)
	if err != nil {
		return none, nil, err
	}
	defer unlock()
	stepUp := ch != nil && ch.Error == insufficientScope
	if r.Access != used && r.valid(time.Now()) && (!stepUp || covers(r.Scope, ch.Scope)) {
		return r, nil, nil // somebody else has got one meanwhile
	}
	if err := s.discover(ctx, r, ch); err != nil {
		return none, nil, undiscovered{err}
	}
	want := s.scope(r, ch)
	if stepUp && used != "" && r.Access == used && r.Asked != "" && covers(r.Asked, want) {
		return none, nil, nil // it was asked for, and not granted
	}
	if err := s.save(r); err != nil {
		return none, nil, err
	}
	if stepUp && s.interactive() {
		return r, &want, nil
	}
	err = s.renew(ctx, r, want)
	if errors.Is(err, errSignIn) {
		return r, &want, s.checkNew(r, used)
	}
	if err != nil {
		return none, nil, err
	}
	return r, nil, nil
}

// checkNew returns an error if a server has refused a token that it has never taken, and
// that somebody has just signed in for: another one would be refused, too, and windows would
// open forever.
func (s *Source) checkNew(r *record, used string) error {
	accepted := s.accepted.Load()
	if used == "" || r.Access != used || accepted != nil && *accepted == used || time.Since(r.Obtained) > s.conf.Timeout+coolDown {
		return nil
	}
	return s.signInError(Prompt{}, errors.New("it does not accept the token of the last sign-in; sign in by hand if it should"))
}

// interactive reports whether tokens are had by asking somebody.
func (s *Source) interactive() bool {
	return s.conf.Grant == AuthorizationCode || s.conf.Grant == DeviceCode
}

// discover finds out who issues tokens for the server. Tokens of another issuer are
// forgotten: they must not get there.
func (s *Source) discover(ctx context.Context, r *record, ch *oidc.Challenge) error {
	d, err := s.wire.Discover(ctx, ch, &oidc.DiscoverOptions{Issuer: s.conf.Issuer, Resource: s.conf.Resource})
	if err != nil {
		return fmt.Errorf("oauth: how to sign in at %s cannot be found out: %w", s.server.Host, err)
	}
	if r.AS != nil && r.AS.Issuer != d.Server.Issuer {
		s.log.Info("the server has another authorization server now", "server", s.server.Host, "issuer", d.Server.Issuer)
		r.forget()
	}
	r.Guessed = d.Fallback
	r.AS, r.Scopes, r.Resource = d.Server, d.Scopes, cmp.Or(s.conf.Resource, d.Resource)
	if s.conf.NoResource {
		r.Resource = ""
	}
	return nil
}

func (s *Source) signInError(p Prompt, reason error) *SignInError {
	e := &SignInError{Server: s.server.Host, Prompt: p, Reason: reason}
	if r, err := s.load(); err == nil && r.AS != nil {
		e.Issuer = r.AS.Issuer
	}
	return e
}

// SignIn signs in, even if there are tokens, and waits until that is done. Those of the
// old sign-in are good until then.
func (s *Source) SignIn(ctx context.Context) error {
	r, unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	ch := s.challenge(ctx)
	err = s.discover(ctx, r, ch)
	if err == nil {
		err = s.save(r)
	}
	if err == nil && !s.interactive() {
		err = s.renew(ctx, r, s.scope(r, ch))
		unlock()
		return err
	}
	unlock()
	if err != nil {
		return err
	}
	if s.conf.Prompt == nil {
		return s.signInError(Prompt{}, errors.New("nobody can be asked"))
	}
	a := s.begin(r, s.scope(r, ch), true)
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// SignOut revokes the tokens, as far as the authorization server lets us, and forgets them.
// It reports whether there were any. An error of the authorization server is returned after
// they have been forgotten here.
func (s *Source) SignOut(ctx context.Context) (bool, error) {
	r, unlock, err := s.lock(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	had := r.Access != "" || r.Refresh != ""
	var failed error
	if who := s.client(r); who != nil && r.AS.RevocationEndpoint != "" {
		if r.Refresh != "" {
			failed = s.wire.Revoke(ctx, r.AS, who, r.Refresh, "refresh_token")
		}
		if r.Access != "" {
			failed = errors.Join(failed, s.wire.Revoke(ctx, r.AS, who, r.Access, "access_token"))
		}
	}
	r.forget()
	if err := errors.Join(s.save(r), s.conf.Store.remove(s.key+pendingFile)); err != nil {
		return had, err
	}
	if failed != nil {
		return had, fmt.Errorf("oauth: the tokens are forgotten here, but may not be revoked: %w", failed)
	}
	return had, nil
}

// Token returns a token for the server, to be used by somebody else. It refreshes one that
// is at its end, and asks nobody.
func (s *Source) Token(ctx context.Context) (string, error) {
	token, err := s.token(ctx)
	if err == nil && token == "" {
		err = s.signInError(Prompt{}, nil)
	}
	return token, err
}

// Pending returns where to sign in, if a sign-in is in progress in any process.
func (s *Source) Pending() (Prompt, bool) {
	var p pending
	ok, err := s.conf.Store.read(s.key+pendingFile, &p)
	if err != nil || !ok || p.Failed != "" || time.Now().After(p.Prompt.Expires) {
		return Prompt{}, false
	}
	unlock, err := s.conf.Store.tryLock(s.key + signInLock)
	if err == nil {
		unlock() // nobody waits there
	}
	return p.Prompt, errors.Is(err, fileutil.ErrLocked)
}
