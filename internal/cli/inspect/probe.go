// Package inspect has the commands that examine a server or its messages: probe, check, bench,
// tap and replay. The work is done in internal/inspect and internal/observe/tap.
package inspect

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/cli/use"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/inspect/probe"
	"github.com/dragoman-mcp/dragoman/internal/inspect/rawclient"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/spf13/cobra"
)

// How long a server that is looked at may take.
const (
	lookTimeout = 10 * time.Second // over an answer
	lookStart   = time.Minute      // over its first one, if it is a command
)

// ProbeCommand is dragoman probe.
func ProbeCommand() *cobra.Command {
	u := &use.Target{Wants: use.Wanted{Only: true}}
	c := &cobra.Command{
		Use:   "probe [TARGET] | -- command [args...]",
		Short: "Find out what a server is, and why it does not work",
		Long: `Find out what a server is and why it does not work: how it starts or is reached, which
transports, eras and revisions it speaks, what it offers, how it ends, and for URLs names,
certificates, sessions, resumption, sign-in and protection from foreign pages. For each problem
it is said what to do. No tool is called.

A command is started several times. The exit status is 0 if the server works, 3 if it wants a
sign-in, 4 if it is not reached or does not answer, 6 if there are problems. See docs/probe.md.

` + use.TargetHelp,
		Example: `  dragoman probe https://mcp.example.com/mcp
  dragoman probe -- npx -y @modelcontextprotocol/server-everything
  dragoman probe .mcp.json#files -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			server, _, err := u.Take(c, args)
			if err != nil {
				return err
			}
			reached, subject, err := reach(u, server)
			if err != nil {
				return err
			}
			defer reached.Close()
			o := &probe.Options{Subject: subject, How: reached.How, Login: "dragoman login " + u.SignInTarget(server)}
			if reached.SignIn != nil {
				if o.SignIn, err = upstream.SignInConfig(server); err != nil {
					return err
				}
			}
			steps := term.NewSteps(u.Console, "looking at "+server.Name)
			o.Progress, o.Found = steps.Next, func(l probe.Line) { steps.Found(l.Topic + ": " + l.Text) }
			r := probe.Run(c.Context(), o)
			steps.End()
			if err := c.Context().Err(); err != nil {
				return err
			}
			if u.IsText() {
				err = r.WriteText(c.OutOrStdout(), term.Fit(c.OutOrStdout()))
			} else {
				err = u.Value(c.OutOrStdout(), r)
			}
			if err != nil {
				return err
			}
			return verdict(r)
		},
	}
	u.Add(c)
	setTimeout(c, u)
	return c
}

// setTimeout has answers take as long as they may when a server is looked at.
func setTimeout(c *cobra.Command, u *use.Target) {
	timeout := c.Flags().Lookup("timeout")
	timeout.DefValue, u.Timeout = lookTimeout.String(), lookTimeout
}

// reach makes a server that is looked at. Nobody is asked to sign in for that.
func reach(u *use.Target, server *config.Server) (reached *upstream.Reached, s rawclient.Subject, err error) {
	if u.Timeout <= 0 {
		u.Timeout = lookTimeout
	}
	if reached, err = u.Reach(server, upstream.ReachOptions{}); err != nil {
		return nil, s, err
	}
	name := redact.URI(server.URL)
	if server.URL == "" {
		name = redact.Text(strings.Join(append([]string{server.Command}, server.Args...), " "))
	}
	return reached, rawclient.Subject{Spec: reached.Spec, Name: name, Version: term.Version(), Timeout: u.Timeout, Start: max(u.Timeout, cmp.Or(u.DialTimeout, lookStart))}, nil
}

// verdict returns how a probe ends. What it has found is on standard output.
func verdict(r *probe.Report) error {
	status := map[probe.Verdict]int{probe.Works: 0, probe.Problems: term.ExitFindings, probe.Authorization: term.ExitAuthorization, probe.Unreachable: term.ExitUnreachable}[r.Verdict]
	switch status {
	case 0:
		return nil
	case term.ExitAuthorization:
		return &term.Failure{Status: status, Err: fmt.Errorf("%s wants a sign-in or a token", r.Target)}
	case term.ExitUnreachable:
		return &term.Failure{Status: status, Err: fmt.Errorf("%s cannot be used", r.Target)}
	}
	return &term.Failure{Status: status, Err: fmt.Errorf("%s has problems: %d", r.Target, r.Problems())}
}
