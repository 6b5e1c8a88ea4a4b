// Package admin has the commands for the operator of a gateway: status, configuration, tokens,
// rules, sign-ins at servers, the audit log, and the files of hosts.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/dragoman-mcp/dragoman/internal/cli/control"
	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/observe/audit"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/spf13/cobra"
)

// watchInterval is how often --watch asks.
const watchInterval = 2 * time.Second

// StatusCommand is dragoman status.
func StatusCommand() *cobra.Command {
	var (
		socket        string
		out           term.Writing
		asJSON, watch bool
		interval      time.Duration
	)
	c := &cobra.Command{
		Use:   "status [FILE]",
		Short: "Show how the servers of a running gateway are",
		Long: `Show how the servers of a running gateway are, what came of the last reload, and which
keys of the file need a restart. Only the owner of the gateway sees all of this: /status
shows names and states to everybody.

If several gateways are running, name the file of one, or its socket with --socket.`,
		Example: `  dragoman status
  dragoman status -w
  dragoman status /etc/dragoman.yaml --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			if err := out.CheckFormat(); err != nil {
				return err
			}
			switch {
			case watch && (asJSON || !out.IsText()):
				out.Format = "ndjson"
			case asJSON:
				out.Format = "json"
			}
			if interval <= 0 {
				return term.Usage("--interval must be more than nothing")
			}
			for first := true; ; first = false {
				var status gatewayStatus
				err := control.Call(c.Context(), socket, files, http.MethodGet, "/status", &status)
				if err == nil {
					err = printStatus(c.OutOrStdout(), &status, &out, watch, first)
				}
				if watch && c.Context().Err() != nil {
					return nil //nolint:nilerr // who watches ends it so, in the middle of a question too
				}
				if err != nil || !watch {
					return err
				}
				select {
				case <-c.Context().Done():
					return nil
				case <-time.After(interval):
				}
			}
		},
	}
	control.AddFlag(c.Flags(), &socket)
	out.Add(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON; the same as -o json")
	c.Flags().BoolVarP(&watch, "watch", "w", false, "continue: a terminal is drawn again, elsewhere it is printed again; JSON is a line each time")
	flags.AddDuration(c.Flags(), &interval, "interval", "", watchInterval, "how often with --watch")
	return c
}

// gatewayStatus is the status of a gateway with what its observers add.
type gatewayStatus struct {
	gateway.Status
	Audit *audit.Status `json:"audit,omitempty"`
}

// printStatus prints how a gateway is, once or while it is watched.
func printStatus(w io.Writer, s *gatewayStatus, out *term.Writing, watch, first bool) error {
	if !out.IsText() {
		return out.Value(w, s)
	}
	var b strings.Builder
	if watch {
		if term.ToTerminal(w) {
			b.WriteString("\x1b[H\x1b[2J") // from the top, on an empty screen
		} else if !first {
			b.WriteByte('\n')
		}
		fmt.Fprintln(&b, time.Now().Format(time.DateTime))
	}
	if err := showStatus(&b, s, term.Width(w)); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String()) // at once, so that a screen does not flicker
	return err
}

// ReloadCommand is dragoman reload.
func ReloadCommand() *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use:     "reload [FILE]",
		Example: "  dragoman reload\n  dragoman reload /etc/dragoman.yaml",
		Short:   "Have a running gateway read its configuration again",
		Long: `Have a running gateway read its configuration again.

A server with an error in the file continues as it was configured before, or is left out if
it was not there; the others are applied. With an error that is no server's, nothing
changes. The exit status is 1 in either case.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			var done gateway.Reloaded
			if err := control.Call(c.Context(), socket, files, http.MethodPost, "/reload", &done); err != nil {
				return err
			}
			if err := showReload(c.OutOrStdout(), &done); err != nil {
				return err
			}
			if n := len(done.LeftOut); n > 0 {
				return fmt.Errorf("the configuration of %s has errors; the rest is in force", humanize.Count(n, "server"))
			}
			return nil
		},
	}
	control.AddFlag(c.Flags(), &socket)
	return c
}

