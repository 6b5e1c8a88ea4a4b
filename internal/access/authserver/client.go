package authserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
)

const (
	maxRegistration = 16 << 10 // bytes
	maxRedirects    = 16       // of a client
	maxName         = 64       // characters of a client's name
	maxClientID     = 2 << 10
	maxKeys         = 600 // bytes of a client's keys, which its id holds

	clientPrefix = "dgmk_"
)

// A client is a program that users sign in with.
type client struct {
	id        string
	name      string     // as it calls itself, which proves nothing
	host      string     // whose document it is, which proves something; empty if it has registered
	redirects []string   // the redirectMark of each
	secret    bool       // it has one
	keys      *oidc.Keys // by which it proves who it is; nil if it does so in another way
	proven    bool       // it has, by one of these
}

// A registered is what the id of a client holds that has registered.
type registered struct {
	Name      string          `json:"n,omitempty"`
	Redirects []string        `json:"r"` // the redirectMark of each
	Secret    bool            `json:"s,omitempty"`
	Keys      json.RawMessage `json:"k,omitempty"`
	At        int64           `json:"t"`
	Random    string          `json:"x"`
}

// redirectMark stands for a redirect URI: so many of the bits of its digest that nobody finds
// another with the same, and so few that an id stays short.
func redirectMark(uri string) string {
	d := digestOf(plainRedirect(uri))
	return base64.RawURLEncoding.EncodeToString(d[:16])
}

func (c *client) allows(uri string) bool {
	return slices.Contains(c.redirects, redirectMark(uri))
}

// registeredClient returns the client that an id was given to, or nil.
func (s *Server) registeredClient(id string) *client {
	text, ok := strings.CutPrefix(id, clientPrefix)
	var r registered
	if !ok || len(id) > maxClientID || s.sealer.Open(text, "client", "", &r) != nil {
		return nil
	}
	c := &client{id: id, name: r.Name, redirects: r.Redirects, secret: r.Secret}
	if r.Keys != nil {
		var err error
		if c.keys, err = oidc.ParseKeys(r.Keys); err != nil {
			return nil
		}
	}
	return c
}

// secretOf returns the secret of a client that has registered for one.
func (s *Server) secretOf(id string) string { return mac(s.secretKey, id) }

// A registration is what a client says of itself (RFC 7591), and in its metadata document.
type registration struct {
	ID            string          `json:"client_id,omitempty"`
	IssuedAt      int64           `json:"client_id_issued_at,omitempty"`
	Secret        string          `json:"client_secret,omitempty"`
	SecretExpires *int64          `json:"client_secret_expires_at,omitempty"`
	Name          string          `json:"client_name,omitempty"`
	Redirects     []string        `json:"redirect_uris"`
	GrantTypes    []string        `json:"grant_types,omitempty"`
	ResponseTypes []string        `json:"response_types,omitempty"`
	Method        string          `json:"token_endpoint_auth_method,omitempty"`
	Keys          json.RawMessage `json:"jwks,omitempty"`
	KeysURL       string          `json:"jwks_uri,omitempty"`
}

// check returns what is wrong with a registration, as an error of RFC 7591.
func (g *registration) check(schemes []string) *oauthError {
	switch {
	case len(g.Redirects) == 0:
		return &oauthError{code: "invalid_redirect_uri", text: "redirect_uris is missing"}
	case len(g.Redirects) > maxRedirects:
		return &oauthError{code: "invalid_redirect_uri", text: fmt.Sprintf("there are more than %d redirect_uris", maxRedirects)}
	case g.GrantTypes != nil && !slices.Contains(g.GrantTypes, "authorization_code"):
		return &oauthError{code: "invalid_client_metadata", text: "the only way to sign in here is authorization_code"}
	case g.ResponseTypes != nil && !slices.Contains(g.ResponseTypes, "code"):
		return &oauthError{code: "invalid_client_metadata", text: "the only response type here is code"}
	case !slices.Contains([]string{"", oidc.MethodNone, oidc.MethodBasic, oidc.MethodPost, oidc.MethodKey}, g.Method):
		return &oauthError{code: "invalid_client_metadata", text: "token_endpoint_auth_method must be none, client_secret_basic, client_secret_post or private_key_jwt"}
	case g.Method == oidc.MethodKey && (g.Keys == nil) == (g.KeysURL == ""):
		return &oauthError{code: "invalid_client_metadata", text: "private_key_jwt needs either jwks or jwks_uri"}
	}
	for _, uri := range g.Redirects {
		if err := checkRedirect(uri, schemes); err != nil {
			return &oauthError{code: "invalid_redirect_uri", text: err.Error()}
		}
	}
	return nil
}

