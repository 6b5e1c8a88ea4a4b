package authserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

const (
	maxQuery   = 8 << 10 // bytes of a request that signs in
	maxState   = 1 << 10 // of a client's state
	maxScopes  = 32      // that a client may ask for
	maxForm    = 32 << 10
	challenges = 43 // characters of a PKCE challenge
)

// A request is what a client asks for, once it is known who asks and where the answer goes.
type request struct {
	Client    string   `json:"c"`
	Keyed     bool     `json:"k,omitempty"` // the client proves who it is by a key
	Redirect  string   `json:"d"`
	State     string   `json:"s,omitempty"`
	Challenge string   `json:"p"`
	Resource  string   `json:"r,omitempty"`
	Scopes    []string `json:"o,omitempty"`
}

// mark stands for the client and where the answer goes.
func (q *request) mark() string {
	d := digestOf(q.Client + "\x00" + plainRedirect(q.Redirect))
	return base64.RawURLEncoding.EncodeToString(d[:16])
}

// A ticket is a request that a browser was asked about.
type ticket struct {
	Request *request `json:"r"`
	Browser digest   `json:"b"`
	Until   int64    `json:"u"`
}

// authorize asks a user whether a client may sign in, and sends the browser to the provider.
func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		s.ask(w, r)
	case http.MethodPost:
		s.answer(w, r)
	default:
		httpserver.NotAllowed(r, "GET, POST").Write(w)
	}
}

// ask shows the page that asks, unless the browser remembers the answer.
func (s *Server) ask(w http.ResponseWriter, r *http.Request) {
	query, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	c, err := s.findClient(r.Context(), query)
	if err != nil {
		// Where the answer would go is not known, so nothing is sent there.
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	q, e := s.readRequest(query, c)
	if e != nil {
		s.leave(w, r, q.back(s.issuer, url.Values{"error": {e.code}, "error_description": {e.text}}))
		return
	}
	if s.remembers(r, q) {
		s.toProvider(w, r, &transaction{Request: q})
		return
	}
	t := ticket{q, s.browser(w, r), time.Now().Add(transactionFor).Unix()}
	s.showConsent(w, c, q, s.sealer.Seal("ticket", "", t))
}

// parseQuery reads parameters. None may be there twice.
func parseQuery(raw string) (url.Values, error) {
	if len(raw) > maxQuery {
		return nil, errors.New("the application sends more than 8 KiB")
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return nil, errors.New("the application sends parameters that cannot be read")
	}
	for name, values := range query {
		if len(values) > 1 && name != "resource" {
			return nil, errors.New("the application sends a parameter twice")
		}
	}
	return query, nil
}

// findClient returns who asks, if the answer may go where it says.
func (s *Server) findClient(ctx context.Context, query url.Values) (c *client, err error) {
	id, uri := query.Get("client_id"), query.Get("redirect_uri")
	if isDocument(id) {
		if c, err = s.documents.find(ctx, id, false); err != nil {
			return nil, err
		}
	} else if c = s.registeredClient(id); c == nil {
		return nil, errors.New("the application is not known here (client_id): have it register again, which most do when their sign-in is removed")
	}
	if checkRedirect(uri, s.opts.Schemes) != nil || !c.allows(uri) {
		return nil, errors.New("the application wants the answer at an address that it has not registered (redirect_uri)")
	}
	return c, nil
}

// readRequest reads the rest. The error goes to the client.
func (s *Server) readRequest(query url.Values, c *client) (*request, *oauthError) {
	q := &request{Client: c.id, Keyed: c.keys != nil, Redirect: query.Get("redirect_uri"), State: query.Get("state"), Challenge: query.Get("code_challenge")}
	bad := func(text string) (*request, *oauthError) { return q, &oauthError{code: "invalid_request", text: text} }
	if len(q.State) > maxState {
		q.State = ""
		return bad("state has more than 1024 bytes")
	}
	switch mode := query.Get("response_mode"); {
	case query.Get("response_type") != "code":
		return q, &oauthError{code: "unsupported_response_type", text: "response_type must be code"}
	case mode != "" && mode != "query":
		return bad("response_mode must be query")
	case query.Get("code_challenge_method") != "S256" || !isChallenge(q.Challenge):
		return bad("PKCE with S256 is needed (code_challenge, code_challenge_method)")
	case query.Has("request") || query.Has("request_uri"):
		return bad("request objects are not supported")
	case slices.Contains(strings.Fields(query.Get("prompt")), "none"):
		return q, &oauthError{code: "interaction_required", text: "the user has to be asked"}
	}
	var e *oauthError
	if q.Resource, e = s.resource(query["resource"]); e != nil {
		return q, e
	}
	q.Scopes, e = s.scopes(query.Get("scope"))
	return q, e
}

// isChallenge reports whether a text can be the digest of a verifier.
func isChallenge(text string) bool {
	sum, err := base64.RawURLEncoding.Strict().DecodeString(text)
	return err == nil && len(text) == challenges && len(sum) == sha256.Size
}

// scopes returns those that are granted: what is asked for as far as we know it, or what
// everybody needs.
func (s *Server) scopes(asked string) ([]string, *oauthError) {
	list := strings.Fields(asked)
	if len(list) > maxScopes {
		return nil, &oauthError{code: "invalid_scope", text: "these are more than 32 scopes"}
	}
	list = slices.DeleteFunc(list, func(scope string) bool { return !slices.Contains(s.opts.Scopes, scope) })
	for _, scope := range s.opts.Needed {
		if !slices.Contains(list, scope) {
			list = append(list, scope)
		}
	}
	slices.Sort(list)
	return slices.Compact(list), nil
}

// back returns where a client gets an answer.
func (q *request) back(issuer string, answer url.Values) string {
	answer.Set("iss", issuer) // RFC 9207
	if q.State != "" {
		answer.Set("state", q.State)
	}
	return withQuery(q.Redirect, answer)
}

// answer takes what the user has answered.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	form, err := readForm(w, r)
	if err != nil {
		s.fail(w, http.StatusBadRequest, err.Error())
		return
	}
	var t ticket
	valid := s.sealer.Open(form.Get("ticket"), "ticket", "", &t) == nil && t.Request != nil && time.Now().Unix() < t.Until
	if !valid || !s.fromPage(r, t.Browser) {
		s.fail(w, http.StatusBadRequest, "This page is too old, or was opened in another browser.")
		return
	}
	if form.Get("answer") != "allow" {
		s.event("denied", "", t.Request.Client)
		s.leave(w, r, t.Request.back(s.issuer, url.Values{"error": {"access_denied"}, "error_description": {"the user has refused"}}))
		return
	}
	s.remember(w, r, t.Request)
	s.toProvider(w, r, &transaction{Request: t.Request})
}