// RestartCommand is dragoman restart.
func RestartCommand() *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use:     "restart NAME [FILE]",
		Example: "  dragoman restart files\n  dragoman restart files /etc/dragoman.yaml",
		Short:   "Restart one server of a running gateway",
		Long: `Restart one server of a running gateway.

Requests in flight end with an error. Sessions of clients continue: the server
is told again what it has to know.

If several gateways are running, name the file of one, or its socket with --socket.`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: control.CompleteServer,
		RunE: func(c *cobra.Command, args []string) error {
			var status upstream.Status
			if err := control.CallOf(c.Context(), args[0], socket, args[1:], http.MethodPost, "/servers/"+url.PathEscape(args[0])+"/restart", &status); err != nil {
				return err
			}
			return showServers(c.OutOrStdout(), []upstream.Status{status}, term.Width(c.OutOrStdout()))
		},
	}
	control.AddFlag(c.Flags(), &socket)
	return c
}

// LogsCommand is dragoman logs.
func LogsCommand() *cobra.Command {
	var socket string
	var follow bool
	c := &cobra.Command{
		Use:     "logs NAME [FILE]",
		Example: "  dragoman logs -f files\n  dragoman logs files /etc/dragoman.yaml",
		Short:   "Show what a server of a running gateway has said on its standard error",
		Long: `Show what a server of a running gateway has said on its standard error, and what has
happened to it.

If several gateways are running, name the file of one, or its socket with --socket.`,
		Args:              cobra.RangeArgs(1, 2),
		ValidArgsFunction: control.CompleteServer,
		RunE: func(c *cobra.Command, args []string) error {
			path := "/servers/" + url.PathEscape(args[0]) + "/logs"
			if follow {
				path += "?follow=true"
			}
			body, err := control.RequestOf(c.Context(), args[0], socket, args[1:], http.MethodGet, path)
			if err != nil {
				return err
			}
			defer func() { _ = body.Close() }()
			return showLogs(c.OutOrStdout(), body)
		},
	}
	control.AddFlag(c.Flags(), &socket)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "continue as it says more")
	return c
}

// showStatus prints how a gateway is, for a terminal of that width, 0 if that is not known.
func showStatus(w io.Writer, s *gatewayStatus, width int) error {
	if s.PID != 0 {
		fmt.Fprintf(w, "%s %s, process %d, up %s, %s, %s, %s of memory\n", s.Name, s.Version, s.PID, humanize.Duration(time.Since(s.Began)),
			humanize.Count(s.Sessions, "session"), humanize.Count(int(s.Calls), "call"), humanize.Bytes(s.Memory))
	}
	if s.WithoutID > 0 {
		fmt.Fprintf(w, "refused %s without an id\n", humanize.Count(int(s.WithoutID), "request"))
	}
	if len(s.Files) > 0 {
		fmt.Fprintf(w, "serves %s\n", redact.Printable(strings.Join(s.Files, ", "), ""))
	}
	if s.Draining {
		fmt.Fprintln(w, "the gateway is stopping")
	}
	if err := showServers(w, s.Servers, width); err != nil {
		return err
	}
	for _, g := range s.Groups {
		fmt.Fprintf(w, "group %s at %s: %s\n", g.Name, g.Path, strings.Join(g.Servers, ", "))
	}
	if r := s.Reload; r != nil {
		if r.Failed {
			fmt.Fprintf(w, "the configuration could not be read again at %s:\n%s\n", r.At.Format(time.TimeOnly), r.Error)
		}
		showLeftOut(w, r.LeftOut)
	}
	showLater(w, s.Later)
	if f := s.StateFailure; f != nil {
		fmt.Fprintf(w, "the state is not written since %s: %s\n", f.Since.Format(time.TimeOnly), f.Error)
	}
	showAuditStatus(w, s.Audit)
	return nil
}

// spare are the columns that a narrow terminal does without, the first first.
var spare = []string{"RESTARTS", "SESSIONS", "PROCESSES", "REVISION", "TRANSPORT", "MEMORY", "CALLS", "TOOLS", "FOR"}

const lastErrorColumn = "LAST ERROR"

