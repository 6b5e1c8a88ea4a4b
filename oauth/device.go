package oauth

import (
	"context"
	"errors"
	"net/url"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// Waits between two questions whether the user has entered the code (RFC 8628, section 3.5).
// While nobody answers, each is twice as long as the one before.
const (
	minDeviceWait  = time.Second
	slowDown       = 5 * time.Second
	maxOutageDelay = time.Minute
)

// device has the user enter a code in a browser anywhere.
func (s *Source) device(ctx context.Context, a *attempt) error {
	p, code, err := s.newCode(ctx, a)
	if err != nil {
		return err
	}
	return s.enter(ctx, a, p, code)
}

// browseElsewhere is browse for a machine without a browser: it has the user enter a code
// if there is one to be had.
func (s *Source) browseElsewhere(ctx context.Context, a *attempt, p *pending) error {
	r, err := s.loadIssuer()
	if err != nil {
		return err
	}
	if r.AS.DeviceAuthorizationEndpoint == "" || s.conf.CallbackPort != 0 || s.fits(r, a, p, nil) {
		return s.browse(ctx, a, p, nil)
	}
	asked, code, err := s.newCode(ctx, a)
	if err != nil && ctx.Err() == nil { // many a client may not use codes
		s.log.Info("there is no code to sign in with elsewhere", "server", s.server.Host, "error", err)
		return s.browse(ctx, a, p, nil)
	}
	if err != nil {
		return err
	}
	return s.enter(ctx, a, asked, code)
}

// newCode asks for a code.
func (s *Source) newCode(ctx context.Context, a *attempt) (*pending, *oidc.DeviceCode, error) {
	r, err := s.loadIssuer()
	if err != nil {
		return nil, nil, err
	}
	if r.AS.DeviceAuthorizationEndpoint == "" {
		return nil, nil, errors.New("the authorization server has no sign-in by a code; sign in in a browser")
	}
	who := s.client(r)
	if who == nil {
		if who, err = s.enroll(ctx, r, ""); err != nil {
			return nil, nil, err
		}
	}
	form := url.Values{}
	if a.scope != "" {
		form.Set("scope", a.scope)
	}
	if r.Resource != "" {
		form.Set("resource", r.Resource)
	}
	code, err := s.wire.Device(ctx, r.AS, who, form)
	if err != nil {
		return nil, nil, err
	}
	if code.Expires.IsZero() {
		code.Expires = time.Now().Add(s.conf.Timeout)
	}
	p := &pending{Issuer: r.AS.Issuer, ClientID: who.ID, Scope: a.scope}
	p.Prompt = Prompt{URL: code.VerificationURI, Code: code.UserCode, Expires: code.Expires}
	if code.VerificationURIComplete != "" {
		p.Prompt.URL = code.VerificationURIComplete
	}
	return p, code, nil
}

// enter has the user enter a code, and waits for that.
func (s *Source) enter(ctx context.Context, a *attempt, p *pending, code *oidc.DeviceCode) error {
	if err := s.conf.Store.write(s.key+pendingFile, p); err != nil {
		return err
	}
	if err := s.show(ctx, a); err != nil {
		return err
	}
	return s.poll(ctx, a, p, code)
}

// poll asks whether the user has entered the code, until that is so, the code has ended, or
// the authorization server says that it will not be. A network in trouble is waited for.
func (s *Source) poll(ctx context.Context, a *attempt, p *pending, code *oidc.DeviceCode) error {
	ctx, cancel := context.WithDeadlineCause(ctx, code.Expires, errors.New("nobody entered the code in time"))
	defer cancel()
	wait := max(code.Interval, minDeviceWait)
	pause := wait
	for {
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return context.Cause(ctx)
		}
		err := s.redeem(a.scope, url.Values{"grant_type": {deviceGrant}, "device_code": {code.Code}}, p)
		e, refused := errors.AsType[*oidc.Error](err)
		switch {
		case refused && e.Code == "authorization_pending":
		case refused && (e.Code == "slow_down" || e.Temporary()):
			wait += slowDown
		case errors.Is(err, oidc.ErrNoAnswer):
			s.log.Info("nobody answers whether the code has been entered; it is asked again", "server", s.server.Host, "error", err)
			pause = max(wait, min(2*pause, maxOutageDelay))
			continue
		default:
			return err
		}
		pause = wait
	}
}
