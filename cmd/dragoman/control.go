package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/edge"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/manager"
	"github.com/dragoman-mcp/dragoman/internal/redact"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
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
			if err := callControl(c.Context(), socket, files, http.MethodGet, "/status", &status); err != nil {
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
			if err := callControl(c.Context(), socket, files, http.MethodPost, "/reload", &done); err != nil {
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
			if err := callControl(c.Context(), socket, nil, http.MethodPost, "/servers/"+names[0]+"/restart", &status); err != nil {
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
			body, err := openControlRequest(c.Context(), socket, nil, http.MethodGet, path)
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

// callControl asks a running gateway for one value.
func callControl(ctx context.Context, socket string, files []string, method, path string, value any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, controlTimeout, errors.New("the gateway does not answer"))
	defer cancel()
	body, err := openControlRequest(ctx, socket, files, method, path)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return json.NewDecoder(body).Decode(value)
}

// openControlRequest asks a running gateway.
func openControlRequest(ctx context.Context, socket string, files []string, method, path string) (io.ReadCloser, error) {
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
	showAuditStatus(w, s.Audit)
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
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%d\t%s\n", s.Name, s.State, s.Transport, orDash(s.Revision), tools, s.Restarts, redact.Printable(firstLine(s.LastError), ""))
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
		if _, err := fmt.Fprintf(w, "%s %s\n", l.Time.Format("15:04:05.000"), redact.Printable(l.Text, "")); err != nil {
			return err
		}
	}
}

// The control socket of a gateway lies in a directory of its owner and is named
// after the first file of the configuration, so that who names the same file
// finds it.

func addSocket(f *pflag.FlagSet, socket *string) {
	f.StringVar(socket, "socket", "", "`path` of the Unix socket over which a running gateway is controlled (default: one for the file)")
}

// socketDirectory is where the control sockets of this user are.
func socketDirectory() string {
	if dir := os.Getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "dragoman")
	}
	return filepath.Join(os.TempDir(), "dragoman-"+strconv.Itoa(os.Getuid()))
}

// socketName begins the names of the sockets of gateways with that first file.
func socketName(file string) string {
	sum := sha256.Sum256([]byte(file))
	return hex.EncodeToString(sum[:6])
}

// A control is the socket over which the owner of a running gateway controls it.
type control struct {
	listener net.Listener
	server   *edge.Server
	running  sync.WaitGroup
}

// openControl listens on a path, or on one that is found by the files.
func openControl(ctx context.Context, path string, files []string) (*control, error) {
	if path != "" {
		l, err := stdio.Listen(ctx, "unix", path)
		if err != nil {
			return nil, fmt.Errorf("--socket: %w", err)
		}
		return &control{listener: l}, nil
	}
	dir := socketDirectory()
	if err := ownDirectory(dir); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, socketName(files[0]))
	l, err := stdio.Listen(ctx, "unix", name+".sock")
	if err != nil { // another gateway has these files too
		l, err = stdio.Listen(ctx, "unix", fmt.Sprintf("%s-%d.sock", name, os.Getpid()))
	}
	if err != nil {
		return nil, fmt.Errorf("%w; choose another path with --socket", err)
	}
	return &control{listener: l}, nil
}

// ownDirectory makes a directory that nobody else can look into, and refuses one
// that is not ours.
func ownDirectory(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("%w; choose another path with --socket", err)
	}
	info, err := os.Lstat(dir)
	switch {
	case err != nil:
		return err
	case !info.IsDir() || !ownedByUs(info):
		return fmt.Errorf("%s belongs to somebody else; choose another path with --socket", dir)
	case info.Mode().Perm()&0o077 != 0:
		return os.Chmod(dir, 0o700) //nolint:gosec // a directory needs the x
	}
	return nil
}

// serve answers on the socket until close.
func (c *control) serve(g *gateway.Gateway, v *console) {
	c.server = edge.New(g.Control(), &edge.Options{Logger: v.log})
	// Ends with close.
	c.running.Go(func() { _ = c.server.Serve(c.listener) })
}

func (c *control) close() {
	if c.server != nil {
		_ = c.server.Close() // and with it the listener
	}
	_ = c.listener.Close() // or closed already
	c.running.Wait()
}

// findSocket returns the socket of a running gateway: the one that is named, the
// one for the files that are named or lie here, or the only one there is.
func findSocket(socket string, files []string) (string, error) {
	if socket != "" {
		return socket, nil
	}
	all, err := filepath.Glob(filepath.Join(socketDirectory(), "*.sock"))
	if err != nil {
		return "", err
	}
	var live, ours []string
	prefix := ""
	if found, err := foundFiles(files); err == nil {
		prefix = socketName(found[0])
	}
	for _, path := range all {
		nc, err := net.Dial("unix", path)
		if err != nil {
			continue // left by one that was killed
		}
		_ = nc.Close()
		live = append(live, path)
		if prefix != "" && strings.HasPrefix(filepath.Base(path), prefix) {
			ours = append(ours, path)
		}
	}
	switch {
	case len(ours) > 0:
		return ours[0], nil
	case len(files) > 0:
		return "", fmt.Errorf("no gateway of yours serves %s; start one with: dragoman serve %s", files[0], files[0])
	case len(live) == 1:
		return live[0], nil
	case len(live) == 0:
		return "", errors.New("no gateway of yours is running; start one with: dragoman serve FILE")
	}
	return "", fmt.Errorf("%d gateways are running; name the file of one, or its socket with --socket: %s", len(live), strings.Join(live, ", "))
}
