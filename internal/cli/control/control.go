// Package control is the control socket of a running gateway: the server end, for command
// serve, and the client end, for the commands of the operator.
package control

import (
	"cmp"
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
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// controlTimeout is how long a running gateway may take to answer. A restart
// waits for the server.
const controlTimeout = 90 * time.Second

// Call asks a running gateway for one value.
func Call(ctx context.Context, socket string, files []string, method, path string, value any) error {
	return CallOf(ctx, "", socket, files, method, path, value)
}

// CallOf is Call for the gateway that RequestOf finds.
func CallOf(ctx context.Context, server, socket string, files []string, method, path string, value any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, controlTimeout, errors.New("the gateway does not answer"))
	defer cancel()
	body, err := RequestOf(ctx, server, socket, files, method, path)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return json.NewDecoder(body).Decode(value)
}

// Request asks a running gateway.
func Request(ctx context.Context, socket string, files []string, method, path string) (io.ReadCloser, error) {
	return RequestOf(ctx, "", socket, files, method, path)
}

// RequestOf asks the running gateway that has a server of that name, if several are running and
// neither a socket nor a file tells them apart.
func RequestOf(ctx context.Context, server, socket string, files []string, method, path string) (io.ReadCloser, error) {
	at, err := findSocket(ctx, server, socket, files)
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
		return nil, &term.Failure{Status: term.ExitUnreachable, Err: fmt.Errorf("the gateway cannot be reached over %s: %w", at, errors.Unwrap(err))}
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer func() { _ = resp.Body.Close() }()
	var failed gateway.Failed
	if err := json.NewDecoder(resp.Body).Decode(&failed); err != nil || failed.Error == "" {
		return nil, fmt.Errorf("the gateway answers %s", resp.Status)
	}
	if resp.StatusCode == http.StatusNotFound {
		return nil, term.Usage("%s", failed.Error)
	}
	return nil, errors.New(failed.Error)
}

// The control socket of a gateway lies in a directory of its owner and is named
// after the first file of the configuration, so that who names the same file
// finds it.

// AddFlag adds the flag that names the socket of a gateway.
func AddFlag(f *pflag.FlagSet, socket *string) {
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
	server   *httpserver.Server
	running  sync.WaitGroup
}

// Open listens on a path, or on one that is found by the files.
func Open(ctx context.Context, path string, files []string) (*control, error) {
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

// OpenServer listens on the control socket of one server that "run" or "connect" serves.
func OpenServer(ctx context.Context, server string) (*control, error) {
	dir := socketDirectory()
	if err := ownDirectory(dir); err != nil {
		return nil, err
	}
	name := []rune(unsafeInFiles().ReplaceAllString(server, "_"))
	l, err := stdio.Listen(ctx, "unix", filepath.Join(dir, fmt.Sprintf("%s%s-%d.sock", serverPrefix, string(name[:min(len(name), maxSocketName)]), os.Getpid())))
	if err != nil {
		return nil, err
	}
	return &control{listener: l}, nil
}

const (
	serverPrefix  = "server-" // of the names of sockets of single servers
	maxSocketName = 32        // since the path of a socket has about 100 characters
)

var unsafeInFiles = lazy.Regexp(`[^A-Za-z0-9._-]+`)

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

// Serve answers on the socket until close.
func (c *control) Serve(g *gateway.Gateway, v *term.Console) {
	c.server = httpserver.New(g.Control(), &httpserver.Options{Logger: v.Log})
	// Ends with close.
	c.running.Go(func() {
		_ = c.server.Serve(&guardedListener{Listener: c.listener, log: v.Log, refusing: make(chan struct{}, maxRefusing)})
	})
}

// Close stops listening. Streams of followers end.
func (c *control) Close() {
	if c.server != nil {
		_ = c.server.Close() // and with it the listener
	}
	_ = c.listener.Close() // or closed already
	c.running.Wait()
}

// findSocket returns the socket of a running gateway: the one that is named, the one for the files
// that are named, the only one with that server, the one for the files in this directory, or the only
// one that is running. In place of a file, a server may be named.
func findSocket(ctx context.Context, server, socket string, files []string) (string, error) {
	if socket != "" {
		return socket, nil
	}
	found, err := Files(files)
	if err != nil && len(files) > 0 {
		return "", err
	}
	var ours []string
	live, err := Live()
	if err != nil {
		return "", err
	}
	if len(files) == 1 && server == "" && !strings.ContainsRune(files[0], filepath.Separator) && !exists(files[0]) {
		server, files, found = files[0], nil, nil
	}
	if server != "" && len(files) == 0 && len(live) > 1 {
		if with := having(ctx, live, server); len(with) == 1 {
			return with[0], nil
		} else if len(with) > 1 {
			live = with
		} else {
			return "", term.Usage("no running gateway has a server %q:\n%s", server, Describe(ctx, live))
		}
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
		return "", term.Usage("%d gateways serve %s; name the socket of one:\n%s", len(ours), found[0], Describe(ctx, ours))
	case len(files) > 0:
		return "", &term.Failure{Status: term.ExitUnreachable, Err: fmt.Errorf("no gateway of yours serves %s; start one with: dragoman serve %s", files[0], files[0])}
	case len(live) == 1:
		return live[0], nil
	case len(live) == 0:
		return "", &term.Failure{Status: term.ExitUnreachable, Err: errors.New("no gateway of yours is running; start one with: dragoman serve FILE")}
	}
	return "", term.Usage("%d gateways are running; name the file or the server of one, or its socket:\n%s", len(live), Describe(ctx, live))
}

// exists reports whether there is a file of that name.
func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// having returns the sockets of the gateways that have a server of that name.
func having(ctx context.Context, live []string, server string) (with []string) {
	for i, s := range Statuses(ctx, live) {
		if s != nil && slices.ContainsFunc(s.Servers, func(s upstream.Status) bool { return s.Name == server }) {
			with = append(with, live[i])
		}
	}
	return with
}

// Live returns the control sockets of this user's running gateways. Whoever else can put
// one into the directory is not believed.
func Live() (live []string, err error) {
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
		nc, err := net.DialTimeout("unix", path, describeTimeout)
		switch {
		case err == nil:
			_ = nc.Close()
			live = append(live, path)
		case isLeft(path):
			_ = os.Remove(path) // the next look finds it otherwise
		}
	}
	return live, nil
}

