package flags

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/spf13/pflag"
)

// SignInSettings are what the command line says about signing in to a server.
type SignInSettings struct {
	Auth        config.ServerAuth
	TLS         config.ServerTLS
	Proxy       string
	command     string // that prints tokens
	secretFile  string
	deviceCode  bool
	credentials bool
	NoBrowser   bool
	NoSignIn    bool
	Timeout     time.Duration
}

// Add adds the flags.
func (s *SignInSettings) Add(f *pflag.FlagSet) {
	f.StringVar(&s.Auth.ClientID, "client-id", "", "`id` of the client that is registered with the server's authorization server (default: we register by ourselves)")
	f.StringVar(&s.secretFile, "client-secret-file", "", "`file` with the secret of that client")
	f.StringVar(&s.Auth.ClientKey, "client-key-file", "", "`file` with the private key of that client, in PEM")
	f.StringVar(&s.Auth.MetadataURL, "client-metadata-url", "", "`URL` of a client id metadata document, in place of a registration")
	f.StringArrayVar(&s.Auth.Scopes, "scope", nil, "`scope` to ask for, in place of those that the server names (repeatable)")
	f.IntVar(&s.Auth.CallbackPort, "callback-port", 0, "`port` that the browser comes back to, for clients that are registered with one (default: a free one)")
	f.BoolVar(&s.NoBrowser, "no-browser", false, "open no browser: say where to sign in, with a code for any machine if the authorization server has that")
	f.BoolVar(&s.deviceCode, "device-code", false, "sign in in any browser, by a code")
	f.BoolVar(&s.credentials, "client-credentials", false, "sign in as the client itself, with its secret or key")
	s.Timeout = oauth.DefaultTimeout
	addPositive(f, &s.Timeout, "auth-timeout", "how long a sign-in may take")
	f.StringVar(&s.TLS.CA, "ca-file", "", "`file` with certificate authorities to trust beside the system's, in PEM")
	f.StringVar(&s.TLS.Cert, "cert-file", "", "`file` with our client certificate, in PEM")
	f.StringVar(&s.TLS.Key, "key-file", "", "`file` with its private key, in PEM (default: in --cert-file)")
	f.StringVar(&s.Proxy, "proxy", "", "`URL` of the proxy to reach the server through, or none (default: that of the environment)")
}

// addTokens adds the flags of tokens that come without a sign-in.
func (s *SignInSettings) addTokens(f *pflag.FlagSet) {
	f.StringVar(&s.Auth.TokenFile, "server-token-file", "", "`file` with a token to send, in place of a sign-in; it is read again when it changes")
	f.StringVar(&s.command, "server-token-command", "", "`command` that prints a token to send, or headers as JSON, in place of a sign-in")
}

// isForURL reports whether something is said that is of use with a URL alone.
func (s *SignInSettings) isForURL() bool {
	return s.Auth.TokenFile != "" || s.command != "" || s.TLS != config.ServerTLS{} || s.Proxy != ""
}

// Settle reads what files say, and decides on the grant.
func (s *SignInSettings) Settle() error {
	switch {
	case s.deviceCode && s.credentials:
		return errors.New("--device-code and --client-credentials are two ways to sign in; choose one")
	case s.deviceCode:
		s.Auth.Grant = string(oauth.DeviceCode)
	case s.credentials:
		s.Auth.Grant = string(oauth.ClientCredentials)
	}
	if s.NoSignIn {
		s.Auth.SignIn = "none"
	}
	if s.command != "" {
		var err error
		if s.Auth.Command, err = SplitCommand(s.command); err != nil {
			return fmt.Errorf("--server-token-command: %w", err)
		}
		if s.Auth.TokenFile != "" {
			return errors.New("--server-token-file and --server-token-command are two places of a token; choose one")
		}
	}
	if s.secretFile != "" {
		text, err := os.ReadFile(s.secretFile)
		if err != nil {
			return fmt.Errorf("--client-secret-file: %w", err)
		}
		s.Auth.ClientSecret = strings.TrimSpace(string(text))
	}
	return nil
}

// Options returns how servers are signed in to. wait has requests wait for the user.
func (s *SignInSettings) Options(wait bool, v *term.Console) *upstream.SignInOptions {
	return &upstream.SignInOptions{
		Store: OpenSignIns(v), Wait: wait, Timeout: s.Timeout, NoBrowser: !s.OpensBrowser(""),
		Prompt: func(server string, p oauth.Prompt) bool {
			return ShowPrompt(server, p, s.OpensBrowser(s.Auth.Grant), v)
		},
		Command: func(c *config.Server) string { return "dragoman login " + typedURL(c.URL) },
	}
}

// typedURL returns a URL as it may be shown to clients, too: as a word for it if it may hold a
// secret.
func typedURL(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.RawQuery != "" || redact.Text(text) != text ||
		slices.ContainsFunc(strings.Split(u.Path, "/"), func(part string) bool { return len(part) > 20 }) {
		return "URL"
	}
	return text
}

// OpensBrowser reports whether a browser is opened here for a server with that grant: who
// has configured codes wants to enter them elsewhere.
func (s *SignInSettings) OpensBrowser(grant string) bool {
	return !s.NoBrowser && grant != string(oauth.DeviceCode) && oauth.HasBrowser()
}

// OpenSignIns returns what opens the store of this user, or one that ends with us, when
// that is first wanted.
func OpenSignIns(v *term.Console) func() *oauth.Store {
	return sync.OnceValue(func() *oauth.Store {
		store, err := OpenStore()
		if err != nil {
			v.Warnf("sign-ins end with this process: %v", term.PlainError(err))
			return oauth.NewMemory()
		}
		return store
	})
}

// OpenStore opens the sign-ins of this user.
func OpenStore() (*oauth.Store, error) {
	dir, err := oauth.DefaultDir()
	if err != nil {
		return nil, err
	}
	return oauth.OpenStore(dir)
}

// ShowPrompt tells the user where to sign in, and opens a browser there if it should. It
// reports whether it has.
func ShowPrompt(server string, p oauth.Prompt, browser bool, v *term.Console) bool {
	code := ""
	if p.Code != "" {
		code = " and enter " + p.Code
	}
	if browser && oauth.OpenBrowser(p.URL) == nil {
		v.Warnf("sign in to %s in the browser%s; if none has opened: %s", server, code, p.URL)
		return true
	}
	v.Warnf("sign in to %s: open %s%s", server, p.URL, code)
	return false
}

// checkSignIn refuses a configuration of a sign-in that makes no sense.
func checkSignIn(c *config.Server) error {
	conf, err := upstream.SignInConfig(c)
	if err != nil || !upstream.SignsIn(c) {
		return err
	}
	source, err := oauth.New(conf)
	if err != nil {
		return term.PlainError(err)
	}
	return source.Close()
}

// callbackPort takes the port that follows the URL on the command line of mcp-remote.
func (s *SignInSettings) callbackPort(text string) error {
	port, err := strconv.ParseUint(text, 10, 16)
	if err == nil && s.Auth.CallbackPort == 0 {
		s.Auth.CallbackPort = int(port)
	}
	return err
}
