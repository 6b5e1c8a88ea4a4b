package authserver

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/eventlog"
	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
	"github.com/dragoman-mcp/dragoman/internal/util/limit"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/internal/wire/token"
)

// The paths that a Server answers at.
const (
	metadataPath  = "/.well-known/oauth-authorization-server"
	openIDPath    = "/.well-known/openid-configuration"
	authorizePath = "/oauth/authorize"
	callbackPath  = "/oauth/callback"
	tokenPath     = "/oauth/token"
	registerPath  = "/oauth/register"
	revokePath    = "/oauth/revoke"

	// oldTokenPath is where clients look that do not know our metadata, or not any more: the
	// Python SDK keeps tokens and not where they came from.
	oldTokenPath = "/token"
)

// Defaults of [Options].
const (
	DefaultAccessFor = 10 * time.Minute
	DefaultSignInFor = 30 * 24 * time.Hour
)

// DefaultRate is how often one address may ask. Behind one there may be many users.
var DefaultRate = limit.Rate{Count: 20, Per: time.Second}

// Options configures a Server. URL, Provider, Store and Key must be given.
type Options struct {
	// URL is where clients reach us, without a path: https, or http on this machine.
	URL string

	// Provider knows the users.
	Provider Provider

	// Scopes are what tokens can have, and Needed what every token has.
	Scopes, Needed []string

	// AccessFor is how long an access token is good, and SignInFor how long a sign-in lasts that
	// its client does not use. Zero means the defaults.
	AccessFor, SignInFor time.Duration

	// Schemes are those of redirect URIs that are accepted without a dot in them. If nil,
	// DefaultSchemes are.
	Schemes []string

	// EndpointPaths returns the paths that belong to the server which a path leads to: a token for one of
	// them is good for all. If nil, it is good for that path alone.
	EndpointPaths func(path string) []string

	// Store keeps the sign-ins, and Key, of token.KeySize bytes, seals what clients and browsers
	// keep for us.
	Store eventlog.Records
	Key   []byte

	// Revoked, if not nil, is told the digests of access tokens that are to be verified
	// again, now.
	Revoked func(hashes ...[32]byte)

	// OnEvent, if not nil, is told what happens: register, sign-in, denied, token, refresh, revoke, gone,
	// reuse, replay, misuse. Who is empty while nobody has signed in. With connect and stranger it is told in place
	// of the client the server that is signed in to.
	OnEvent func(kind, who, client string)

	// Rate is how often one address may ask, at all places but the metadata. Zero means
	// DefaultRate.
	Rate limit.Rate

	// ServerSignIns are sign-ins at servers, whose pages the Server shows. If nil, there are none.
	ServerSignIns *ServerSignIns

	// Network is how metadata documents of clients are fetched. Only public addresses are used.
	Network oidc.Network

	// Logger is told what goes wrong, never a secret. It may be nil.
	Logger *slog.Logger
}

// A Server is an authorization server. Any number of goroutines may use it.
type Server struct {
	opts      Options
	log       *slog.Logger
	issuer    string // our URL, in the one spelling that is told
	base      *url.URL
	callback  string
	secure    bool // we are reached by https
	provider  *provider
	documents *documents

	sealer                *token.Sealer // of what clients and browsers keep for us
	secretKey, refreshKey []byte

	used    once // states
	asserts once // ids of assertions, with their clients
	turns   turns
	rates   *limit.Rates // of addresses
}

// MaxSignIns is how many sign-ins a Store in memory should keep. Beyond that those end that were used
// longest ago.
const MaxSignIns = 16384

// New returns a server, which the caller closes.
func New(o *Options) (*Server, error) {
	s := &Server{opts: *o, log: httpserver.Logger(o.Logger), issuer: strings.TrimSuffix(o.URL, "/")}
	u, err := oidc.ParseURL(s.issuer)
	switch {
	case err != nil:
		return nil, fmt.Errorf("authserver: our URL %w", err)
	case u.Path != "" || u.RawQuery != "":
		return nil, errors.New("authserver: our URL must be a scheme and a host alone")
	case len(o.Key) != token.KeySize:
		return nil, fmt.Errorf("authserver: the key must have %d bytes", token.KeySize)
	}
	s.base, s.secure, s.callback = u, u.Scheme == "https", s.issuer+callbackPath
	if s.opts.AccessFor <= 0 {
		s.opts.AccessFor = DefaultAccessFor
	}
	if s.opts.SignInFor <= 0 {
		s.opts.SignInFor = DefaultSignInFor
	}
	if s.opts.Rate.Count == 0 {
		s.opts.Rate = DefaultRate
	}
	s.rates = limit.NewRates(s.opts.Rate, 0)
	if s.opts.Schemes == nil {
		s.opts.Schemes = DefaultSchemes
	}
	s.opts.Scopes = slices.Compact(slices.Sorted(slices.Values(slices.Concat(o.Scopes, o.Needed))))
	s.sealer = token.NewSealer(token.Derive(o.Key, "seal"), "")
	s.secretKey, s.refreshKey = token.Derive(o.Key, "client secret"), token.Derive(o.Key, "refresh token")
	if s.provider, err = newProvider(&s.opts); err != nil {
		return nil, err
	}
	s.documents = newDocuments(o.Network, s.opts.Schemes)
	return s, nil
}

