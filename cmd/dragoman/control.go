package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/manager"
	"github.com/spf13/cobra"
)

// controlTimeout is how long a running gateway may take to answer. A restart
// waits for the server.
const controlTimeout = 90 * time.Second

func statusCommand() *cobra.Command {
	var socket string
	var asJSON bool
	c := &cobra.Command{
		Use:   "status [FILE]",
		Short: "Show how the servers of a running gateway are",
		Long: `Show how the servers of a running gateway are, what came of the last reload, and which
keys of the file need a restart. Only the owner of the gateway sees all of this: /status
shows names and states to everybody.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			var status gateway.Status
			if err := askFor(c.Context(), socket, files, http.MethodGet, "/status", &status); err != nil {
				return err
			}
			if asJSON {
				e := json.NewEncoder(c.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(status)
			}
			return showStatus(c.OutOrStdout(), &status)
		},
	}
	addSocket(c.Flags(), &socket)
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return c
}

func reloadCommand() *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use:   "reload [FILE]",
		Short: "Have a running gateway read its configuration again",
		Long: `Have a running gateway read its configuration again.

A server with an error in the file goes on as it was configured before, or is left out if
it was not there; the others are applied. With an error that is no server's, nothing
changes, and the exit status is 1.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			var done gateway.Reloaded
			if err := askFor(c.Context(), socket, files, http.MethodPost, "/reload", &done); err != nil {
				return err
			}
			return showReload(c.OutOrStdout(), &done)
		},
	}
	addSocket(c.Flags(), &socket)
	return c
}

func restartCommand() *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use:   "restart NAME",
		Short: "Restart one server of a running gateway",
		Long: `Restart one server of a running gateway.

Requests under way end with an error that says so. Sessions of clients go on: the server
is told again what it has to know.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, names []string) error {
			var status manager.Status
			if err := askFor(c.Context(), socket, nil, http.MethodPost, "/servers/"+names[0]+"/restart", &status); err != nil {
				return err
			}
			return showServers(c.OutOrStdout(), []manager.Status{status})
		},
	}
	addSocket(c.Flags(), &socket)
	return c
}

func logsCommand() *cobra.Command {
	var socket string
	var follow bool
	c := &cobra.Command{
		Use:   "logs NAME",
		Short: "Show what a server of a running gateway has said on its standard error",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, names []string) error {
			path := "/servers/" + names[0] + "/logs"
			if follow {
				path += "?follow=true"
			}
			body, err := askControl(c.Context(), socket, nil, http.MethodGet, path)
			if err != nil {
				return err
			}
			defer func() { _ = body.Close() }()
			return showLogs(c.OutOrStdout(), body)
		},
	}
	addSocket(c.Flags(), &socket)
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on as it says more")
	return c
}

// askFor asks a running gateway for one value.
func askFor(ctx context.Context, socket string, files []string, method, path string, value any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, controlTimeout, errors.New("the gateway does not answer"))
	defer cancel()
	body, err := askControl(ctx, socket, files, method, path)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return json.NewDecoder(body).Decode(value)
}

// askControl asks a running gateway.
func askControl(ctx context.Context, socket string, files []string, method, path string) (io.ReadCloser, error) {
	at, err := findSocket(socket, files)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", at)
		},
		DisableKeepAlives: true,
	}}
	req, err := http.NewRequestWithContext(ctx, method, "http://gateway"+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("the gateway cannot be reached over %s: %w", at, errors.Unwrap(err))
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }()
	var failed gateway.Failed
	if err := json.NewDecoder(resp.Body).Decode(&failed); err != nil || failed.Error == "" {
		return nil, fmt.Errorf("the gateway answers %s", resp.Status)
	}
	return nil, errors.New(failed.Error)
}

func showStatus(w io.Writer, s *gateway.Status) error {
	if s.Draining {
		fmt.Fprintln(w, "the gateway is stopping")
	}
	if err := showServers(w, s.Servers); err != nil {
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
	return nil
}

func showServers(w io.Writer, list []manager.Status) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tSTATE\tTRANSPORT\tREVISION\tTOOLS\tRESTARTS\tLAST ERROR")
	for _, s := range list {
		tools := fmt.Sprint(s.Tools)
		if s.Cached {
			tools += " (last known)"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", s.Name, s.State, s.Transport, orDash(s.Revision), tools, s.Restarts, firstLine(s.LastError))
	}
	return t.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
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
	_, err := fmt.Fprintf(w, "%s unchanged\n", plural(len(r.Changes.Kept), "server"))
	return err
}

// showLeftOut prints the servers whose configuration has errors, and the errors.
func showLeftOut(w io.Writer, list []gateway.LeftOut) {
	for _, s := range list {
		what := "is left out"
		if s.Runs {
			what = "goes on as it was configured before"
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
		var l manager.LogLine
		switch err := lines.Decode(&l); {
		case errors.Is(err, io.EOF), errors.Is(err, context.Canceled):
			return nil
		case err != nil:
			return err
		}
		if _, err := fmt.Fprintf(w, "%s %s\n", l.Time.Format("15:04:05.000"), l.Text); err != nil {
			return err
		}
	}
}
