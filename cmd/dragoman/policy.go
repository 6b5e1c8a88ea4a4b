package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/rules"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/spf13/cobra"
)

func policyCommand() *cobra.Command {
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
cert:NAME or local:NAME. The exit status is 1 if it is denied.`,
		Example: `  dragoman policy explain --as token:ci files/delete_file
  dragoman policy explain --as user:alice@login.example.com --group dev files resources/read file:///etc/hosts
  dragoman policy explain --as token:ci --hint read-only files/stat`,
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
	if len(args) == 3 {
		q.name = args[2]
	}
	return nil
}

// answer says what the rules come to.
func (q *question) answer(out io.Writer) error {
	files, err := foundFiles(q.files)
	if err != nil {
		return err
	}
	file, report := config.Load(nil, files...)
	if err := report.Refused(); err != nil {
		return err
	}
	if file.Servers[q.server] == nil {
		return fmt.Errorf("there is no server %q in %s", q.server, strings.Join(files, ", "))
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

func (q *question) verdict(g *rules.Grant, h rules.Hints) rules.Verdict {
	switch q.method {
	case protocol.MethodCallTool:
		return g.Tool(q.method, q.name, func() (rules.Hints, bool) { return h, true })
	case protocol.MethodGetPrompt:
		return g.Prompt(q.method, q.name)
	case protocol.MethodReadResource, protocol.MethodSubscribe:
		return g.Resource(q.method, q.name)
	}
	return g.Method(q.method)
}