// checkKeys returns what is wrong with the keys of a client that registers.
func (g *registration) checkKeys() *oauthError {
	if g.Method != oidc.MethodKey {
		return nil
	}
	bad := func(text string) *oauthError { return &oauthError{code: "invalid_client_metadata", text: text} }
	var short bytes.Buffer
	switch {
	case g.KeysURL != "":
		return bad("keys at a URL (jwks_uri) are for clients whose id is that of a metadata document; register with jwks")
	case json.Compact(&short, g.Keys) != nil || short.Len() > maxKeys:
		return bad(fmt.Sprintf("jwks has more than %d bytes; one key is enough, and one of a curve is short", maxKeys))
	}
	g.Keys = short.Bytes()
	if _, err := oidc.ParseKeys(g.Keys); err != nil {
		return bad("jwks: " + err.Error())
	}
	return nil
}

// cleanName returns a name that others have chosen as a text that stays on its line, and shows
// the characters in the order that they have.
func cleanName(name string) string {
	name = strings.Map(func(c rune) rune {
		if !unicode.IsPrint(c) || unicode.Is(unicode.Bidi_Control, c) {
			return -1
		}
		return c
	}, strings.ToValidUTF8(name, ""))
	name = strings.Join(strings.Fields(name), " ")
	if runes := []rune(name); len(runes) > maxName {
		name = string(runes[:maxName]) + "…"
	}
	return name
}

// register registers a client. Nothing is kept: the id holds what there is to know.
func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		httpserver.NotAllowed(r, "POST").Write(w)
		return
	}
	var g registration
	if err := readJSON(r.Body, maxRegistration, &g); err != nil {
		(&oauthError{code: "invalid_client_metadata", text: err.Error()}).write(w)
		return
	}
	if e := g.check(s.opts.Schemes); e != nil {
		e.write(w)
		return
	}
	if e := g.checkKeys(); e != nil {
		e.write(w)
		return
	}
	now := time.Now()
	secret := g.Method == oidc.MethodBasic || g.Method == oidc.MethodPost
	record := registered{Name: cleanName(g.Name), Secret: secret, At: now.Unix(), Random: newSecret()[:8]}
	for _, uri := range g.Redirects {
		record.Redirects = append(record.Redirects, redirectMark(uri))
	}
	if g.Method == oidc.MethodKey {
		record.Keys = g.Keys
	}
	id := clientPrefix + s.sealer.Seal("client", "", record)
	if len(id) > maxClientID {
		(&oauthError{code: "invalid_client_metadata", text: "these are too many or too long redirect URIs and keys"}).write(w)
		return
	}
	answer := registration{
		ID: id, IssuedAt: now.Unix(), Name: g.Name, Redirects: g.Redirects, Method: oidc.MethodNone,
		GrantTypes: []string{"authorization_code", "refresh_token"}, ResponseTypes: []string{"code"},
	}
	if secret {
		never := int64(0)
		answer.Method, answer.Secret, answer.SecretExpires = g.Method, s.secretOf(id), &never
	}
	if g.Method == oidc.MethodKey {
		answer.Method, answer.Keys = g.Method, g.Keys
	}
	s.event("register", "", id)
	writeJSON(w, http.StatusCreated, answer)
}

// readJSON reads one JSON object of limited size.
func readJSON(from io.Reader, limit int64, v any) error {
	text, err := io.ReadAll(io.LimitReader(from, limit+1))
	switch {
	case err != nil:
		return errors.New("the body did not arrive")
	case int64(len(text)) > limit:
		return fmt.Errorf("the body has more than %d bytes", limit)
	case json.Unmarshal(text, v) != nil:
		return errors.New("the body is no JSON object of the right shape")
	}
	return nil
}