// showServers prints a table of servers. Where it is wider than the terminal, errors stand below their
// servers, and columns are left out.
func showServers(w io.Writer, list []upstream.Status, width int) error {
	rows := [][]string{{"NAME", "STATE", "FOR", "TRANSPORT", "REVISION", "TOOLS", "SESSIONS", "CALLS", "PROCESSES", "MEMORY", "RESTARTS", lastErrorColumn}}
	below := make([]string, len(list))
	for i := range list {
		s := &list[i]
		tools := fmt.Sprint(s.Tools)
		switch {
		case s.Unlisted:
			tools = "-"
		case s.Cached:
			tools += " (last known)"
		}
		memory := "-"
		if s.Memory > 0 {
			memory = humanize.Bytes(s.Memory)
		}
		since := "-"
		if !s.Since.IsZero() {
			since = humanize.Duration(time.Since(s.Since).Round(time.Second))
		}
		rows = append(rows, []string{
			s.Name, string(s.State), since, term.OrDash(s.Transport), term.OrDash(s.Revision), tools,
			fmt.Sprint(s.Sessions), fmt.Sprint(s.Calls), fmt.Sprint(len(s.Processes)), memory, fmt.Sprint(s.Restarts), lastError(s),
		})
	}
	if width > 0 && tableWidth(rows) > width {
		for i := range list {
			below[i] = lastError(&list[i])
		}
		for _, name := range append([]string{lastErrorColumn}, spare...) {
			if at := slices.Index(rows[0], name); tableWidth(rows) > width {
				for i := range rows {
					rows[i] = slices.Delete(rows[i], at, at+1)
				}
			}
		}
	}
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i, line := range strings.SplitAfter(b.String(), "\n") {
		if i > 0 && i <= len(below) && below[i-1] != "" {
			line += term.Wrap(below[i-1], "  ", width) + "\n"
		}
		if _, err := io.WriteString(w, line); err != nil {
			return err
		}
	}
	return nil
}

// tableWidth returns how wide a table is.
func tableWidth(rows [][]string) int {
	sum := -2
	for column := range rows[0] {
		widest := 0
		for _, row := range rows {
			widest = max(widest, utf8.RuneCountInString(row[column]))
		}
		sum += widest + 2
	}
	return sum
}

// lastError returns the last error of a server in a line, and how long ago it was.
func lastError(s *upstream.Status) string {
	text := redact.Printable(term.Plain(firstLine(s.LastError)), "")
	if text != "" && s.LastErrorAt != nil {
		text = humanize.Duration(time.Since(*s.LastErrorAt).Round(time.Second)) + " ago: " + text
	}
	return text
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func showReload(w io.Writer, r *gateway.Reloaded) error {
	for _, part := range []struct {
		what  string
		names []string
	}{{"added", r.Changes.Added}, {"replaced", r.Changes.Replaced}, {"removed", r.Changes.Removed}} {
		if len(part.names) > 0 {
			fmt.Fprintf(w, "%s: %s\n", part.what, strings.Join(part.names, ", "))
		}
	}
	showLeftOut(w, r.LeftOut)
	showLater(w, r.Later)
	_, err := fmt.Fprintf(w, "%s unchanged\n", humanize.Count(len(r.Changes.Kept), "server"))
	return err
}

// showLeftOut prints the servers whose configuration has errors, and the errors.
func showLeftOut(w io.Writer, list []gateway.LeftOut) {
	for _, s := range list {
		what := "is left out"
		if s.Runs {
			what = "continues as it was configured before"
		}
		fmt.Fprintf(w, "%s %s, because of errors:\n%s\n", s.Server, what, s.Error)
	}
}

func showLater(w io.Writer, keys []string) {
	if len(keys) > 0 {
		fmt.Fprintf(w, "a restart of the gateway is needed for changes of: %s\n", strings.Join(keys, ", "))
	}
}

// showLogs prints log lines as they come.
func showLogs(w io.Writer, body io.Reader) error {
	lines := json.NewDecoder(body)
	for {
		var l upstream.LogLine
		switch err := lines.Decode(&l); {
		case errors.Is(err, io.EOF), errors.Is(err, context.Canceled):
			return nil
		case err != nil:
			return err
		}
		line := l.Time.Format("15:04:05.000") + " " + redact.Printable(term.Plain(l.Text), "")
		if _, err := fmt.Fprintln(w, term.Wrap(line, "", term.Width(w))); err != nil {
			return err
		}
	}
}
