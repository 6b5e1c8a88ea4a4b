package oauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/util/fileutil"
)

const (
	// turnWait is how often we look what has become of a sign-in that another process
	// waits for.
	turnWait = 200 * time.Millisecond

	// coolDown is how long nobody is asked again after a sign-in has failed, unless by
	// SignIn: hosts start us again and again, and each time would open a window.
	coolDown = time.Minute
)

// An attempt is a sign-in that this process wants. Its goroutine ends when there are
// tokens, by whoever, when it fails or takes too long, and with the source.
type attempt struct {
	base     string // the token that is not good enough
	scope    string
	explicit bool
	began    time.Time

	prompted chan struct{} // closed when prompt is set, or the attempt is over
	prompt   Prompt
	done     chan struct{} // closed when err is set
	err      error
}

// begin returns the attempt for a sign-in that gives more than r. There is one at a time.
func (s *Source) begin(r *record, scope string, explicit bool) *attempt {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.signIn; a != nil && !explicit {
		select {
		case <-a.done:
			if a.err != nil && s.conf.Wait && time.Since(a.began) < s.conf.Timeout+coolDown && a.base == r.Access {
				return a // its outcome stands: nobody is asked twice
			}
		default:
			return a
		}
	}
	a := &attempt{
		base: r.Access, scope: scope, explicit: explicit, began: time.Now(),
		prompted: make(chan struct{}), done: make(chan struct{}),
	}
	s.signIn = a
	s.busy.Go(func() {
		ctx, cancel := context.WithTimeoutCause(s.ctx, s.conf.Timeout, errors.New("nobody signed in in time"))
		defer cancel()
		a.err = s.run(ctx, a)
		if a.err == nil && s.conf.Done != nil {
			s.conf.Done()
		}
		close(a.done)
		a.tell(Prompt{}) // after that, so that who waits for it knows that it is over
	})
	return a
}

// tell says where to sign in. Only the attempt's own goroutine calls it.
func (a *attempt) tell(p Prompt) {
	select {
	case <-a.prompted:
	default:
		a.prompt = p
		close(a.prompted)
	}
}

