package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/pflag"
)

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
	server   *http.Server
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
func (c *control) serve(g *gateway.Gateway, v *voice) {
	c.server = newHTTPServer(g.Control(), v.log)
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
