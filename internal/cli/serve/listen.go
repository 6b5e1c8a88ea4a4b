package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"

	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// A listener is a socket that we listen on.
type listener struct {
	net.Listener
	rules   config.Listen
	proxies httpserver.Proxies
	cert    *httpserver.Certificate // nil without TLS
	http    bool
	slow    bool   // net/http answers all requests, see fastPathVariable
	unix    string // the path of a Unix socket
}

// fastPathVariable turns off the fast path of ordinary requests, should there be a bug in it.
const fastPathVariable = "DRAGOMAN_FASTPATH"

// readFastPath reports whether the fast path is turned off.
func readFastPath(text string) (off bool, err error) {
	switch strings.ToLower(text) {
	case "", "on":
		return false, nil
	case "off":
		return true, nil
	}
	return false, term.Usage("%s is %q: use on or off", fastPathVariable, text)
}

// openListeners listens on all addresses, or on none.
func openListeners(ctx context.Context, wanted []config.Listen, a *config.Auth, log *slog.Logger) (list []*listener, err error) {
	defer func() {
		if err != nil {
			closeListeners(list)
		}
	}()
	for _, rules := range wanted {
		e, err := openListener(ctx, rules, log)
		if err != nil {
			return list, err
		}
		list = append(list, e)
		if err := e.checkExposure(a); err != nil {
			return list, err
		}
	}
	return list, nil
}

func closeListeners(list []*listener) {
	for _, e := range list {
		_ = e.Close() // or closed by who served it
	}
}

// openListener listens on an address.
func openListener(ctx context.Context, rules config.Listen, log *slog.Logger) (*listener, error) {
	a, err := flags.ParseAddress(rules.Address)
	if err != nil {
		return nil, term.Usage("%w", err)
	}
	e := &listener{rules: rules, http: a.HTTP}
	if e.slow, err = readFastPath(os.Getenv(fastPathVariable)); err != nil {
		return nil, err
	}
	if err := e.protect(log); err != nil {
		return nil, err
	}
	if a.Network == "unix" {
		if e.unix, err = filepath.Abs(a.Where); err != nil {
			return nil, err
		}
	}
	defer keepPrivate()() // a socket is ours alone before anybody can find it
	if e.Listener, err = stdio.Listen(ctx, a.Network, a.Where); err != nil {
		if cause := errors.Unwrap(err); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("cannot listen on %s: %w; choose another address with --listen", a.Where, err)
	}
	return e, nil
}

// A client that vanishes, because its machine or the network died, says nothing. It
// has to be noticed within 30 seconds: a stream carries a comment every 15.
const (
	// askAfter is how long a connection is silent before the other side's system
	// is asked whether it is there, and askEvery how often it is asked then.
	askAfter = 10 * time.Second
	askEvery = 5 * time.Second

	// lostTimeout is how long that system may leave unacknowledged what it was
	// asked or sent, on Linux. It also may not take longer to have room for what
	// is sent, which means that a client reads nothing.
	lostTimeout = 12 * time.Second
)

// Accept implements net.Listener.
func (e *listener) Accept() (net.Conn, error) {
	c, err := e.Listener.Accept()
	if tcp, ok := c.(*net.TCPConn); ok {
		// What cannot be set is as the system has it.
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: askAfter, Interval: askEvery, Count: int(lostTimeout / askEvery)})
		limitUnacknowledged(tcp)
	}
	return c, err
}

// exposed reports whether other machines can reach a listener.
func (e *listener) exposed() bool {
	at, ok := e.Addr().(*net.TCPAddr)
	return ok && !at.IP.IsLoopback()
}

// authority is where a listener on TCP is reached: by this machine, or by a name in our
// certificate if that does not have the address.
func (e *listener) authority() string {
	at, ok := e.Addr().(*net.TCPAddr)
	if !ok {
		return e.Addr().String()
	}
	host := at.IP.String()
	if at.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	if e.cert != nil && e.cert.Leaf().VerifyHostname(host) != nil {
		if names := certificateNames(e.cert); len(names) > 0 {
			host = names[0]
		}
	}
	return net.JoinHostPort(host, strconv.Itoa(at.Port))
}

// ownNames returns by which hosts other machines may call us: our host name and
// the addresses of our interfaces.
func ownNames() []string {
	var names []string
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	addrs, _ := net.InterfaceAddrs() // without them, the name has to do
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			names = append(names, n.IP.String())
		}
	}
	return names
}

// announce says where the server is, and what to write into the configuration of
// a client.
func announce(s *flags.Settings, name string, what *gateway.Backend, listeners []*listener, v *term.Console) {
	var places []string
	for _, e := range listeners {
		places = append(places, e.places(s.PublicURL, what)...)
	}
	v.Announce("ready: %s", strings.Join(append(places, "standard input and output"), ", "))
	v.Printf("for the configuration of a client: %s", snippet(s.PublicURL, name, listeners))
}

// places returns what is at a listener.
func (e *listener) places(public string, what *gateway.Backend) []string {
	base := e.base(public)
	switch {
	case !e.http:
		return []string{e.address() + " (lines)"}
	case e.unix != "":
		return []string{base + ":" + gateway.MCPPath + " (HTTP on a Unix socket)"}
	}
	list := []string{base + gateway.MCPPath + " (Streamable HTTP)"}
	if what.Sessions != nil {
		list = append(list, base+gateway.SSEPath+" (HTTP+SSE)")
	}
	list = append(list, "ws"+strings.TrimPrefix(base, "http")+gateway.WSPath+" (WebSocket)")
	if what.Requests != nil {
		list = append(list, base+gateway.CallPath+" (tool calls)")
	}
	return list
}

// base is what the URLs of an HTTP listener begin with.
func (e *listener) base(public string) string {
	switch {
	case e.unix != "":
		return "unix://" + e.unix
	case public != "":
		return strings.TrimSuffix(public, "/")
	}
	if e.cert != nil {
		return "https://" + e.authority()
	}
	return "http://" + e.authority()
}

// address is what dragoman connect takes to reach a listener for lines.
func (e *listener) address() string {
	if e.unix != "" {
		return "unix:" + e.unix
	}
	return "tcp:" + e.authority()
}

// snippet returns how a client is told about the server: by a URL if it has one,
// else by a command that goes there.
func snippet(public, name string, listeners []*listener) string {
	type server struct {
		Type    string   `json:"type,omitempty"`
		URL     string   `json:"url,omitempty"`
		Command string   `json:"command,omitempty"`
		Args    []string `json:"args,omitempty"`
	}
	var one server
	for _, e := range listeners {
		if e.http && e.unix == "" {
			one = server{Type: "http", URL: e.base(public) + gateway.MCPPath}
			break
		}
		if one.Command == "" {
			one = server{Command: executable(), Args: []string{"connect", e.address()}}
			if e.http {
				one.Args[1] = e.base("") + ":" + gateway.MCPPath
			}
		}
	}
	text, _ := json.Marshal(map[string]any{"mcpServers": map[string]server{name: one}}) // strings alone cannot fail
	return string(text)
}

// executable is how others start this program.
func executable() string {
	if path, err := os.Executable(); err == nil {
		return path
	}
	return "dragoman"
}
