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
	"net/url"
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
	"github.com/dragoman-mcp/dragoman/internal/people"
	"github.com/dragoman-mcp/dragoman/internal/redact"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// controlTimeout is how long a running gateway may take to answer. A restart
// waits for the server.
const controlTimeout = 90 * time.Second

// watchInterval is how often --watch asks.
const watchInterval = 2 * time.Second

func statusCommand() *cobra.Command {
	var (
		socket        string
		out           writing
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
			if err := out.checkFormat(); err != nil {
				return err
			}
			switch {
			case watch && (asJSON || !out.isText()):
				out.format = "ndjson"
			case asJSON:
				out.format = "json"
			}
			if interval <= 0 {
				return usage("--interval must be more than nothing")
			}
			for first := true; ; first = false {
				var status gateway.Status
				err := callControl(c.Context(), socket, files, http.MethodGet, "/status", &status)
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
	addSocket(c.Flags(), &socket)
	out.add(c.Flags())
	c.Flags().BoolVar(&asJSON, "json", false, "print it as JSON; the same as -o json")
	c.Flags().BoolVarP(&watch, "watch", "w", false, "go on: a terminal is drawn anew, elsewhere it is printed again; JSON is a line each time")
	c.Flags().DurationVar(&interval, "interval", watchInterval, "how often with --watch")
	return c
}

// printStatus prints how a gateway is, once or while it is watched.
func printStatus(w io.Writer, s *gateway.Status, out *writing, watch, first bool) error {
	if !out.isText() {
		return out.value(w, s)
	}
	var b strings.Builder
	if watch {
		if toTerminal(w) {
			b.WriteString("\x1b[H\x1b[2J") // from the top, on an empty screen
		} else if !first {
			b.WriteByte('\n')
		}
		fmt.Fprintln(&b, time.Now().Format(time.DateTime))
	}
	if err := showStatus(&b, s); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String()) // at once, so that a screen does not flicker
	return err
}

func reloadCommand() *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use:     "reload [FILE]",
		Example: "  dragoman reload\n  dragoman reload /etc/dragoman.yaml",
		Short:   "Have a running gateway read its configuration again",
		Long: `Have a running gateway read its configuration again.

A server with an error in the file goes on as it was configured before, or is left out if
it was not there; the others are applied. With an error that is no server's, nothing
changes. The exit status is 1 in either case.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			var done gateway.Reloaded
			if err := callControl(c.Context(), socket, files, http.MethodPost, "/reload", &done); err != nil {
				return err
			}
			if err := showReload(c.OutOrStdout(), &done); err != nil {
				return err
			}
			if n := len(done.LeftOut); n > 0 {
				return fmt.Errorf("the configuration of %s has errors; the rest is in force", people.Count(n, "server"))
			}
			return nil
		},
	}
	addSocket(c.Flags(), &socket)
	return c
}

func restartCommand() *cobra.Command {
	var socket string
	c := &cobra.Command{
		Use:     "restart NAME [FILE]",
		Example: "  dragoman restart files\n  dragoman restart files /etc/dragoman.yaml",
		Short:   "Restart one server of a running gateway",
		Long: `Restart one server of a running gateway.

Requests under way end with an error that says so. Sessions of clients go on: the server
is told again what it has to know.

If several gateways are running, name the file of one, or its socket with --socket.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			var status manager.Status
			if err := callControl(c.Context(), socket, args[1:], http.MethodPost, "/servers/"+url.PathEscape(args[0])+"/restart", &status); err != nil {
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
		Use:     "logs NAME [FILE]",
		Example: "  dragoman logs -f files\n  dragoman logs files /etc/dragoman.yaml",
		Short:   "Show what a server of a running gateway has said on its standard error",
		Long: `Show what a server of a running gateway has said on its standard error, and what has
happened to it.

If several gateways are running, name the file of one, or its socket with --socket.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(c *cobra.Command, args []string) error {
			path := "/servers/" + url.PathEscape(args[0]) + "/logs"
			if follow {
				path += "?follow=true"
			}
			body, err := openControlRequest(c.Context(), socket, args[1:], http.MethodGet, path)
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
	at, err := findSocket(ctx, socket, files)
	if err != nil {
		return nil, err
	}
	return askSocket(ctx, at, method, path)
}

// askSocket asks the gateway that listens on a socket.
func askSocket(ctx context.Context, at, method, path string) (io.ReadCloser, error) {
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
	if s.PID != 0 {
		fmt.Fprintf(w, "%s %s, process %d, up %s, %s, %s, %s of memory\n", s.Name, s.Version, s.PID, people.Duration(time.Since(s.Began)),
			people.Count(s.Sessions, "session"), people.Count(int(s.Calls), "call"), people.Bytes(s.Memory))
	}
	if len(s.Files) > 0 {
		fmt.Fprintf(w, "serves %s\n", redact.Printable(strings.Join(s.Files, ", "), ""))
	}
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
	fmt.Fprintln(t, "NAME\tSTATE\tFOR\tTRANSPORT\tREVISION\tTOOLS\tSESSIONS\tCALLS\tPROCESSES\tMEMORY\tRESTARTS\tLAST ERROR")
	for i := range list {
		s := &list[i]
		tools := fmt.Sprint(s.Tools)
		if s.Cached {
			tools += " (last known)"
		}
		memory := "-"
		if s.Memory > 0 {
			memory = people.Bytes(s.Memory)
		}
		since := "-"
		if !s.Since.IsZero() {
			since = people.Duration(time.Since(s.Since).Round(time.Second))
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%s\t%d\t%s\n", s.Name, s.State, since, orDash(s.Transport), orDash(s.Revision), tools,
			s.Sessions, s.Calls, len(s.Processes), memory, s.Restarts, lastError(s))
	}
	return t.Flush()
}

// lastError returns the last error of a server in a line, and how long ago it was.
func lastError(s *manager.Status) string {
	text := redact.Printable(firstLine(s.LastError), "")
	if text != "" && s.LastErrorAt != nil {
		text = people.Duration(time.Since(*s.LastErrorAt).Round(time.Second)) + " ago: " + text
	}
	return text
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
	_, err := fmt.Fprintf(w, "%s unchanged\n", people.Count(len(r.Changes.Kept), "server"))
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
func findSocket(ctx context.Context, socket string, files []string) (string, error) {
	if socket != "" {
		return socket, nil
	}
	found, err := foundFiles(files)
	if err != nil && len(files) > 0 {
		return "", err
	}
	var ours []string
	live, err := liveSockets()
	if err != nil {
		return "", err
	}
	for _, path := range live {
		if len(found) > 0 && strings.HasPrefix(filepath.Base(path), socketName(found[0])) {
			ours = append(ours, path)
		}
	}
	switch {
	case len(ours) == 1:
		return ours[0], nil
	case len(ours) > 1:
		return "", fmt.Errorf("%d gateways serve %s; name the socket of one:\n%s", len(ours), found[0], describeSockets(ctx, ours))
	case len(files) > 0:
		return "", fmt.Errorf("no gateway of yours serves %s; start one with: dragoman serve %s", files[0], files[0])
	case len(live) == 1:
		return live[0], nil
	case len(live) == 0:
		return "", errors.New("no gateway of yours is running; start one with: dragoman serve FILE")
	}
	return "", fmt.Errorf("%d gateways are running; name the file of one, or its socket:\n%s", len(live), describeSockets(ctx, live))
}

// liveSockets returns the control sockets of this user's running gateways. Whoever else can put
// one into the directory is not believed.
func liveSockets() (live []string, err error) {
	dir := socketDirectory()
	info, err := os.Lstat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.IsDir() || !ownedByUs(info):
		return nil, fmt.Errorf("%s belongs to somebody else; name a socket with --socket", dir)
	case !isPrivate(info):
		return nil, fmt.Errorf("others can use %s; take that from them (chmod 700), or name a socket with --socket", dir)
	}
	all, _ := filepath.Glob(filepath.Join(dir, "*.sock")) // the pattern is good
	for _, path := range all {
		if nc, err := net.DialTimeout("unix", path, describeTimeout); err == nil { // else it was left by one that was killed
			_ = nc.Close()
			live = append(live, path)
		}
	}
	return live, nil
}

// describeTimeout is how long a gateway may take to say which it is.
const describeTimeout = 2 * time.Second

// statusesOf asks gateways how they are, all at once. That of one that does not say so in time
// is nil.
func statusesOf(ctx context.Context, sockets []string) []*gateway.Status {
	ctx, cancel := context.WithTimeout(ctx, describeTimeout)
	defer cancel()
	list := make([]*gateway.Status, len(sockets))
	var asked sync.WaitGroup
	for i, at := range sockets {
		// Ends with ctx.
		asked.Go(func() {
			body, err := askSocket(ctx, at, http.MethodGet, "/status")
			if err != nil {
				return
			}
			defer func() { _ = body.Close() }()
			var s gateway.Status
			if json.NewDecoder(body).Decode(&s) == nil {
				list[i] = &s
			}
		})
	}
	asked.Wait()
	return list
}

// describeSockets returns a line for each gateway, by which they are told apart.
func describeSockets(ctx context.Context, list []string) string {
	var lines []string
	for i, s := range statusesOf(ctx, list) {
		what := "does not answer"
		if s != nil {
			what = fmt.Sprintf("%s (process %d, up %s)", strings.Join(s.Files, ", "), s.PID, people.Duration(time.Since(s.Began).Round(time.Second)))
		}
		lines = append(lines, fmt.Sprintf("  %s  --socket %s", what, list[i]))
	}
	return strings.Join(lines, "\n")
}
