package admin

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/access/auth"
	"github.com/dragoman-mcp/dragoman/internal/access/rules"
	"github.com/dragoman-mcp/dragoman/internal/cli/control"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// TokenCommand is dragoman token.
func TokenCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "token",
		Short: "Make and revoke tokens that let clients in",
		Long: `Make and revoke tokens that let clients in to "dragoman run" and "dragoman serve". They are
kept as digests in a file that --token-file or auth.tokenFile names.`,
	}
	c.AddCommand(tokenNewCommand(), tokenListCommand(), tokenRevokeCommand())
	return c
}

func tokenNewCommand() *cobra.Command {
	var (
		file, expires string
		t             auth.Token
	)
	c := &cobra.Command{
		Use:   "new --name NAME [flags]",
		Short: "Make a token, and print it",
		Long: `Make a token, print it, and keep its digest. It is shown this once: give it to its holder,
who sends it as "Authorization: Bearer TOKEN". Whoever has it is let in as token:NAME.`,
		Example: `  dragoman token new --name alice
  dragoman token new --name ci --scope search:read --expires 90d --file tokens.json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return term.Usage("the name of a token is a flag: dragoman token new --name %s", args[0])
			}
			return nil
		},
		RunE: func(c *cobra.Command, _ []string) error {
			if t.Name == "" {
				return term.Usage("a token needs a name: --name NAME")
			}
			path, err := tokenFile(file)
			if err != nil {
				return err
			}
			t.Created = time.Now().UTC().Truncate(time.Second)
			if expires != "" {
				life, err := parseDays(expires)
				if err != nil {
					return fmt.Errorf("--expires: %w", err)
				}
				t.Expires = t.Created.Add(life)
			}
			var secret string
			secret, t.Hash = auth.NewSecret()
			if err := auth.AddToken(c.Context(), path, &t); err != nil {
				return err
			}
			fmt.Fprintf(c.ErrOrStderr(), "kept in %s; clients send it as Authorization: Bearer TOKEN\n", path)
			_, err = fmt.Fprintln(c.OutOrStdout(), secret)
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&t.Name, "name", "", "`name` of who holds the token")
	f.StringArrayVar(&t.Scopes, "scope", nil, "`scope` that it grants (repeatable)")
	f.StringArrayVar(&t.Groups, "group", nil, "`group` that its holder belongs to (repeatable)")
	f.StringVar(&expires, "expires", "", "`time` until it expires, such as 90d or 12h (default: forever)")
	addTokenFile(f, &file)
	return c
}

func tokenListCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "list", Short: "List the tokens, without the tokens themselves", Example: "  dragoman token list", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			path, err := tokenFile(file)
			if err != nil {
				return err
			}
			list, err := auth.ReadTokens(path)
			if errors.Is(err, fs.ErrNotExist) || err == nil && len(list) == 0 {
				fmt.Fprintf(c.ErrOrStderr(), "there are no tokens yet in %s; dragoman token new makes one\n", path)
				return nil
			}
			if err != nil {
				return err
			}
			out := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(out, "NAME\tSCOPES\tGROUPS\tCREATED\tEXPIRES")
			for _, t := range list {
				fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", t.Name, term.OrDash(strings.Join(t.Scopes, " ")), term.OrDash(strings.Join(t.Groups, " ")),
					term.OrDash(day(t.Created)), term.OrDash(day(t.Expires)))
			}
			return out.Flush()
		},
	}
	addTokenFile(c.Flags(), &file)
	return c
}

func tokenRevokeCommand() *cobra.Command {
	var file string
	c := &cobra.Command{
		Use: "revoke NAME", Short: "Revoke a token", Example: "  dragoman token revoke laptop", Args: cobra.ExactArgs(1),
		Long: `Revoke a token. Programs that use the file let nobody in with it from then on, and end the
streams that its holder has open, within seconds.`,
		RunE: func(c *cobra.Command, args []string) error {
			path, err := tokenFile(file)
			if err != nil {
				return err
			}
			if err := auth.RemoveToken(c.Context(), path, args[0]); err != nil {
				return err
			}
			_, err = fmt.Fprintf(c.OutOrStdout(), "revoked %s\n", args[0])
			return err
		},
	}
	addTokenFile(c.Flags(), &file)
	return c
}

func addTokenFile(f *pflag.FlagSet, file *string) {
	f.StringVar(file, "file", "", "`file` of the tokens (default: tokens.json in the configuration directory of the user)")
}

// tokenFile returns the full path of the file of tokens.
func tokenFile(file string) (string, error) {
	if file != "" {
		return filepath.Abs(file)
	}
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("name the file by --file: %w", err)
	}
	return filepath.Join(dir, "dragoman", "tokens.json"), nil
}

// parseDays reads a time that may be given in days.
func parseDays(text string) (time.Duration, error) {
	if number, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(number)
		if err != nil || n <= 0 || n > 36500 {
			return 0, fmt.Errorf("%q is no number of days", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err == nil && d <= 0 {
		err = errors.New("a time above zero is expected")
	}
	return d, err
}

func day(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Local().Format(time.DateTime)
}

// PolicyCommand is dragoman policy.
func PolicyCommand() *cobra.Command {
	c := &cobra.Command{Use: "policy", Short: "Explain who may use what"}
	c.AddCommand(policyExplainCommand())
	return c
}

var errDenied = errors.New("denied")

// A question is what somebody wants to do, for "policy explain".
type question struct {
	files, groups, scopes, claims, hints []string
	as                                   string
	server, method, name                 string
}

func policyExplainCommand() *cobra.Command {
	q := &question{}
	c := &cobra.Command{
		Use:   "explain --as WHO [flags] SERVER/TOOL | SERVER METHOD [NAME]",
		Short: "Say whether somebody may do something, and by which rule",
		Long: `Say whether somebody may do something, and by which rule of the configuration. Nothing is
started, and nobody is asked. WHO is written as in rules: token:NAME, user:NAME@ISSUER,
cert:NAME or local:NAME. The exit status is 1 if it is denied.

NAME is the tool, the prompt or the URI that a request is about: for a list an element of it, for
subscriptions/listen a URI, for completion/complete a prompt or a URI, for a method of tasks the
tool that was called.`,
		Example: `  dragoman policy explain --as token:ci files/delete_file
  dragoman policy explain --as user:alice@login.example.com --group dev files resources/read file:///etc/hosts
  dragoman policy explain --as token:ci --hint read-only files/stat
  dragoman policy explain --as token:ci files subscriptions/listen file:///etc/hosts`,
		Args: cobra.RangeArgs(1, 3),
		RunE: func(c *cobra.Command, args []string) error {
			if err := q.read(args); err != nil {
				return err
			}
			return q.answer(c.OutOrStdout())
		},
	}
	f := c.Flags()
	f.StringArrayVarP(&q.files, "file", "f", nil, "`file` with the configuration (repeatable, default as for serve)")
	f.StringVar(&q.as, "as", "", "`who` it is: token:NAME, user:NAME@ISSUER, cert:NAME or local:NAME")
	f.StringArrayVar(&q.groups, "group", nil, "`group` that they are in (repeatable)")
	f.StringArrayVar(&q.scopes, "scope", nil, "`scope` that they have (repeatable)")
	f.StringArrayVar(&q.claims, "claim", nil, "`NAME=VALUE` that is known of them (repeatable)")
	f.StringArrayVar(&q.hints, "hint", nil, "`hint` of the tool: read-only, idempotent, not-destructive or closed-world (repeatable, default: none, as if its server says nothing)")
	return c
}

