package main

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/manager"
	"github.com/dragoman-mcp/dragoman/internal/probe"
	"github.com/dragoman-mcp/dragoman/internal/redact"
	"github.com/spf13/cobra"
)

// How long a server that is looked at may take.
const (
	lookTimeout = 10 * time.Second // over an answer
	lookStart   = time.Minute      // over its first one, if it is a command
)

func probeCommand() *cobra.Command {
	u := &targetSettings{wants: wanted{only: true}}
	c := &cobra.Command{
		Use:   "probe [TARGET] | -- command [args...]",
		Short: "Find out what a server is, and why it does not work",
		Long: `Find out what a server is and why it does not work: how it starts or is reached, which
transports, eras and revisions it speaks, what it offers, how it ends, and for URLs names,
certificates, sessions, resumption, sign-in and protection from foreign pages. For each problem
it is said what to do. No tool is called.

A command is started several times. The exit status is 0 if the server works, 3 if it wants a
sign-in, 4 if it is not reached or does not answer, 6 if there are problems. See docs/probe.md.

` + targetHelp,
		Example: `  dragoman probe https://mcp.example.com/mcp
  dragoman probe -- npx -y @modelcontextprotocol/server-everything
  dragoman probe .mcp.json#files -o json`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			server, _, err := u.take(c, args)
			if err != nil {
				return err
			}
			reached, err := u.look(server)
			if err != nil {
				return err
			}
			defer reached.Close()
			o := &probe.Options{
				Spec: reached.Spec, Name: lookedAt(server), How: reached.How, Version: versionText(),
				Timeout: u.timeout, Start: max(u.timeout, cmp.Or(u.dialTimeout, lookStart)), Login: "dragoman login " + u.signInTarget(server),
			}
			if reached.SignIn != nil {
				if o.SignIn, err = manager.SignInConfig(server); err != nil {
					return err
				}
			}
			steps := newSteps(u.voice, "looking at "+server.Name)
			o.Progress, o.Found = steps.next, func(l probe.Line) { steps.found(l.Topic + ": " + l.Text) }
			r := probe.Run(c.Context(), o)
			steps.end()
			if err := c.Context().Err(); err != nil {
				return err
			}
			if u.isText() {
				err = r.WriteText(c.OutOrStdout())
			} else {
				err = u.value(c.OutOrStdout(), r)
			}
			if err != nil {
				return err
			}
			return verdict(r)
		},
	}
	u.add(c)
	u.setLookTimeout(c)
	return c
}

// setLookTimeout has answers take as long as they may when a server is looked at.
func (u *targetSettings) setLookTimeout(c *cobra.Command) {
	timeout := c.Flags().Lookup("timeout")
	timeout.DefValue, u.timeout = lookTimeout.String(), lookTimeout
}

// look makes a server that is looked at. Nobody is asked to sign in for that.
func (u *targetSettings) look(server *config.Server) (*manager.Reached, error) {
	if u.timeout <= 0 {
		u.timeout = lookTimeout
	}
	return u.reach(server, manager.ReachOptions{})
}

// lookedAt names a server that is looked at: by its URL, without secrets, or its command.
func lookedAt(server *config.Server) string {
	if server.URL != "" {
		return redact.URI(server.URL)
	}
	return redact.Text(strings.Join(append([]string{server.Command}, server.Args...), " "))
}

// verdict returns how a probe ends. What it has found is on standard output.
func verdict(r *probe.Report) error {
	status := map[probe.Verdict]int{probe.Works: 0, probe.Problems: exitFindings, probe.Authorization: exitAuthorization, probe.Unreachable: exitUnreachable}[r.Verdict]
	switch status {
	case 0:
		return nil
	case exitAuthorization:
		return &failure{status: status, err: fmt.Errorf("%s wants a sign-in or a token", r.Target)}
	case exitUnreachable:
		return &failure{status: status, err: fmt.Errorf("%s cannot be used", r.Target)}
	}
	return &failure{status: status, err: fmt.Errorf("%s has problems: %d", r.Target, r.Problems())}
}