// Close ends what the server does in the background. Requests in flight may fail.
func (s *Server) Close() {
	s.provider.close()
	s.documents.client.Close()
}

// Issuer returns what clients know the server by.
func (s *Server) Issuer() string { return s.issuer }

// event tells what has happened. Of the id that a client was given the beginning is told, which
// no other has.
func (s *Server) event(kind, who, client string) {
	if s.opts.OnEvent == nil {
		return
	}
	if strings.HasPrefix(client, clientPrefix) {
		client = client[:len(clientPrefix)+16]
	}
	s.opts.OnEvent(kind, who, client)
}

// At returns who answers at a path, or nil if that is none of the server's. Host and Origin
// have been checked.
func (s *Server) At(path string) http.HandlerFunc {
	for _, well := range []string{metadataPath, openIDPath} {
		if rest, ok := strings.CutPrefix(path, well); ok && (rest == "" || rest[0] == '/') {
			return s.metadata
		}
	}
	switch path {
	case authorizePath:
		return s.bounded(s.authorize, s.failOften)
	case callbackPath:
		return s.bounded(s.returned, s.failOften)
	case tokenPath, oldTokenPath:
		return s.bounded(s.token, refuseOften)
	case registerPath:
		return s.bounded(s.register, refuseOften)
	case revokePath:
		return s.bounded(s.revoke, refuseOften)
	}
	if at := s.atServer(path); at != nil {
		return s.bounded(at, s.failOften)
	}
	return nil
}

// bounded lets an address ask as often as it may, and answers by refuse beyond that.
func (s *Server) bounded(serve, refuse http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		from := ""
		if c, err := httpserver.ByAddress(r); err == nil {
			from = limit.Address(c.Address)
		}
		if wait := s.rates.Take(from); wait > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
			refuse(w, r)
			return
		}
		serve(w, r)
	}
}

// refuseOften tells a program that its address asks too often.
func refuseOften(w http.ResponseWriter, _ *http.Request) {
	(&oauthError{code: "temporarily_unavailable", text: "this address asks too often (limits.signInRate); try again later", status: http.StatusTooManyRequests}).write(w)
}

// failOften tells a user the same.
func (s *Server) failOften(w http.ResponseWriter, _ *http.Request) {
	s.fail(w, http.StatusTooManyRequests, "Too many sign-ins come from this address. Try again in a few seconds.")
}

// metadata tells clients how to use the server (RFC 8414). Clients look for it at several
// places, and are told the same at all of them.
func (s *Server) metadata(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		httpserver.NotAllowed(r, "GET, HEAD").Write(w)
		return
	}
	w.Header().Set("Cache-Control", "max-age=300")
	methods, algorithms := []string{oidc.MethodNone, oidc.MethodBasic, oidc.MethodPost, oidc.MethodKey}, oidc.Algorithms()
	writeJSON(w, http.StatusOK, map[string]any{
		"issuer":                                                s.issuer,
		"authorization_endpoint":                                s.issuer + authorizePath,
		"token_endpoint":                                        s.issuer + tokenPath,
		"registration_endpoint":                                 s.issuer + registerPath,
		"revocation_endpoint":                                   s.issuer + revokePath,
		"scopes_supported":                                      append([]string{}, s.opts.Scopes...),
		"response_types_supported":                              []string{"code"},
		"response_modes_supported":                              []string{"query"},
		"grant_types_supported":                                 []string{"authorization_code", "refresh_token"},
		"token_endpoint_auth_methods_supported":                 methods,
		"revocation_endpoint_auth_methods_supported":            methods,
		"token_endpoint_auth_signing_alg_values_supported":      algorithms,
		"revocation_endpoint_auth_signing_alg_values_supported": algorithms,
		"code_challenge_methods_supported":                      []string{"S256"},
		"authorization_response_iss_parameter_supported":        true,
		"client_id_metadata_document_supported":                 true,
	})
}

// ownPath returns the path of a URL below ours, without a slash at its end, and reports
// whether it is one. An empty URL is ours.
func (s *Server) ownPath(text string) (string, bool) {
	if text == "" {
		return "", true
	}
	u, err := oidc.ParseURL(text)
	if err != nil || u.RawQuery != "" || u.ForceQuery || !httpclient.SameOrigin(u, s.base) {
		return "", false
	}
	at := strings.TrimSuffix(u.Path, "/")
	if at == "" {
		return "", true
	}
	return at, path.Clean(at) == at && u.EscapedPath() == u.Path
}
