package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/cli/use"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/inspect/check"
	"github.com/dragoman-mcp/dragoman/internal/target/diagnose"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
)

// CheckCommand is dragoman check.
func CheckCommand() *cobra.Command {
	u := &use.Target{Wants: use.Wanted{Only: true}}
	o := &check.Options{}
	var format, args string
	var all, rules bool
	c := &cobra.Command{
		Use:   "check [TARGET] | -- command [args...]",
		Short: "Check a server against the rules of MCP, and against what hosts refuse",
		Long: `Check a server against the rules of MCP that can be seen from outside, and its tools against what
common hosts refuse. What breaks a rule is shown with the messages in which it was seen, without
secrets. No tool is called unless --call names one.

A command is started several times. The exit status is 6 if there are errors or warnings; notes
do not count. The rules are listed in docs/check.md, and by --rules.

` + use.TargetHelp,
		Example: `  dragoman check https://mcp.example.com/mcp
  dragoman check --all -- npx -y @modelcontextprotocol/server-everything
  dragoman check files --smoke --call list_directory --args '{"path": "."}'
  dragoman check files -o junit --ignore 'tool-*' > report.xml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, words []string) error {
			if rules {
				return showRules(c)
			}
			u.Format, u.Known = cmp.Or(format, u.Format), check.Formats
			server, _, err := u.Take(c, words)
			if err != nil {
				return err
			}
			if o.Arguments, err = use.ReadArguments(args, c.InOrStdin()); err != nil {
				return term.Usage("--args: %w", err)
			}
			var reached *upstream.Reached
			reached, o.Subject, err = reach(u, server)
			if err != nil {
				return err
			}
			defer reached.Close()
			steps := term.NewSteps(u.Console, "checking "+server.Name)
			out := &check.Printer{W: c.OutOrStdout(), All: all, Fit: term.Fit(c.OutOrStdout())}
			o.Progress = func(soFar *check.Report, rule string) {
				group, _, _ := strings.Cut(rule, "-")
				steps.Next(cmp.Or(group, "its first answer"))
				if soFar != nil && u.Format == "text" {
					_ = out.Show(soFar) // who does not read is told at the end
				}
			}
			r, err := check.Run(c.Context(), o)
			steps.End()
			if err != nil {
				return checkFailure(err, "dragoman login "+u.SignInTarget(server))
			}
			if u.Format == "text" {
				err = out.End(r)
			} else {
				err = r.Write(c.OutOrStdout(), u.Format, all)
			}
			if err != nil {
				return err
			}
			if n := r.Findings(); n > 0 {
				return &term.Failure{Status: term.ExitFindings, Err: fmt.Errorf("%s: %s", o.Name, humanize.Count(n, "finding"))}
			}
			return nil
		},
	}
	u.Add(c)
	setTimeout(c, u)
	f := c.Flags()
	f.Lookup("output").Usage = "how results are written: " + strings.Join(check.Formats, ", ")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(check.Formats, cobra.ShellCompDirectiveNoFileComp)) // it is not registered yet
	f.StringVar(&format, "format", "", "the same as --output")
	f.BoolVar(&all, "all", false, "show rules that hold and those that do not apply, too")
	f.BoolVar(&rules, "rules", false, "list the rules, and check nothing")
	f.BoolVar(&o.Smoke, "smoke", false, "check only that a handshake, tools/list and, with --call, tools/call are answered")
	f.StringVar(&o.Call, "call", "", "`tool` to call")
	f.StringVar(&args, "args", "", "`JSON` object of its arguments, @FILE, or - for standard input")
	f.StringArrayVar(&o.Only, "only", nil, "`rule` to check, * stands for any characters (repeatable, default all)")
	f.StringArrayVar(&o.Ignore, "ignore", nil, "`rule` to leave out, * stands for any characters (repeatable)")
	return c
}

// checkFailure says why a server could not be checked.
func checkFailure(err error, login string) error {
	_, access := errors.AsType[*check.AccessError](err)
	_, signIn := errors.AsType[*oauth.SignInError](err)
	_, unreached := errors.AsType[*check.UnreachedError](err)
	_, isStart := errors.AsType[*stdio.StartError](err)
	refused, _ := errors.AsType[*protocol.StatusError](err)
	switch {
	case errors.Is(err, check.ErrUnknown):
		return &term.Failure{Status: term.ExitUsage, Err: err, Hint: "dragoman check --rules lists them"}
	case access, signIn, refused != nil && refused.WantsAuth():
		return &term.Failure{Status: term.ExitAuthorization, Err: err, Hint: "run: " + login + "; dragoman probe shows what it wants"}
	case isStart:
		reason, advice, _ := diagnose.Explain(err)
		return &term.Failure{Status: term.ExitUnreachable, Err: errors.New(reason), Hint: advice}
	case unreached:
		return &term.Failure{Status: term.ExitUnreachable, Err: err, Hint: "dragoman probe shows why" + diagnose.Subject{CommandLine: true}.Withheld(err)}
	}
	return err
}

// showRules lists the rules.
func showRules(c *cobra.Command) error {
	var rows [][2]string
	for _, rule := range check.Rules() {
		rows = append(rows, [2]string{fmt.Sprintf("%-22s  %-7s", rule.ID, rule.Level), rule.Requirement})
	}
	return term.Columns(c.OutOrStdout(), rows)
}
