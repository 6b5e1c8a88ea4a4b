package authserver

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

// writeTime is how long who asked may take to read the answer.
const writeTime = 10 * time.Second

// An oauthError is a refusal that a program can read (RFC 6749, 5.2).
type oauthError struct {
	code, text string
	status     int // zero means 400
}

// errLater says that something of ours, or the provider, does not answer now.
var errLater = &oauthError{code: "temporarily_unavailable", text: "this cannot be done now; try again later", status: http.StatusServiceUnavailable}

func (e *oauthError) write(w http.ResponseWriter) {
	status := e.status
	switch status {
	case 0:
		status = http.StatusBadRequest
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Basic realm="clients"`)
	case http.StatusServiceUnavailable:
		w.Header().Set("Retry-After", "5")
	}
	writeJSON(w, status, map[string]string{"error": e.code, "error_description": e.text})
}

// writeJSON answers with what is for nobody else.
func writeJSON(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts, numbers and lists of those always encode
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("X-Content-Type-Options", "nosniff")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTime)) // some know none
	w.WriteHeader(status)
	_, _ = w.Write(text) // who asked may have left
}

// readForm reads what is posted. Nothing may be there twice, and nothing of the URL counts.
func readForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	if httpframe.MediaType(r.Header) != "application/x-www-form-urlencoded" {
		return nil, errors.New("the request must be a form (application/x-www-form-urlencoded)")
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(writeTime)) // some know none
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxForm))
	if err != nil {
		return nil, errors.New("the form did not arrive, or has more than 32 KiB")
	}
	form, err := url.ParseQuery(string(text))
	if err != nil {
		return nil, errors.New("the form cannot be read")
	}
	for name, values := range form {
		if len(values) > 1 {
			return nil, errors.New("the form has a parameter twice: " + clip(name))
		}
	}
	return form, nil
}

// posted reads the form of a client that has proven who it is.
func (s *Server) posted(w http.ResponseWriter, r *http.Request) (url.Values, *client, bool) {
	if r.Method != http.MethodPost {
		httpserver.NotAllowed(r, "POST").Write(w)
		return nil, nil, false
	}
	form, err := readForm(w, r)
	if err != nil {
		(&oauthError{code: "invalid_request", text: err.Error()}).write(w)
		return nil, nil, false
	}
	c, e := s.authenticate(r, form)
	if e != nil {
		e.write(w)
		return nil, nil, false
	}
	return form, c, true
}

// assertionType is what a client sends that proves who it is by a key (RFC 7523).
const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

// authenticate returns the client that makes a request. Clients whose id is a URL have no
// secret, and what they ask about is bound to that; those with keys have to use them there.
func (s *Server) authenticate(r *http.Request, form url.Values) (*client, *oauthError) {
	unknown := &oauthError{code: "invalid_client", text: "the client is not known, or its secret is wrong", status: http.StatusUnauthorized}
	if form.Has("client_assertion") || form.Has("client_assertion_type") {
		if len(r.Header["Authorization"]) > 0 || form.Has("client_secret") {
			return nil, &oauthError{code: "invalid_request", text: "the client proves who it is in two ways"}
		}
		c, err := s.asserted(r, form)
		if err != nil {
			return nil, &oauthError{code: "invalid_client", text: err.Error(), status: http.StatusUnauthorized}
		}
		return c, nil
	}
	id, secret := form.Get("client_id"), form.Get("client_secret")
	if user, password, ok := r.BasicAuth(); ok {
		user, err := url.QueryUnescape(user)
		password, err2 := url.QueryUnescape(password)
		if err != nil || err2 != nil || secret != "" || id != "" && id != user {
			return nil, &oauthError{code: "invalid_request", text: "the client proves who it is in two ways, or in none that can be read"}
		}
		id, secret = user, password
	} else if len(r.Header["Authorization"]) > 0 {
		return nil, unknown
	}
	if isDocument(id) {
		if _, err := checkDocumentID(id); err != nil || secret != "" {
			return nil, unknown
		}
		return &client{id: id}, nil
	}
	c := s.registeredClient(id)
	if c == nil || c.keys != nil || c.secret && !digestOf(secret).is(digestOf(s.secretOf(id))) || !c.secret && secret != "" {
		return nil, unknown
	}
	return c, nil
}

// asserted returns the client that proves who it is by a key.
func (s *Server) asserted(r *http.Request, form url.Values) (*client, error) {
	if form.Get("client_assertion_type") != assertionType {
		return nil, errors.New("client_assertion_type must be " + assertionType)
	}
	a, err := oidc.ParseAssertion(form.Get("client_assertion"))
	if err != nil {
		return nil, err
	}
	if id := form.Get("client_id"); id != "" && id != a.Client {
		return nil, errors.New("the assertion is of another client (client_id)")
	}
	if !a.For(s.issuer, s.issuer+"/", s.issuer+tokenPath, s.issuer+r.URL.Path) {
		return nil, errors.New("the assertion is for somebody else (aud): it must be for " + s.issuer)
	}
	c, err := s.signer(r.Context(), a)
	if err != nil {
		return nil, err
	}
	if !s.asserts.add(a.Client+"\x00"+a.ID, time.Until(a.Expires)) {
		return nil, errors.New("the assertion has come before (jti)")
	}
	proven := *c
	proven.proven = true
	return &proven, nil
}

// signer returns the client that has signed an assertion.
func (s *Server) signer(ctx context.Context, a *oidc.Assertion) (c *client, err error) {
	wrong := errors.New("the client is not known, or has not signed the assertion")
	if !isDocument(a.Client) {
		if c = s.registeredClient(a.Client); c == nil || c.keys == nil || !a.Signed(c.keys) {
			return nil, wrong
		}
		return c, nil
	}
	for _, newer := range []bool{false, true} { // with new keys, perhaps
		if c, err = s.documents.find(ctx, a.Client, newer); err != nil {
			return nil, err
		}
		if c.keys != nil && a.Signed(c.keys) {
			return c, nil
		}
	}
	return nil, wrong
}

// token gives out tokens.
func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	form, c, ok := s.posted(w, r)
	if !ok {
		return
	}
	var t *tokens
	var e *oauthError
	switch form.Get("grant_type") {
	case "authorization_code":
		t, e = s.exchange(r.Context(), c, form.Get("code"), form.Get("redirect_uri"), form.Get("code_verifier"), form.Get("resource"))
	case "refresh_token":
		t, e = s.refresh(r.Context(), c, form.Get("refresh_token"), form.Get("scope"), form.Get("resource"))
	default:
		e = &oauthError{code: "unsupported_grant_type", text: "grant_type must be authorization_code or refresh_token"}
	}
	if e != nil {
		e.write(w)
		return
	}
	writeJSON(w, http.StatusOK, t)
}

// revoke ends the sign-in that a token belongs to (RFC 7009). Whoever has nothing to end is
// told the same.
func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	form, c, ok := s.posted(w, r)
	if !ok {
		return
	}
	if e := s.endBy(r.Context(), c, form.Get("token")); e != nil {
		e.write(w)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusOK)
}

// endBy ends a sign-in for its client, if that has one of its tokens. What the provider has
// given ends there too, if the newest token opens it.
func (s *Server) endBy(ctx context.Context, c *client, secret string) *oauthError {
	in, done, e := s.take(ctx, secret, refreshPrefix, accessPrefix)
	if e != nil {
		return e
	}
	defer done()
	d := digestOf(secret)
	if in == nil || !in.of(c) || !in.Refresh.is(d) && !in.Previous.is(d) && !slices.ContainsFunc(in.Access, func(a access) bool { return a.Hash.is(d) }) {
		return nil
	}
	s.end(in, "revoke")
	if g := in.open(secret); in.Refresh.is(d) && g.askable() {
		// The client has what it wants, whether it waits or not.
		if err := s.provider.revoke(context.WithoutCancel(ctx), &g); err != nil {
			s.log.Warn("the identity provider's token of a user who has signed out cannot be revoked", "user", in.Principal, "error", err)
		}
	}
	return nil
}

// resource returns the one that a client names, if it is one of ours (RFC 8707).
func (s *Server) resource(asked []string) (string, *oauthError) {
	wrong := &oauthError{code: "invalid_target", text: "tokens are given out for " + s.issuer + " and what is below it"}
	switch {
	case len(asked) == 0 || len(asked) == 1 && asked[0] == "":
		return "", nil
	case len(asked) > 1 || len(asked[0]) > maxRedirect:
		return "", wrong
	}
	if _, ok := s.ownPath(asked[0]); !ok {
		return "", wrong
	}
	return asked[0], nil
}

// audience returns for what a token of a resource is: for all servers of the gateway, or for the endpoints of one
// of our servers.
func (s *Server) audience(resource string) []string {
	path, _ := s.ownPath(resource)
	list := []string{s.issuer + path}
	if path != "" && s.opts.EndpointPaths != nil {
		for _, endpoint := range s.opts.EndpointPaths(path) {
			if at := s.issuer + strings.TrimSuffix(endpoint, "/"); !slices.Contains(list, at) {
				list = append(list, at)
			}
		}
	}
	return list
}
