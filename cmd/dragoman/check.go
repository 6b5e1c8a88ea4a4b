package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/dragoman-mcp/dragoman/internal/check"
	"github.com/dragoman-mcp/dragoman/internal/people"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/spf13/cobra"
)

func checkCommand() *cobra.Command {
	u := &targetSettings{wants: wanted{only: true}}
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

` + targetHelp,
		Example: `  dragoman check https://mcp.example.com/mcp
  dragoman check --all -- npx -y @modelcontextprotocol/server-everything
  dragoman check files --smoke --call list_directory --args '{"path": "."}'
  dragoman check files -o junit --ignore 'tool-*' > report.xml`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, words []string) error {
			if rules {
				return showRules(c)
			}
			u.format, u.known = cmp.Or(format, u.format), check.Formats
			server, _, err := u.take(c, words)
			if err != nil {
				return err
			}
			if o.Arguments, err = readArguments(args, c.InOrStdin()); err != nil {
				return usage("--args: %w", err)
			}
			reached, err := u.look(server)
			if err != nil {
				return err
			}
			defer reached.Close()
			o.Spec, o.Name, o.Version = reached.Spec, lookedAt(server), versionText()
			o.Timeout, o.Start = u.timeout, max(u.timeout, cmp.Or(u.dialTimeout, lookStart))
			steps := newSteps(u.voice, "checking "+server.Name)
			out := &check.Printer{W: c.OutOrStdout(), All: all}
			o.Progress = func(soFar *check.Report, rule string) {
				group, _, _ := strings.Cut(rule, "-")
				steps.next(group)
				if soFar != nil && u.format == "text" {
					_ = out.Show(soFar) // who does not read is told at the end
				}
			}
			r, err := check.Run(c.Context(), o)
			steps.end()
			if err != nil {
				return checkFailure(err, "dragoman login "+u.signInTarget(server))
			}
			if u.format == "text" {
				err = out.End(r)
			} else {
				err = r.Write(c.OutOrStdout(), u.format, all)
			}
			if err != nil {
				return err
			}
			if n := r.Findings(); n > 0 {
				return &failure{status: exitFindings, err: fmt.Errorf("%s: %s", o.Name, people.Count(n, "finding"))}
			}
			return nil
		},
	}
	u.add(c)
	u.setLookTimeout(c)
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
	switch {
	case errors.Is(err, check.ErrUnknown):
		return &failure{status: exitUsage, err: err, hint: "dragoman check --rules lists them"}
	case access, signIn:
		return &failure{status: exitAuthorization, err: err, hint: "run: " + login + "; dragoman probe shows what it wants"}
	case unreached:
		return &failure{status: exitUnreachable, err: err, hint: "dragoman probe shows why"}
	}
	return err
}

// showRules lists the rules.
func showRules(c *cobra.Command) error {
	var rows [][2]string
	for _, rule := range check.Rules() {
		rows = append(rows, [2]string{fmt.Sprintf("%-22s  %-7s", rule.ID, rule.Level), rule.Says})
	}
	return columns(c.OutOrStdout(), rows)
}