// Await waits for the sign-in that is in progress in this process, if any, and returns why it
// failed.
func (s *Source) Await(ctx context.Context) error {
	s.mu.Lock()
	a := s.signIn
	s.mu.Unlock()
	if a == nil {
		return errSignIn
	}
	select {
	case <-a.done:
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// await waits for an attempt, or else says where to sign in.
func (s *Source) await(ctx context.Context, a *attempt) error {
	finished := a.done
	if !s.conf.Wait {
		finished = a.prompted
	}
	select {
	case <-finished:
	case <-ctx.Done():
		p, _ := s.Pending()
		return s.signInError(p, nil)
	}
	select {
	case <-a.done:
		if a.err != nil {
			return s.signInError(Prompt{}, a.err)
		}
		return nil
	default:
		return s.signInError(a.prompt, nil)
	}
}

// run signs in, or waits for another process that does. If that ends, this one continues
// in its place.
func (s *Source) run(ctx context.Context, a *attempt) error {
	for {
		unlock, err := s.conf.Store.tryLock(s.key + signInLock)
		switch {
		case err == nil:
			err = s.lead(ctx, a)
			unlock()
			return err
		case !errors.Is(err, fileutil.ErrLocked):
			return err
		}
		if err := s.show(ctx, a); err != nil {
			return err
		}
		t := time.NewTimer(turnWait)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
		if done, err := s.settled(a); done {
			return err
		}
	}
}

// show tells the user about the sign-in that is pending, unless somebody has, or we have.
func (s *Source) show(ctx context.Context, a *attempt) error {
	select {
	case <-a.prompted:
		return nil
	default:
	}
	unlock, err := s.conf.Store.lock(ctx, s.key+recordLock)
	if err != nil {
		return err
	}
	defer unlock()
	var p pending
	ok, err := s.conf.Store.read(s.key+pendingFile, &p)
	if err != nil || !ok || p.Failed != "" || p.Prompt.URL == "" {
		return err // it is not as far yet
	}
	a.tell(p.Prompt)
	if p.Shown || !s.conf.Prompt(p.Prompt) {
		return nil
	}
	p.Shown = true
	return s.conf.Store.write(s.key+pendingFile, &p)
}

// settled reports whether another process has signed in, or tried to, since an attempt
// began.
func (s *Source) settled(a *attempt) (bool, error) {
	r, err := s.load()
	if err != nil {
		return true, err
	}
	if r.Access != a.base && r.valid(time.Now()) && covers(r.Asked, a.scope) {
		return true, nil
	}
	var p pending
	if ok, _ := s.conf.Store.read(s.key+pendingFile, &p); ok && p.Failed != "" && p.FailedAt.After(a.began) && !p.FailedAt.After(time.Now()) {
		return true, errors.New(p.Failed)
	}
	return false, nil
}

// lead signs in. The caller has the lock of sign-ins.
func (s *Source) lead(ctx context.Context, a *attempt) error {
	if done, err := s.settled(a); done {
		return err
	}
	var p pending
	ok, err := s.conf.Store.read(s.key+pendingFile, &p)
	if err != nil {
		return err
	}
	if since := time.Since(p.FailedAt); ok && p.Failed != "" && since >= 0 && since < coolDown && !a.explicit {
		return fmt.Errorf("the last sign-in failed: %s; try again in a minute, or sign in by hand", p.Failed)
	}
	if !ok || p.Failed != "" {
		p = pending{}
	}
	at := s.callback()
	switch {
	case s.conf.Grant == DeviceCode:
		err = s.device(ctx, a)
	case s.conf.NoBrowser && at == nil:
		err = s.browseElsewhere(ctx, a, &p)
	default:
		err = s.browse(ctx, a, &p, at)
	}
	if err != nil && s.ctx.Err() == nil && !errors.Is(err, ErrNotOffered) {
		_ = s.conf.Store.write(s.key+pendingFile, &pending{Failed: err.Error(), FailedAt: time.Now()}) // err is what matters
		return err
	}
	if err != nil {
		return err // the next caller continues with what is pending
	}
	return s.conf.Store.remove(s.key + pendingFile)
}

// browse has the user sign in in a browser that comes back here, or to a callback. It continues
// with a sign-in that another process has begun, if that fits.
func (s *Source) browse(ctx context.Context, a *attempt, p *pending, at *Callback) error {
	r, err := s.loadIssuer()
	if err != nil {
		return err
	}
	if !s.fits(r, a, p, at) {
		p = nil
	}
	b, p, err := s.expect(ctx, r, a, p, at)
	if err != nil {
		return err
	}
	defer b.close()
	ctx, cancel := context.WithDeadlineCause(ctx, p.Prompt.Expires, errors.New("nobody signed in in time"))
	defer cancel()
	if err := s.show(ctx, a); err != nil {
		return err
	}
	code, err := b.wait(ctx)
	if err != nil {
		return err
	}
	return s.redeem(a.scope, url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {p.Redirect}, "code_verifier": {p.Verifier},
	}, p)
}

// loadIssuer is load for a server whose issuer has been found out.
func (s *Source) loadIssuer() (*record, error) {
	r, err := s.load()
	if err == nil && r.AS == nil {
		err = errors.New("what was kept of the sign-in has been deleted meanwhile; sign in again")
	}
	return r, err
}

// fits reports whether a sign-in that another process has begun is the one that we want.
func (s *Source) fits(r *record, a *attempt, p *pending, at *Callback) bool {
	who, left := s.client(r), time.Until(p.Prompt.Expires)
	return p.State != "" && who != nil && p.ClientID == who.ID && p.Issuer == r.AS.Issuer && p.Scope == a.scope &&
		p.Elsewhere == (at != nil) && (at == nil || p.Redirect == at.URI) && left > 0 && left <= max(s.conf.Timeout, DefaultTimeout)
}

// expect waits for the browser to come back: for that of a sign-in that has begun, or else
// for one of a new one.
func (s *Source) expect(ctx context.Context, r *record, a *attempt, p *pending, at *Callback) (*codeWaiter, *pending, error) {
	if p != nil {
		if b, err := s.resume(r, p, at); err == nil {
			s.log.Info("the sign-in that another process began is waited for here; its page is still good",
				"server", s.server.Host, "until", p.Prompt.Expires)
			return b, p, nil
		}
	}
	b, who, err := s.register(ctx, r, at)
	if err != nil {
		return nil, nil, err
	}
	p = &pending{
		Issuer: r.AS.Issuer, ClientID: who.ID, Scope: a.scope, Redirect: b.redirect,
		State: b.state, Verifier: rand.Text() + rand.Text(), Elsewhere: at != nil,
	}
	p.Prompt = Prompt{URL: s.authorizeURL(r, p), Expires: time.Now().Add(s.conf.Timeout)}
	if at != nil {
		p.Prompt.URL, err = b.open(at, p.Prompt.URL, p.Prompt.Expires)
	}
	if err == nil {
		err = s.conf.Store.write(s.key+pendingFile, p)
	}
	if err != nil {
		b.close()
		return nil, nil, err
	}
	return b, p, nil
}

// resume waits for the browser of a sign-in that has begun.
func (s *Source) resume(r *record, p *pending, at *Callback) (*codeWaiter, error) {
	if at == nil {
		return listenAt(p.Redirect, p.State, r.AS)
	}
	b := newCodeWaiter(at.URI, p.State, r.AS)
	page, err := b.open(at, s.authorizeURL(r, p), p.Prompt.Expires)
	if err == nil && page != p.Prompt.URL { // which the user has been told
		b.close()
		err = errors.New("it has another page now")
	}
	return b, err
}

// register returns who we are at the authorization server, and what waits for its browser. A
// client that registered itself comes back to where it said it would; if that is somewhere
// else, or not free, it registers again.
func (s *Source) register(ctx context.Context, r *record, at *Callback) (*codeWaiter, *oidc.Credentials, error) {
	if r.AS.AuthorizationEndpoint == "" {
		return nil, nil, errors.New("the authorization server has no sign-in by browser; configure another grant")
	}
	who, state := s.client(r), rand.Text()
	client := r.Clients[r.AS.Issuer]
	registered := who != nil && client != nil && client.Registered && client.ID == who.ID
	reuse := registered && s.redirectFits(client.Redirect, at)
	var b *codeWaiter
	var err error
	if at != nil {
		b = newCodeWaiter(at.URI, state, r.AS)
	}
	if at == nil && reuse {
		b, err = listenAt(client.Redirect, state, r.AS)
		reuse = err == nil
	}
	if at == nil && !reuse {
		b, err = listenAt(s.redirect(), state, r.AS)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("nothing can listen for the browser: %w", err)
	}
	if who == nil || registered && !reuse {
		who, err = s.enroll(ctx, r, b.redirect)
	}
	if err != nil {
		b.close()
		return nil, nil, err
	}
	return b, who, nil
}

// enroll registers a client, and keeps who it is.
func (s *Source) enroll(ctx context.Context, r *record, redirect string) (*oidc.Credentials, error) {
	if r.AS.RegistrationEndpoint == "" {
		return nil, errors.New("the authorization server lets no client register by itself; register one there and configure its client id")
	}
	reg := &oidc.Registration{
		Name: s.conf.Name, GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
		ApplicationType: "native", Scope: strings.Join(s.conf.Scopes, " "), AuthMethod: "none",
	}
	if strings.HasPrefix(redirect, "https://") { // what is on this machine is not
		reg.ApplicationType = "web"
	}
	if redirect != "" {
		reg.RedirectURIs = []string{redirect}
	} else {
		// None, and not left out: that would mean "code", which needs a redirect URI.
		reg.GrantTypes, reg.ResponseTypes = []string{deviceGrant, "refresh_token"}, []string{}
	}
	who, err := s.wire.Register(ctx, r.AS, reg)
	if e, ok := errors.AsType[*oidc.Error](err); ok && r.Guessed && e.Code == "" && !e.Temporary() {
		return nil, ErrNotOffered // there is nobody where somebody might have been
	}
	if err != nil {
		return nil, fmt.Errorf("registration fails: %w", err)
	}
	err = s.update(ctx, func(now *record) {
		if now.Clients == nil {
			now.Clients = make(map[string]*client)
		}
		now.Clients[r.AS.Issuer] = &client{Registered: true, ID: who.ID, Secret: who.Secret, Method: who.Method, Redirect: redirect, Expires: who.SecretExpires}
		r.Clients = now.Clients
	})
	return who, err
}

// authorizeURL returns where the user signs in.
func (s *Source) authorizeURL(r *record, p *pending) string {
	u, err := url.Parse(r.AS.AuthorizationEndpoint) // it has been checked
	if err != nil {
		return ""
	}
	q := u.Query()
	for name, values := range s.conf.Parameters {
		q[name] = values
	}
	sum := sha256.Sum256([]byte(p.Verifier))
	for name, value := range map[string]string{
		"response_type": "code", "client_id": p.ClientID, "redirect_uri": p.Redirect, "state": p.State,
		"code_challenge": base64.RawURLEncoding.EncodeToString(sum[:]), "code_challenge_method": "S256",
		"scope": p.Scope, "resource": r.Resource,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if slices.Contains(strings.Fields(p.Scope), offlineAccess) && !q.Has("prompt") {
		q.Set("prompt", "consent") // or strict servers give no refresh token (OpenID Connect Core, section 11)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// redeem exchanges what the user's sign-in gave for tokens. It takes its time even if
// nobody waits any more: a code can be used once.
func (s *Source) redeem(scope string, form url.Values, p *pending) error {
	ctx := context.WithoutCancel(s.ctx)
	r, unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	who := s.client(r)
	if who == nil || r.AS.Issuer != p.Issuer || who.ID != p.ClientID {
		return errors.New("the server has another issuer of tokens now, or what was kept of it has been deleted; sign in again")
	}
	r.Refresh = ""
	want := scope
	if form.Get("grant_type") == "authorization_code" {
		scope = "" // it was part of the authorization request
	}
	if err := s.obtain(ctx, r, who, form, scope); err != nil {
		return err
	}
	if s.conf.ClientID != "" && s.who.Key == nil { // so that others need not configure it
		if r.Clients == nil {
			r.Clients = make(map[string]*client)
		}
		r.Clients[r.AS.Issuer] = &client{ID: who.ID, Secret: who.Secret, Method: who.Method, Redirect: p.Redirect}
	}
	r.Asked = want
	if r.Scope == "" {
		r.Scope = want
	}
	return s.save(r)
}