// isLeft reports whether a socket of a single server was left by a process that was killed.
func isLeft(path string) bool {
	name, ok := strings.CutPrefix(strings.TrimSuffix(filepath.Base(path), ".sock"), serverPrefix)
	pid, err := strconv.Atoi(name[strings.LastIndexByte(name, '-')+1:])
	return ok && err == nil && !running(pid)
}

// describeTimeout is how long a gateway may take to say which it is.
const describeTimeout = 2 * time.Second

// Statuses asks gateways how they are, all at once. That of one that does not say so in time
// is nil.
func Statuses(ctx context.Context, sockets []string) []*gateway.Status {
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

// Names returns the names of the servers of this user's running gateways.
func Names(ctx context.Context) (names []string) {
	live, _ := Live() // or none
	for _, s := range Statuses(ctx, live) {
		for i := 0; s != nil && i < len(s.Servers); i++ {
			names = append(names, s.Servers[i].Name)
		}
	}
	return names
}

// CompleteServer has shells complete the name of a server, and then a file.
func CompleteServer(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	return Names(context.Background()), cobra.ShellCompDirectiveNoFileComp
}

// Describe returns a line for each gateway, by which they are told apart.
func Describe(ctx context.Context, list []string) string {
	var lines []string
	for i, s := range Statuses(ctx, list) {
		what := "does not answer"
		if s != nil {
			what = fmt.Sprintf("%s (process %d, up %s)", Title(s), s.PID, humanize.Duration(time.Since(s.Began).Round(time.Second)))
		}
		lines = append(lines, fmt.Sprintf("  %s  --socket %s", what, list[i]))
	}
	return strings.Join(lines, "\n")
}

// Title returns what tells a gateway from others: its files, or the server that it was started for.
func Title(s *gateway.Status) string {
	if len(s.Files) > 0 {
		return strings.Join(s.Files, ", ")
	}
	var names []string
	for i := range s.Servers {
		names = append(names, s.Servers[i].Name)
	}
	return cmp.Or(strings.Join(names, ", "), "the built-in server")
}

// Files returns the files that are meant, by their full paths.
func Files(files []string) ([]string, error) {
	if len(files) == 0 {
		file, ok := config.Find(".")
		if !ok {
			return nil, term.Usage("there is no dragoman.yaml, dragoman.yml, dragoman.json, .mcp.json or mcp.json here; name a file, or make one: dragoman init")
		}
		files = []string{file}
	}
	found := make([]string, len(files))
	for i, file := range files {
		path, err := filepath.Abs(file)
		if err != nil {
			return nil, err
		}
		found[i] = path
	}
	return found, nil
}