// read takes the arguments.
func (q *question) read(args []string) error {
	if q.as == "" {
		return errors.New("say who it is: --as token:NAME, user:NAME@ISSUER, cert:NAME or local:NAME")
	}
	if len(args) == 1 {
		var ok bool
		q.method = protocol.MethodCallTool
		if q.server, q.name, ok = strings.Cut(args[0], "/"); !ok || q.server == "" || q.name == "" {
			return fmt.Errorf("%q names no tool: write SERVER/TOOL, or SERVER METHOD NAME", args[0])
		}
		return nil
	}
	q.server, q.method = args[0], args[1]
	if meant, is := rules.Misspelt(q.method); is {
		return fmt.Errorf("%q is refused whatever the rules say; names of methods are written as in the specification%s", q.method, hintOf(meant))
	}
	if len(args) == 3 {
		q.name = args[2]
	}
	return nil
}

func hintOf(meant string) string {
	if meant == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", meant)
}

// answer says what the rules come to.
func (q *question) answer(out io.Writer) error {
	files, err := control.Files(q.files)
	if err != nil {
		return err
	}
	file, report := config.Load(nil, files...)
	if err := report.Refused(); err != nil {
		return err
	}
	if file.Servers[q.server] == nil {
		return fmt.Errorf("there is no server %q in %s: %s", q.server, strings.Join(files, ", "),
			cmp.Or(humanize.SuggestHint(q.server, slices.Values(file.Names)), "there are "+strings.Join(file.Names, ", ")))
	}
	caller, err := q.caller()
	if err != nil {
		return err
	}
	set, wrong := rules.Parse(file.Rules, file.RuleOptions())
	if len(wrong) > 0 {
		return fmt.Errorf("%d of the rules have mistakes; dragoman config check names them", len(wrong))
	}
	hints, err := q.toolHints()
	if err != nil {
		return err
	}
	grant := set.For(caller, q.server)
	v := q.verdict(grant, hints)
	return q.tell(out, grant, v, len(file.Rules) > 0)
}

