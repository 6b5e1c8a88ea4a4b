package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/manager"
	"github.com/dragoman-mcp/dragoman/internal/near"
	"github.com/dragoman-mcp/dragoman/internal/redact"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// signInSettings are what the command line says about signing in to a server.
type signInSettings struct {
	auth        config.ServerAuth
	tls         config.ServerTLS
	proxy       string
	command     string // that prints tokens
	secretFile  string
	deviceCode  bool
	credentials bool
	noBrowser   bool
	noSignIn    bool
	timeout     time.Duration
}

// add adds the flags.
func (s *signInSettings) add(f *pflag.FlagSet) {
	f.StringVar(&s.auth.ClientID, "client-id", "", "`id` of the client that is registered with the server's authorization server (default: we register by ourselves)")
	f.StringVar(&s.secretFile, "client-secret-file", "", "`file` with the secret of that client")
	f.StringVar(&s.auth.ClientKey, "client-key-file", "", "`file` with the private key of that client, in PEM")
	f.StringVar(&s.auth.MetadataURL, "client-metadata-url", "", "`URL` of a client id metadata document, in place of a registration")
	f.StringArrayVar(&s.auth.Scopes, "scope", nil, "`scope` to ask for, in place of those that the server names (repeatable)")
	f.IntVar(&s.auth.CallbackPort, "callback-port", 0, "`port` that the browser comes back to, for clients that are registered with one (default: a free one)")
	f.BoolVar(&s.noBrowser, "no-browser", false, "open no browser: say where to sign in, with a code for any machine if the authorization server has that")
	f.BoolVar(&s.deviceCode, "device-code", false, "sign in in any browser, by a code")
	f.BoolVar(&s.credentials, "client-credentials", false, "sign in as the client itself, with its secret or key")
	s.timeout = oauth.DefaultTimeout
	f.Var((*seconds)(&s.timeout), "auth-timeout", "how long a sign-in may take")
	f.StringVar(&s.tls.CA, "ca-file", "", "`file` with certificate authorities to trust beside the system's, in PEM")
	f.StringVar(&s.tls.Cert, "cert-file", "", "`file` with our client certificate, in PEM")
	f.StringVar(&s.tls.Key, "key-file", "", "`file` with its private key, in PEM (default: in --cert-file)")
	f.StringVar(&s.proxy, "proxy", "", "`URL` of the proxy to reach the server through, or none (default: that of the environment)")
}

// addTokens adds the flags of tokens that come without a sign-in.
func (s *signInSettings) addTokens(f *pflag.FlagSet) {
	f.StringVar(&s.auth.TokenFile, "server-token-file", "", "`file` with a token to send, in place of a sign-in; it is read again when it changes")
	f.StringVar(&s.command, "server-token-command", "", "`command` that prints a token to send, or headers as JSON, in place of a sign-in")
}

// isForURL reports whether something is said that is of use with a URL alone.
func (s *signInSettings) isForURL() bool {
	return s.auth.TokenFile != "" || s.command != "" || s.tls != config.ServerTLS{} || s.proxy != ""
}

// settle reads what files say, and decides on the grant.
func (s *signInSettings) settle() error {
	switch {
	case s.deviceCode && s.credentials:
		return errors.New("--device-code and --client-credentials are two ways to sign in; choose one")
	case s.deviceCode:
		s.auth.Grant = string(oauth.DeviceCode)
	case s.credentials:
		s.auth.Grant = string(oauth.ClientCredentials)
	}
	if s.noSignIn {
		s.auth.SignIn = "none"
	}
	if s.command != "" {
		var err error
		if s.auth.Command, err = splitCommand(s.command); err != nil {
			return fmt.Errorf("--server-token-command: %w", err)
		}
		if s.auth.TokenFile != "" {
			return errors.New("--server-token-file and --server-token-command are two places of a token; choose one")
		}
	}
	if s.secretFile != "" {
		text, err := os.ReadFile(s.secretFile)
		if err != nil {
			return fmt.Errorf("--client-secret-file: %w", err)
		}
		s.auth.ClientSecret = strings.TrimSpace(string(text))
	}
	return nil
}

