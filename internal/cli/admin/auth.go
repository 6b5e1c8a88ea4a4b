package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/cli/control"
	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/spf13/cobra"
)

// A signIn is the sign-in at a server that a command line names.
type signIn struct {
	*oauth.Source
	name, url string
	target    string // as the command line names it
	store     *oauth.Store
}

func (s *signIn) close() {
	_ = s.Close()       // it has no error
	_ = s.store.Close() // nothing is written by that
}

// openSignIn returns the sign-in at a server that is named by its URL, or by its name in a
// configuration.
func openSignIn(s *flags.SignInSettings, name string, files []string, v *term.Console) (*signIn, error) {
	if err := s.Settle(); err != nil {
		return nil, err
	}
	c := &config.Server{Name: name, URL: name, Auth: s.Auth, TLS: s.TLS, Proxy: s.Proxy}
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
	conf, err := upstream.SignInConfig(c)
	if err != nil {
		return nil, err
	}
	store, err := flags.OpenStore()
	if err != nil {
		return nil, err
	}
	named := name
	if target.IsURL(name) {
		name = target.NameOfURL(name)
	}
	conf.Store, conf.Logger, conf.Timeout = store, v.Log, s.Timeout
	conf.NoBrowser = !s.OpensBrowser("") && c.Auth.Grant == ""
	conf.Prompt = func(p oauth.Prompt) bool { return flags.ShowPrompt(name, p, s.OpensBrowser(c.Auth.Grant), v) }
	source, err := oauth.New(conf)
	if err != nil {
		_ = store.Close() // err is what matters
		return nil, term.PlainError(err)
	}
	return &signIn{Source: source, name: name, url: c.URL, target: named, store: store}, nil
}

// serverNamed returns a server of a configuration.
func serverNamed(name string, files []string) (*config.Server, error) {
	found, err := control.Files(files)
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
		cmp.Or(humanize.SuggestHint(name, slices.Values(file.Names)), "there are "+strings.Join(file.Names, ", ")))
}

// signInCommand returns a command about the sign-in at one server.
func signInCommand(use, short, long, example string, do func(context.Context, *signIn, io.Writer) error) *cobra.Command {
	var (
		s     flags.SignInSettings
		files []string
	)
	c := &cobra.Command{
		Use: use + " [flags] URL | NAME", Short: short, Long: long, Example: example, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			v, err := term.ConsoleOf(c, "", nil)
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
	s.Add(c.Flags())
	c.Flags().StringArrayVarP(&files, "file", "f", nil, "configuration in which NAME is looked up (repeatable, default as for serve)")
	c.Flags().Bool("debug", false, term.DebugUsage)
	return c
}

// LoginCommand is dragoman login.
func LoginCommand() *cobra.Command {
	var takeOver bool
	c := signInCommand("login", "Sign in to a server", `Sign in to a server that requires authentication (OAuth). The server is named by its URL, or
by its name in a configuration.

A browser opens at the server's sign-in page. Without one, or with --no-browser, a page and a
code are printed, to be used on any machine, if the authorization server has codes; else, or
with --callback-port, a page that must be opened on this machine. --device-code always prints
a code. All processes of this user share the sign-in: connect, run and serve use it and keep
it fresh.`,
		`  dragoman login https://mcp.example.com/mcp
  dragoman login search --no-browser`,
		func(ctx context.Context, in *signIn, out io.Writer) error {
			do := in.SignIn
			if takeOver {
				do = in.takeOver
			}
			if err := do(ctx); err != nil {
				return in.failed(err)
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

// failed returns why there is no sign-in, with what to do next where that is known.
func (s *signIn) failed(err error) error {
	f := term.FailureOf(term.PlainError(err))
	switch {
	case errors.Is(err, oauth.ErrNoAnswer):
		f.Status = term.ExitUnreachable
	case f.Status == term.ExitOther:
		f.Status = term.ExitAuthorization
	}
	if errors.Is(err, oauth.ErrNotOffered) {
		f.Hint = "it may need none: dragoman tools " + s.url + "; if it wants a token that you have, add -H 'Authorization: Bearer TOKEN'"
	}
	return f
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

// LogoutCommand is dragoman logout.
func LogoutCommand() *cobra.Command {
	return signInCommand("logout", "Sign out of a server", `Sign out of a server: its tokens are revoked, where the authorization server can do that,
and forgotten.`, "  dragoman logout https://mcp.example.com/mcp",
		func(ctx context.Context, in *signIn, out io.Writer) error {
			had, err := in.SignOut(ctx)
			if err != nil {
				return term.PlainError(err)
			}
			text := "signed out of"
			if !had {
				text = "was not signed in to"
			}
			_, err = fmt.Fprintf(out, "%s %s\n", text, in.name)
			return err
		})
}

// AuthCommand is dragoman auth.
func AuthCommand() *cobra.Command {
	c := &cobra.Command{Use: "auth", Short: "Show sign-ins, and tokens for scripts"}
	c.AddCommand(authStatusCommand(), signInCommand("token", "Print a token for a server",
		`Print a token for a server, for scripts that call it by themselves. One that has ended is
refreshed; nobody is asked to sign in. Whoever has the token can do what you can.`,
		"  curl -H \"Authorization: Bearer $(dragoman auth token https://mcp.example.com/mcp)\" https://mcp.example.com/mcp",
		func(ctx context.Context, in *signIn, out io.Writer) error {
			token, err := in.Token(ctx)
			if _, needed := errors.AsType[*oauth.SignInError](err); needed {
				return &term.Failure{Status: term.ExitAuthorization, Err: fmt.Errorf("nobody is signed in to %s", in.name), Hint: "dragoman login " + in.target}
			}
			if err != nil {
				return term.PlainError(err)
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
			store, err := flags.OpenStore()
			if err != nil {
				return err
			}
			defer store.Close()
			list, err := store.Statuses()
			if err != nil && len(list) == 0 {
				return term.PlainError(err)
			}
			if err != nil {
				v, err2 := term.ConsoleOf(c, "", nil)
				if err2 != nil {
					return err2
				}
				v.Warnf("%v", term.PlainError(err))
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
		if s.SignedIn && s.User != "" {
			who = s.User
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", s.Server, who, term.OrDash(s.Issuer), term.OrDash(s.Scope), tokenLife(&s))
	}
	return w.Flush()
}

// describe says what a sign-in is, in a line.
func describe(name string, s *oauth.Status) string {
	if s.User != "" {
		name += " as " + s.User
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