// tell says it in words.
func (q *question) tell(out io.Writer, grant *rules.Grant, v rules.Verdict, ruled bool) error {
	what := fmt.Sprintf("%s on %s", strings.TrimSpace(q.method+" "+q.name), q.server)
	switch {
	case !ruled:
		_, err := fmt.Fprintf(out, "allowed: %s (there are no rules, so everything is)\n", what)
		return err
	case v.Allowed:
		_, err := fmt.Fprintf(out, "allowed: %s\nby: %s\n", what, v.Rule)
		return err
	case len(v.Scopes) > 0:
		fmt.Fprintf(out, "needs a token with %s: %s\nby: %s\n", strings.Join(v.Scopes, " "), what, v.Rule)
	case v.Rule != nil:
		fmt.Fprintf(out, "denied: %s\nby: %s\n", what, v.Rule)
	default:
		fmt.Fprintf(out, "denied: %s\nno rule allows it to %s\n", what, q.as)
	}
	if list := grant.Rules(); v.Rule == nil && len(list) > 0 {
		fmt.Fprintf(out, "rules about %s at %s:\n", q.as, q.server)
		for _, r := range list {
			fmt.Fprintf(out, "  %s\n", r)
		}
	}
	return errDenied
}

func (q *question) caller() (*dragoman.Caller, error) {
	c := &dragoman.Caller{Principal: q.as, Scopes: q.scopes, Claims: map[string][]string{rules.Groups: q.groups}}
	for _, claim := range q.claims {
		name, value, ok := strings.Cut(claim, "=")
		if !ok {
			return nil, fmt.Errorf("--claim %s: write NAME=VALUE", claim)
		}
		c.Claims[name] = append(c.Claims[name], value)
	}
	return c, nil
}

func (q *question) toolHints() (rules.Hints, error) {
	h := rules.Hints{Destructive: true, OpenWorld: true}
	for _, hint := range q.hints {
		switch hint {
		case "read-only":
			h.ReadOnly, h.Destructive = true, false
		case "idempotent":
			h.Idempotent = true
		case "not-destructive":
			h.Destructive = false
		case "closed-world":
			h.OpenWorld = false
		default:
			return h, fmt.Errorf("--hint %s: use read-only, idempotent, not-destructive or closed-world", hint)
		}
	}
	return h, nil
}

// verdict decides as the gateway does.
func (q *question) verdict(g *rules.Grant, h rules.Hints) rules.Verdict {
	return g.Decide(q.method, q.name, func() (rules.Hints, bool) { return h, true })
}