// options returns how servers are signed in to. wait has requests wait for the user.
func (s *signInSettings) options(wait bool, v *console) *manager.SignInOptions {
	return &manager.SignInOptions{
		Store: openSignIns(v), Wait: wait, Timeout: s.timeout, NoBrowser: !s.opensBrowser(""),
		Prompt: func(server string, p oauth.Prompt) bool {
			return showPrompt(server, p, s.opensBrowser(s.auth.Grant), v)
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

// opensBrowser reports whether a browser is opened here for a server with that grant: who
// has configured codes wants to enter them elsewhere.
func (s *signInSettings) opensBrowser(grant string) bool {
	return !s.noBrowser && grant != string(oauth.DeviceCode) && oauth.HasBrowser()
}

// openSignIns returns what opens the store of this user, or one that ends with us, when
// that is first wanted.
func openSignIns(v *console) func() *oauth.Store {
	return sync.OnceValue(func() *oauth.Store {
		store, err := openStore()
		if err != nil {
			v.warnf("sign-ins end with this process: %v", plain(err))
			return oauth.NewMemory()
		}
		return store
	})
}

func openStore() (*oauth.Store, error) {
	dir, err := oauth.DefaultDir()
	if err != nil {
		return nil, err
	}
	return oauth.OpenStore(dir)
}

// showPrompt tells the user where to sign in, and opens a browser there if it should. It
// reports whether it has.
func showPrompt(server string, p oauth.Prompt, browser bool, v *console) bool {
	code := ""
	if p.Code != "" {
		code = " and enter " + p.Code
	}
	if browser && oauth.OpenBrowser(p.URL) == nil {
		v.warnf("sign in to %s in the browser%s; if none has opened: %s", server, code, p.URL)
		return true
	}
	v.warnf("sign in to %s: open %s%s", server, p.URL, code)
	return false
}

// A signIn is the sign-in at a server that a command line names.
type signIn struct {
	*oauth.Source
	name  string
	store *oauth.Store
}

func (s *signIn) close() {
	_ = s.Close()       // it has no error
	_ = s.store.Close() // nothing is written by that
}

// openSignIn returns the sign-in at a server that is named by its URL, or by its name in a
// configuration.
func openSignIn(s *signInSettings, name string, files []string, v *console) (*signIn, error) {
	if err := s.settle(); err != nil {
		return nil, err
	}
	c := &config.Server{Name: name, URL: name, Auth: s.auth, TLS: s.tls, Proxy: s.proxy}
	if !target.IsURL(name) {
		named, err := serverNamed(name, files)
		if err != nil {
			return nil, err
		}
		c = named
	}
	if c.URL == "" {
		return nil, fmt.Errorf("%s is started by a command; sign-in is for servers with a URL", name)
	}
	if c.Auth.TokenFile != "" || len(c.Auth.Command) > 0 {
		return nil, fmt.Errorf("%s has a token in its configuration, and no sign-in is made", name)
	}
	conf, err := manager.SignInConfig(c)
	if err != nil {
		return nil, err
	}
	store, err := openStore()
	if err != nil {
		return nil, err
	}
	if target.IsURL(name) {
		name = target.NameOfURL(name)
	}
	conf.Store, conf.Logger, conf.Timeout = store, v.log, s.timeout
	conf.NoBrowser = !s.opensBrowser("") && c.Auth.Grant == ""
	conf.Prompt = func(p oauth.Prompt) bool { return showPrompt(name, p, s.opensBrowser(c.Auth.Grant), v) }
	source, err := oauth.New(conf)
	if err != nil {
		_ = store.Close() // err is what matters
		return nil, errors.New(strings.TrimPrefix(err.Error(), "oauth: "))
	}
	return &signIn{Source: source, name: name, store: store}, nil
}

// checkSignIn refuses a configuration of a sign-in that makes no sense.
func checkSignIn(c *config.Server) error {
	conf, err := manager.SignInConfig(c)
	if err != nil || !manager.SignsIn(c) {
		return err
	}
	source, err := oauth.New(conf)
	if err != nil {
		return plain(err)
	}
	return source.Close()
}

// serverNamed returns a server of a configuration.
func serverNamed(name string, files []string) (*config.Server, error) {
	found, err := foundFiles(files)
	if err != nil {
		return nil, fmt.Errorf("%q is no URL, and %w", name, err)
	}
	file, report := config.Load(nil, found...)
	if c := file.Servers[name]; c != nil {
		return c, nil
	}
	if slices.Contains(file.Broken, name) {
		return nil, errors.New(report.Error())
	}
	return nil, fmt.Errorf("%q is no URL, and no server of %s: %s", name, strings.Join(found, ", "),
		cmp.Or(near.Hint(name, slices.Values(file.Names)), "there are "+strings.Join(file.Names, ", ")))
}

// signInCommand returns a command about the sign-in at one server.
func signInCommand(use, short, long, example string, do func(context.Context, *signIn, io.Writer) error) *cobra.Command {
	var (
		s     signInSettings
		files []string
	)
	c := &cobra.Command{
		Use: use + " [flags] URL | NAME", Short: short, Long: long, Example: example, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			v, err := consoleOf(c, "", nil)
			if err != nil {
				return err
			}
			in, err := openSignIn(&s, args[0], files, v)
			if err != nil {
				return err
			}
			defer in.close()
			return do(c.Context(), in, c.OutOrStdout())
		},
	}
	s.add(c.Flags())
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "configuration in which NAME is looked up (repeatable, default as for serve)")
	c.Flags().Bool("debug", false, debugUsage)
	return c
}

func loginCommand() *cobra.Command {
	var takeOver bool
	c := signInCommand("login", "Sign in to a server", `Sign in to a server that wants to know who asks (OAuth). The server is named by its URL, or
by its name in a configuration.

A browser opens at the server's sign-in page. Without one, or with --no-browser, a page and a
code are printed, to be used on any machine, if the authorization server has codes; else, or
with --callback-port, a page that must be opened on this machine. --device-code always prints
a code. All processes of this user share the sign-in: connect, run and serve use it and keep
it fresh.`,
		`  dragoman login https://mcp.example.com/mcp
  dragoman login search --no-browser`,
		func(ctx context.Context, in *signIn, out io.Writer) error {
			if takeOver {
				if err := in.takeOver(ctx); err != nil {
					return plain(err)
				}
			} else if err := in.SignIn(ctx); err != nil {
				return plain(err)
			}
			st, err := in.Status()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(out, "signed in to %s\n", describe(in.name, &st))
			return err
		})
	c.Flags().BoolVar(&takeOver, "from-mcp-remote", false, "take over the sign-in that mcp-remote has, in place of a new one")
	return c
}

// takeOver takes over the sign-in of mcp-remote, and tries it.
func (s *signIn) takeOver(ctx context.Context) error {
	found, err := s.TakeOver(ctx, "")
	if err == nil && !found {
		err = fmt.Errorf("mcp-remote has no sign-in at %s; leave out --from-mcp-remote", s.name)
	}
	if err == nil {
		_, err = s.Token(ctx)
	}
	return err
}

func logoutCommand() *cobra.Command {
	return signInCommand("logout", "Sign out of a server", `Sign out of a server: its tokens are revoked, where the authorization server can do that,
and forgotten.`, "  dragoman logout https://mcp.example.com/mcp",
		func(ctx context.Context, in *signIn, out io.Writer) error {
			had, err := in.SignOut(ctx)
			if err != nil {
				return plain(err)
			}
			text := "signed out of"
			if !had {
				text = "was not signed in to"
			}
			_, err = fmt.Fprintf(out, "%s %s\n", text, in.name)
			return err
		})
}

func authCommand() *cobra.Command {
	c := &cobra.Command{Use: "auth", Short: "Show sign-ins, and tokens for scripts"}
	c.AddCommand(authStatusCommand(), signInCommand("token", "Print a token for a server",
		`Print a token for a server, for scripts that call it by themselves. One that has ended is
refreshed; nobody is asked to sign in. Whoever has the token can do what you can.`,
		"  curl -H \"Authorization: Bearer $(dragoman auth token https://mcp.example.com/mcp)\" https://mcp.example.com/mcp",
		func(ctx context.Context, in *signIn, out io.Writer) error {
			token, err := in.Token(ctx)
			if _, needed := errors.AsType[*oauth.SignInError](err); needed {
				return fmt.Errorf("nobody is signed in to %s: run dragoman login", in.name)
			}
			if err != nil {
				return plain(err)
			}
			_, err = fmt.Fprintln(out, token)
			return err
		}))
	return c
}

func authStatusCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:     "status",
		Example: "  dragoman auth status --json",
		Short:   "Show who is signed in where, for what and until when",
		Long: `Show who is signed in where, for what and until when. Files that cannot be read as a sign-in
are named on standard error, with what to do; that is an error only if there is nothing
else to show.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			store, err := openStore()
			if err != nil {
				return err
			}
			defer store.Close()
			list, err := store.Statuses()
			if err != nil && len(list) == 0 {
				return plain(err)
			}
			if err != nil {
				v, err2 := consoleOf(c, "", nil)
				if err2 != nil {
					return err2
				}
				v.warnf("%v", plain(err))
			}
			if asJSON {
				e := json.NewEncoder(c.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(list)
			}
			return showSignIns(c.OutOrStdout(), list)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}

// showSignIns prints a table.
func showSignIns(out io.Writer, list []oauth.Status) error {
	if len(list) == 0 {
		_, err := fmt.Fprintln(out, "nobody is signed in anywhere; run dragoman login URL")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SERVER\tSIGNED IN\tISSUER\tSCOPE\tTOKEN")
	for _, s := range list {
		who := "no"
		if s.SignedIn {
			who = "yes"
		}
		if s.SignedIn && s.Who != "" {
			who = s.Who
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.Server, who, orDash(s.Issuer), orDash(s.Scope), tokenLife(&s))
	}
	return w.Flush()
}

// describe says what a sign-in is, in a line.
func describe(name string, s *oauth.Status) string {
	if s.Who != "" {
		name += " as " + s.Who
	}
	if s.Scope != "" {
		name += ", for " + s.Scope
	}
	return name + " (token " + tokenLife(s) + ")"
}

// tokenLife says until when a token is good.
func tokenLife(s *oauth.Status) string {
	left := time.Until(s.Expires).Round(time.Second)
	switch {
	case !s.SignedIn:
		return "-"
	case s.Expires.IsZero():
		return "without an end that is known"
	case left <= 0:
		return "refreshed when it is used"
	case s.Renewable:
		return "for " + left.String() + ", then refreshed"
	}
	return "for " + left.String()
}

// plain returns an error of package oauth for people.
func plain(err error) error {
	text := strings.ReplaceAll(err.Error(), "\noauth: ", "\n")
	return errors.New(strings.TrimPrefix(text, "oauth: "))
}

// callbackPort takes the port that follows the URL on the command line of mcp-remote.
func (s *signInSettings) callbackPort(text string) error {
	port, err := strconv.ParseUint(text, 10, 16)
	if err == nil && s.auth.CallbackPort == 0 {
		s.auth.CallbackPort = int(port)
	}
	return err
}
