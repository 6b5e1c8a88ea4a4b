package oauth

import (
	"context"
	"crypto"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

// A Grant is how tokens are had.
type Grant string

// The grants.
const (
	// AuthorizationCode has the user sign in in a browser on this machine; see
	// [Config.NoBrowser] for where there is none.
	AuthorizationCode Grant = ""

	// DeviceCode has the user sign in in any browser, and enter a code there.
	DeviceCode Grant = "device-code"

	// ClientCredentials is for programs: the client itself is who signs in.
	ClientCredentials Grant = "client-credentials"

	// JWTBearer is for programs and companies: a token that somebody else has issued,
	// see [Config.Assertion], is exchanged for one of the server's.
	JWTBearer Grant = "jwt-bearer"
)

// Grants are all grants but the default.
var Grants = []Grant{DeviceCode, ClientCredentials, JWTBearer}

// DefaultTimeout is how long a user may take to sign in.
const DefaultTimeout = 5 * time.Minute

// Config says how to sign in to a server. Only Server must be given.
type Config struct {
	// Server is the URL of the server.
	Server string

	// Store is where the sign-in is kept. If nil, it ends with the Source.
	Store *Store

	// Subject is whose sign-in it is, where one process has those of several users.
	Subject string

	// Grant is how tokens are had.
	Grant Grant

	// ClientID is the client that we are registered as, with ClientSecret or with
	// ClientKey, a private key in PEM, if it has one. ClientAuth is how it proves who it
	// is, as in "client_secret_post"; if empty, in a way that the authorization server
	// knows. KeyID and Algorithm are told with what ClientKey signs.
	ClientID, ClientSecret string
	ClientKey              []byte
	ClientAuth             string
	KeyID, Algorithm       string

	// MetadataURL is where a client id metadata document of ours is. It is the client id
	// at authorization servers that know such documents. Without it and ClientID we
	// register by ourselves.
	MetadataURL string

	// Name is how we introduce ourselves when we register. If empty, "Dragoman".
	Name string

	// Scopes are asked for in place of those that the server names.
	Scopes []string

	// Issuer is the authorization server, in place of the one that the server names, and
	// Resource what the tokens are asked for, in place of what it publishes. NoResource
	// leaves that out, for authorization servers that refuse it.
	Issuer, Resource string
	NoResource       bool

	// Parameters are added to the authorization request.
	Parameters url.Values

	// CallbackHost, CallbackPort and CallbackPath are where the browser comes back to
	// on this machine, for clients that are registered with an exact address. They
	// default to 127.0.0.1, a free port and /callback.
	CallbackHost string
	CallbackPort int
	CallbackPath string

	// Callback, if not nil, returns where a sign-in that begins comes back to in place of this
	// machine, for users whose browser is elsewhere. If that is nil, it is this machine. It is not asked if
	// CallbackHost, CallbackPort or CallbackPath is given.
	Callback func() *Callback

	// Assertion returns the token that [JWTBearer] exchanges. Exchange, if not nil, makes
	// it of another one at an identity provider first.
	Assertion func(context.Context) (string, error)
	Exchange  *Exchange

	// Prompt tells the user where to sign in, and reports whether the user sees that, as in
	// a window that has opened. It is called by one of all processes that wait for the
	// sign-in, and then by others until it does. If nil, nobody can be asked.
	Prompt func(Prompt) bool

	// Done, if not nil, is called when somebody has signed in after a Prompt, here or in
	// another process, before the requests that wait for that continue.
	Done func()

	// NoBrowser says that Prompt can open no browser on this machine. Then [AuthorizationCode]
	// becomes [DeviceCode] where the authorization server has that and gives us a code, unless
	// a CallbackPort is configured: who knows the port can lead a browser here.
	NoBrowser bool

	// Wait has requests wait for the user, as long as their contexts and Timeout let
	// them. Otherwise they fail immediately with a [SignInError] while the sign-in continues.
	Wait bool

	// Timeout is how long the user may take. Zero means DefaultTimeout.
	Timeout time.Duration

	// TLS configures connections to authorization servers, as it does those to the
	// server.
	TLS *tls.Config

	// Proxy says through which proxy a request goes. If nil, the environment does.
	Proxy func(*http.Request) (*url.URL, error)

	// Logger receives what happens, never a secret. If nil, nothing is logged.
	Logger *slog.Logger
}

// An Exchange turns a token of an identity provider into an assertion for another
// authorization server (RFC 8693), as companies do that decide in one place who may use
// what.
type Exchange struct {
	// TokenEndpoint is the identity provider's, and ClientID and ClientSecret who we are
	// there.
	TokenEndpoint          string
	ClientID, ClientSecret string
}

// A Prompt is what the user is told.
type Prompt struct {
	// URL is where to sign in. It is an https URL, or one of this machine.
	URL string `json:"url,omitempty"`

	// Code is what to enter there, if anything.
	Code string `json:"code,omitempty"`

	// Expires is when the sign-in is given up.
	Expires time.Time `json:"expires,omitzero"`
}

// A Callback is a place of the caller's own that browsers come back to. Unlike a place on this
// machine it can be reached by anybody's browser: whoever has one sees to it that the user who signs in is
// the one whose tokens they will be.
type Callback struct {
	// URI is the redirect URI. A client that registers by itself is registered with it.
	URI string

	// Open is called with a sign-in that begins, or that continues here, and returns the page that the user
	// is told in place of SignIn.URL. It calls SignIn.Take with what comes back to URI with the state. end
	// is called when that is not waited for any more.
	Open func(s *SignIn) (page string, end func(), err error)
}

// A SignIn is a sign-in that waits for a browser.
type SignIn struct {
	// URL is where the user signs in, and State what comes back from there, once.
	URL, State string

	// Expires is when the sign-in is given up.
	Expires time.Time

	// Take is given the parameters that came back, or nil if the user does not want to sign
	// in. The first ones count. The error says what is wrong with them, to the user.
	Take func(answer url.Values) error
}

// normal returns a URL of a server in the one spelling that is kept.
func normal(server string) (*url.URL, error) {
	u, err := url.Parse(server)
	switch {
	case err != nil:
		return nil, errors.New("oauth: the server's URL cannot be read")
	case u.Host == "" || !slices.Contains([]string{"http", "https", "ws", "wss"}, u.Scheme):
		return nil, errors.New("oauth: sign-in is for servers with an http, https, ws or wss URL")
	}
	u.Scheme = strings.Replace(u.Scheme, "ws", "http", 1)
	u.Host = strings.ToLower(u.Host)
	if host, port, err := net.SplitHostPort(u.Host); err == nil && (u.Scheme == "http" && port == "80" || u.Scheme == "https" && port == "443") {
		u.Host = host
		if strings.Contains(host, ":") {
			u.Host = "[" + host + "]"
		}
	}
	if u.Path == "/" {
		u.Path = ""
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	return u, nil
}

// check refuses a configuration that makes no sense.
func (c *Config) check() error {
	_, keyErr := c.key()
	for _, rule := range []struct {
		wrong bool
		text  string
	}{
		{c.Grant != AuthorizationCode && !slices.Contains(Grants, c.Grant), fmt.Sprintf("unknown grant %q: use one of %q", c.Grant, Grants)},
		{keyErr != nil, fmt.Sprint("the client's key cannot be used: ", keyErr)},
		{c.ClientID == "" && c.ClientSecret != "", "there is a client secret and no client id"},
		{c.ClientID == "" && c.ClientKey != nil, "there is a client key and no client id"},
		{c.Grant == ClientCredentials && c.ClientID == "", "client credentials need a client id, and a secret or a key"},
		{c.Grant == JWTBearer && c.Assertion == nil, "there is no assertion to exchange"},
		{c.CallbackPort < 0 || c.CallbackPort > 65535, "the callback port must be between 0 and 65535"},
		{c.CallbackHost != "" && !isLoopback(c.CallbackHost), "the callback host must be this machine: localhost, 127.0.0.1 or ::1"},
		{c.CallbackPath != "" && !strings.HasPrefix(c.CallbackPath, "/"), "the callback path must begin with a slash"},
		{c.MetadataURL != "" && !strings.HasPrefix(c.MetadataURL, "https://"), "the client metadata URL must be an https URL"},
	} {
		if rule.wrong {
			return errors.New("oauth: " + rule.text)
		}
	}
	return nil
}

// key returns the client's key, or nil.
func (c *Config) key() (crypto.Signer, error) {
	if c.ClientKey == nil {
		return nil, nil
	}
	return oidc.ParseKey(c.ClientKey)
}

// credentials returns the client that is configured.
func (c *Config) credentials() (*oidc.Credentials, error) {
	key, err := c.key()
	if err != nil {
		return nil, err
	}
	return &oidc.Credentials{
		ID: c.ClientID, Secret: c.ClientSecret, Method: c.ClientAuth,
		Key: key, KeyID: c.KeyID, Algorithm: c.Algorithm,
	}, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