// fromPage reports whether a form comes from a page of ours, as far as the browser says, and from
// the browser that was shown it.
func (s *Server) fromPage(r *http.Request, shown digest) bool {
	origin, site := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	return (origin == "" || strings.EqualFold(origin, s.issuer)) && (site == "" || site == "same-origin" || site == "none") &&
		shown.is(digestOf(s.cookieOf(r, "browser")))
}

// toProvider sends the browser to the provider, with a transaction of its own.
func (s *Server) toProvider(w http.ResponseWriter, r *http.Request, t *transaction) {
	t.State, t.Nonce, t.Verifier, t.Until = rand.Text(), rand.Text(), newSecret()+newSecret(), time.Now().Add(transactionFor).Unix()
	at, err := s.provider.authorizeURL(r.Context(), t, s.callback)
	if err != nil {
		s.log.Warn("nobody can sign in: the identity provider cannot be asked", "provider", s.opts.Provider.Issuer, "error", err)
		s.fail(w, http.StatusServiceUnavailable, "The identity provider cannot be reached. Try again in a minute.")
		return
	}
	if !s.keepTransaction(w, r, t) { // that of a sign-in at a server always fits
		s.leave(w, r, t.Request.back(s.issuer, url.Values{"error": {"invalid_request"}, "error_description": {"the request is too long: use a shorter state, redirect URI or list of scopes"}}))
		return
	}
	s.leave(w, r, at)
}

// challengeOf returns the PKCE challenge of a verifier.
func challengeOf(verifier string) string {
	d := digestOf(verifier)
	return base64.RawURLEncoding.EncodeToString(d[:])
}
