package authserver

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

// returned is where the provider sends the browser back to. Only the browser that was asked
// for consent has the transaction that the state belongs to.
func (s *Server) returned(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		httpserver.NotAllowed(r, "GET").Write(w)
		return
	}
	query, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		s.fail(w, http.StatusBadRequest, "The identity provider's answer cannot be read.")
		return
	}
	t := s.takeTransaction(w, r, query.Get("state"))
	if t == nil || t.Principal != "" { // that one is for a server
		s.fail(w, http.StatusBadRequest, "This sign-in was begun in another browser, took longer than ten minutes, or has been completed already.")
		return
	}
	if err := s.provider.checkIssuer(r.Context(), query); err != nil {
		s.log.Warn("a sign-in was refused", "error", err)
		s.fail(w, http.StatusBadRequest, "The answer comes from another identity provider than the one that was asked.")
		return
	}
	if t.Request == nil {
		s.askServerSignIn(w, r, t, query)
		return
	}
	code, e := s.complete(r, t, query)
	if e != nil {
		s.leave(w, r, t.Request.back(s.issuer, url.Values{"error": {e.code}, "error_description": {e.text}}))
		return
	}
	s.leave(w, r, t.Request.back(s.issuer, url.Values{"code": {code}}))
}

// identified returns who has signed in at the provider.
func (s *Server) identified(r *http.Request, t *transaction, query url.Values) (*user, *oauthError) {
	if code := query.Get("error"); code != "" {
		s.log.Info("the identity provider has refused a sign-in", "error", clip(code), "reason", clip(query.Get("error_description")))
		return nil, &oauthError{code: "access_denied", text: "the identity provider has refused"}
	}
	who, err := s.provider.signIn(r.Context(), query.Get("code"), t, s.callback)
	switch {
	case errors.Is(err, errRefused):
		s.log.Warn("a sign-in was refused", "error", err)
		return nil, &oauthError{code: "access_denied", text: "the identity provider's answer cannot be accepted; whoever runs this server finds the reason in its log"}
	case err != nil:
		s.log.Warn("a sign-in failed: the identity provider cannot be asked", "error", err)
		return nil, &oauthError{code: "temporarily_unavailable", text: "the identity provider cannot be reached; try again in a minute"}
	}
	return who, nil
}

// complete finds out who has signed in, and returns a code for that.
func (s *Server) complete(r *http.Request, t *transaction, query url.Values) (string, *oauthError) {
	who, e := s.identified(r, t, query)
	if e != nil {
		return "", e
	}
	code, err := s.begin(t.Request, who)
	if err != nil {
		s.log.Error("a sign-in cannot be kept", "error", err)
		return "", &oauthError{code: "server_error", text: "the sign-in cannot be kept; try again later"}
	}
	return code, nil
}

// begin keeps a sign-in whose client has not been told yet, and returns the code that tells it.
func (s *Server) begin(q *request, who *user) (code string, err error) {
	now := time.Now()
	in := &signIn{
		ID: strings.ToLower(rand.Text()), Provider: s.opts.Provider.Issuer, Client: q.Client, Keyed: q.Keyed, Resource: q.Resource, Scopes: q.Scopes,
		Began: now, Redirect: q.Redirect, Challenge: q.Challenge,
	}
	code = codePrefix + in.ID + newSecret()
	in.Code = digestOf(code)
	in.learn(who, now)
	in.Expires = now.Add(codeFor)
	in.seal(code, &who.grant)
	if err := s.put(in); err != nil {
		return "", err
	}
	s.event("sign-in", in.Principal, in.Client)
	return code, nil
}

// clip bounds what is logged of what others send.
func clip(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(text) > 200 {
		return strings.ToValidUTF8(text[:200], "") + "…"
	}
	return text
}
