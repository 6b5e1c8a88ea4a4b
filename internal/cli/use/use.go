// Package use has the commands that use a server as a client does: they list, call, read and
// listen. A server is named by a [Target] and used through a [Session].
package use

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/client"
	"github.com/dragoman-mcp/dragoman/internal/cli/control"
	"github.com/dragoman-mcp/dragoman/internal/cli/flags"
	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/gateway/store"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/observe/logs"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/util/humanize"
	"github.com/dragoman-mcp/dragoman/internal/util/lazy"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/spf13/cobra"
)

// How long things may take for who waits at a terminal.
const (
	useTimeout        = time.Minute     // a request, without progress
	useConnectCommand = 5 * time.Minute // a command to come up, which may install itself first
	ConnectURL        = 30 * time.Second
)

// TargetHelp is what the help of each command says of the server.
const TargetHelp = `The server is a URL, FILE#NAME for a server of a configuration, the name of a server of a
running gateway or of the configuration in this directory, or a command after "--".`

// Target are a server that a command uses for itself, and how it shows what comes of it.
type Target struct {
	flags.Settings
	term.Writing
	Socket     string
	showStderr bool
	File       string        // that the server was found in
	at         string        // the control socket of the running gateway that has the server, if one has
	gateway    string        // the same, if all of that gateway is used
	servers    []string      // of that gateway
	warned     bool          // of gateways that are not asked
	unknown    bool          // no server has the name that was looked for
	Wants      Wanted        // beside the target
	Console    *term.Console // set before a server is looked for
	quiet      bool          // nobody is asked to sign in
	path       string        // of the command, "dragoman tools"
	supervised bool          // the server is one of a running gateway
}

// Wanted are the arguments that a command needs beside its target.
type Wanted struct {
	Least int
	Only  bool   // and no more
	What  string // they are, as in "the tool"; if there is none, what to do about more
	Form  string // in which they stand before a "--"
	URIs  bool   // they are resources
}

// Add adds the flags that all commands have that use a server.
func (u *Target) Add(c *cobra.Command) {
	f := c.Flags()
	u.AddServer(f)
	for _, name := range []string{
		"client-id", "client-secret-file", "client-key-file", "client-metadata-url", "scope", "callback-port", "device-code", "client-credentials",
		"auth-timeout", "ignore-tool", "max-message",
	} {
		_ = f.MarkHidden(name) // they are there, see dragoman login --help
	}
	timeout := f.Lookup("timeout")
	timeout.DefValue, u.Timeout = useTimeout.String(), useTimeout
	f.Lookup("connect-timeout").Usage = "how long the server may take to start or to be reached, as 90s or 2m (default " + humanize.Duration(ConnectURL) + " for a URL, " + humanize.Duration(useConnectCommand) + " for a command, which may install itself first)"
	control.AddFlag(f, &u.Socket)
	_ = f.MarkHidden("socket") // as above
	f.StringVar(&u.Order, "transport", "", "how an http URL is tried: "+strings.Join(target.Orders, ", "))
	f.StringVar(&u.Framing, "framing", stdio.Auto.String(), "how messages to a command or a socket are framed: auto, lines or content-length")
	f.BoolVar(&u.showStderr, "stderr", false, "show what the server's command writes to standard error")
	u.Writing.Add(f)
	c.ValidArgsFunction = u.completeArguments
}

// Take finds the server among the arguments, and returns the others. What follows a "--" is the
// server's command.
func (u *Target) Take(c *cobra.Command, args []string) (*config.Server, []string, error) {
	if err := u.CheckFormat(); err != nil {
		return nil, nil, err
	}
	v, err := term.ConsoleOf(c, "", nil)
	if err != nil {
		return nil, nil, err
	}
	u.Speak(v)
	u.path = c.CommandPath()
	name, rest, dash, least := "", args, c.ArgsLenAtDash(), u.Wants.Least
	switch {
	case dash >= 0 && dash == len(args):
		return nil, nil, term.Usage("no command follows --; name that of the server, as in: dragoman %s -- npx -y some-server", c.Name())
	case dash >= 0 && dash < least:
		return nil, nil, term.Usage("name %s before --: dragoman %s %s -- command", u.Wants.What, c.Name(), u.Wants.Form)
	case dash >= 0:
		u.Command, rest = args[dash:], args[:dash]
		if err := flags.CheckCommand(u.path, u.Wants.Form, u.Command); err != nil {
			return nil, nil, err
		}
	case len(args) > least:
		name, rest = args[0], args[1:]
	case len(args) == least && least > 0:
		if server, err := u.whole(c.Context(), args[0]); server != nil || err != nil {
			return server, args, err
		}
		fallthrough
	case least > 0:
		return nil, nil, term.Usage("too few arguments: %s", c.UseLine())
	}
	switch {
	case u.Wants.Only && len(rest) > least && least > 0:
		return nil, nil, term.Usage("%q follows %s; name one: %s", rest[least], u.Wants.What, c.UseLine())
	case u.Wants.Only && len(rest) > least:
		return nil, nil, term.Usage("%q follows the target; %s", rest[0], cmp.Or(u.Wants.What, "one server can be named"))
	}
	var server *config.Server
	if dash >= 0 {
		server, err = u.Named(c)
	} else {
		server, err = u.Find(c.Context(), name)
	}
	if err != nil && dash < 0 && (u.unknown || u.isResource(name)) && !(u.Wants.Only && len(args) > least) {
		if all, several := u.whole(c.Context(), name); all != nil || several != nil {
			return all, args, several
		}
	}
	return server, rest, err
}

// Speak reports progress to the user on a console. Details are logged at debug level only.
func (u *Target) Speak(v *term.Console) {
	if u.Console = v; !logs.Enabled(v.Log) {
		v.Log = slog.New(slog.DiscardHandler)
	}
}

// Find returns the server that a word names. Without one it is all of the running gateway.
func (u *Target) Find(ctx context.Context, name string) (*config.Server, error) {
	if target.IsURL(name) {
		u.URL = name
		return u.Named(nil)
	}
	if file, server, ok := strings.Cut(name, "#"); ok && file != "" {
		return u.serverOfFile(file, server)
	}
	if IsFile(name) {
		return u.serverOfFile(name, "")
	}
	found, err := u.running(ctx, name)
	if found != nil || err != nil {
		return found, err
	}
	if hostAndPort().MatchString(name) {
		return nil, term.Usage("%q is no URL; if it is one, begin it with http:// or https://: http://%s", name, name)
	}
	if name == "" {
		return nil, term.Usage("no server is named, and no gateway is running: give a URL, FILE#NAME, or -- and a command")
	}
	if here, ok := config.Find("."); ok {
		return u.serverOfFile(here, name)
	}
	u.unknown = true
	return nil, term.Usage("%q is no URL, no server of a running gateway and no file; for a command write -- before it: %s", name, flags.AsCommand(u.path, u.Wants.Form, name))
}

// IsFile reports whether a word names a file that there is.
func IsFile(word string) bool {
	info, err := os.Stat(word)
	return err == nil && !info.IsDir()
}

// whole returns all of the running gateway, for a word that is the name of something of it and
// no server; nil if there is none, or the word must be a server.
func (u *Target) whole(ctx context.Context, word string) (*config.Server, error) {
	if !u.isResource(word) && (u.Wants.URIs && u.Wants.Least == 0 || target.IsURL(word) || strings.Contains(word, "#") || hostAndPort().MatchString(word)) {
		return nil, nil
	}
	return u.running(ctx, "")
}

// isResource reports whether a word is a resource, and can be no server.
func (u *Target) isResource(word string) bool {
	return u.Wants.URIs && target.IsURL(word) && !target.Reaches(word)
}

// hostAndPort finds words that are a URL without its beginning.
var hostAndPort = lazy.Regexp(`^(?:localhost|[\w-]+(?:\.[\w-]+)+|\[[0-9a-fA-F:]+\]):\d+(?:/.*)?$|^localhost/`)

// Named returns the server of the URL or the command.
func (u *Target) Named(c *cobra.Command) (*config.Server, error) {
	if c != nil {
		if err := u.Settings.Check(c); err != nil {
			return nil, term.Usage("%w", err)
		}
	}
	o, err := u.Server(u.Framing, u.Console)
	if err != nil {
		return nil, term.Usage("%w", err)
	}
	return o.File.Servers[o.Name], nil
}

// serverOfFile returns a server of a configuration; the only one if none is named.
func (u *Target) serverOfFile(file, name string) (*config.Server, error) {
	u.File = file
	loaded, report := config.Load(nil, file)
	if name == "" && len(loaded.Names) == 1 {
		name = loaded.Names[0]
	}
	if c := loaded.Servers[name]; c != nil {
		return c, nil
	}
	switch {
	case name == "" && len(loaded.Broken) == 0 && !flags.IsConfigurationName(file):
		return nil, term.Usage("%s is not a configuration file; for a command write -- before it: %s", file, flags.AsCommand(u.path, u.Wants.Form, file))
	case report.Refused() != nil && (name == "" || !slices.Contains(loaded.Broken, name)):
		return nil, term.Usage("%w", report.Refused())
	case slices.Contains(loaded.Broken, name):
		return nil, term.Usage("%s", report.Of(name))
	case len(loaded.Names) == 0 && len(loaded.Broken) > 0:
		return nil, term.Usage("%s", report.Error())
	case len(loaded.Names) == 0:
		return nil, term.Usage("there is no server in %s", file)
	case name == "":
		return nil, term.Usage("there are several servers in %s; name one: %s", file, file+"#"+strings.Join(loaded.Names, ", "+file+"#"))
	}
	u.unknown = true
	f := term.Usage("there is no server %q in %s: there are %s", name, file, strings.Join(loaded.Names, ", "))
	f.Hint = flags.CommandHint(u.path, u.Wants.Form, name)
	return nil, f
}

// running returns a server of a running gateway, or all of one, if there is such. It is reached
// over the socket of the gateway's owner.
func (u *Target) running(ctx context.Context, name string) (*config.Server, error) {
	sockets, statuses := []string{u.Socket}, []*gateway.Status{{}}
	if u.Socket != "" {
		if err := control.Call(ctx, u.Socket, nil, http.MethodGet, "/status", statuses[0]); err != nil {
			return nil, &term.Failure{Status: term.ExitUnreachable, Err: err}
		}
	} else {
		var err error
		if sockets, err = control.Live(); err != nil {
			if !u.warned {
				u.Console.Warnf("running gateways are left out: %v", err)
			}
			u.warned = true
		}
		statuses = control.Statuses(ctx, sockets)
	}
	var found, names []string
	var serving []string // of the gateways that were found, those that serve a configuration
	for i, s := range statuses {
		if s == nil {
			u.Console.Warnf("the gateway at %s does not answer", sockets[i])
			continue
		}
		for j := range s.Servers {
			names = append(names, s.Servers[j].Name)
		}
		if name == "" || slices.ContainsFunc(s.Servers, func(s upstream.Status) bool { return s.Name == name }) {
			found = append(found, sockets[i])
			if len(s.Files) > 0 {
				serving = append(serving, sockets[i])
			}
		}
	}
	if name == "" && len(serving) == 1 {
		found = serving // and not what hosts run beside it
	}
	switch {
	case len(found) == 0 && u.Socket != "":
		u.unknown = true
		return nil, term.Usage("the gateway at %s has no server %q: %s", u.Socket, name, cmp.Or(humanize.SuggestHint(name, slices.Values(names)), "there are "+strings.Join(names, ", ")))
	case len(found) == 0:
		return nil, nil
	case len(found) > 1:
		return nil, term.Usage("%d running gateways could be meant; choose one:\n%s", len(found), control.Describe(ctx, found))
	}
	at, err := filepath.Abs(found[0])
	if err != nil {
		return nil, err
	}
	u.at = found[0]
	path := gateway.MCPPath
	if name != "" {
		path, u.supervised = "/servers/"+name+path, true
	} else {
		u.gateway, u.servers = found[0], names
	}
	return &config.Server{Name: cmp.Or(name, "gateway"), URL: "unix://" + at + ":" + path, Era: u.Era, Auth: config.ServerAuth{SignIn: "none"}}, nil
}

// Reach makes a server, which nothing is started or dialled for. Unless o says how to sign in,
// sign-ins that are there are used, and nobody is asked for one.
func (u *Target) Reach(server *config.Server, o upstream.ReachOptions) (*upstream.Reached, error) {
	v, also := u.Console, o.OnStderr
	if o.SignIn == nil {
		o.SignIn = &upstream.SignInOptions{Store: flags.OpenSignIns(v)}
	}
	o.MaxMessage, o.Logger = u.MaxMessage, v.Log
	o.OnStderr = func(line string) {
		if u.showStderr {
			v.Stderr(server.Name, line)
		}
		if also != nil {
			also(line)
		}
	}
	r, err := upstream.Reach(server, &o)
	if err != nil {
		return nil, err
	}
	r.Dialer = event.Dialer(r.Dialer, &event.Link{Role: event.Connection}, event.Observers{&logs.Messages{Log: o.Logger}})
	return r, nil
}

// A Session is a server that a command uses.
type Session struct {
	*client.Client
	server *config.Server
	Use    *Target
	How    string        // it is reached
	took   time.Duration // to come up
	last   *lastConn
	End    func()
}

// A lastConn is a dialer that knows the conversation which it has opened last.
type lastConn struct {
	dragoman.Dialer

	mu   sync.Mutex
	conn dragoman.Conn // guarded by mu; nil before the first
}

// Dial implements dragoman.Dialer.
func (l *lastConn) Dial(ctx context.Context, local dragoman.Peer) (dragoman.Conn, error) {
	conn, err := l.Dialer.Dial(ctx, local)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.conn = conn
	}
	return conn, err
}

// get returns the conversation.
func (l *lastConn) get() dragoman.Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// Open starts or reaches a server. The caller calls close.
func (u *Target) Open(ctx context.Context, server *config.Server, opts *client.Options) (*Session, error) {
	v := u.Console
	shown := &stderrTail{print: func(line string) {
		if !u.showStderr { // else it has been
			v.Stderr(server.Name, line)
		}
	}}
	var stray atomic.Pointer[string]
	wait := ConnectURL
	if server.Command != "" {
		wait = useConnectCommand
	}
	how := upstream.ReachOptions{
		DialTimeout: cmp.Or(u.DialTimeout, wait), OnStderr: shown.add,
		Notice: func(level slog.Level, text string) {
			stray.Store(&text)
			v.Notice(server.Name, level, text)
		},
	}
	asks := !u.quiet && term.IsTerminal(os.Stderr)
	if asks {
		how.SignIn = u.SignIn.Options(true, v)
	}
	reached, err := u.Reach(server, how)
	if err != nil {
		return nil, err
	}
	last := &lastConn{Dialer: reached.Dialer}
	reached.Dialer = last
	o := *opts
	o.Name, o.Version, o.Logger = "dragoman", term.Version(), v.Log
	o.Timeout, o.MaxTimeout, o.ConnectTimeout = orNever(u.Timeout), -1, cmp.Or(u.DialTimeout, wait)
	if e, ok := map[string]protocol.Era{"legacy": protocol.Legacy, "modern": protocol.Modern}[cmp.Or(server.Era, u.Era)]; ok {
		o.Era = &e
	}
	memory, forget := u.remember(server)
	defer forget()
	o.Hint = memory.Hint()
	waiting := term.NewWaiting(v, server.Name+": connecting")
	defer waiting.End()
	if v.Spins() {
		shown.seen = waiting.Stderr
	} else {
		notice := time.AfterFunc(upstream.StartNotice, func() {
			v.Printf("%s: no answer yet; waiting for up to %v (--connect-timeout)", server.Name, o.ConnectTimeout)
			shown.follow()
		})
		defer notice.Stop()
	}
	defer shown.end()
	began := time.Now()
	reached.Target.Name = shownName(server)
	reached.Target.Dialer = shown.again(reached.Target.Dialer)
	asked := &client.Server{Dialer: reached.Target}
	c, err := client.Connect(ctx, asked, &o)
	if _, needed := errors.AsType[*oauth.SignInError](err); needed && reached.SignIn != nil {
		if !asks {
			reached.Close()
			return nil, &term.Failure{Status: term.ExitAuthorization, Hint: "run: dragoman login " + u.SignInTarget(server), Err: errors.New(server.Name + " wants a sign-in")}
		}
		if err = reached.SignIn.SignIn(ctx); err == nil {
			c, err = client.Connect(ctx, asked, &o)
		}
	}
	if err != nil {
		memory.Doubt()
		reached.Close()
		shown.rest()
		return nil, u.unopened(ctx, server, err, stray.Load())
	}
	if o.Era == nil {
		memory.Found(c.Era())
	}
	memory.Introduced(c.ServerInfo().Name, c.ServerInfo().Version)
	return &Session{Client: c, server: server, Use: u, How: reached.How, took: time.Since(began), last: last, End: func() {
		_ = c.Close() // what it did is done
		reached.Close()
	}}, nil
}

// remember returns what is known of a server from earlier commands and gateways. The caller
// calls forget when nothing more will be noted.
func (u *Target) remember(server *config.Server) (m *upstream.Memory, forget func()) {
	dir, log := flags.CacheDirectory(), u.Console.Log
	if server.Command != "" && dir != "" {
		opened, err := store.Open(dir, nil)
		if err == nil {
			return upstream.Remember(server, opened, log), func() { _ = opened.Close() } // what was noted is on disk
		}
		log.Debug("the era of the server is not remembered", "error", err)
	}
	return upstream.Remember(server, store.NewMemory(nil), log), func() {}
}

// SignInTarget names a server for dragoman login. A URL that may hold a secret is not shown.
func (u *Target) SignInTarget(c *config.Server) string {
	if u.File != "" {
		return c.Name + " -f " + u.File
	}
	return u.shownTarget(c)
}

// shownTarget names a server as a target, under the same condition.
func (u *Target) shownTarget(c *config.Server) string {
	switch {
	case u.File != "":
		return u.File + "#" + c.Name
	case strings.ContainsAny(c.URL, "@?"):
		return "URL"
	}
	return c.URL
}

// orNever returns a time limit as package client has it.
func orNever(d time.Duration) time.Duration {
	if d <= 0 {
		return -1
	}
	return d
}

// do opens the server that a command line names, and has it used.
func (u *Target) do(c *cobra.Command, args []string, opts *client.Options, f func(ctx context.Context, s *Session, rest []string) error) error {
	server, rest, err := u.Take(c, args)
	if err != nil {
		return err
	}
	if opts == nil {
		opts = &client.Options{}
	}
	s, err := u.Open(c.Context(), server, opts)
	if err != nil {
		return err
	}
	defer s.End()
	return f(c.Context(), s, rest)
}

// Name is what the server is called.
func (s *Session) Name() string { return cmp.Or(s.ServerInfo().Name, s.server.Name) }

// lacks reports whether an error says that a server does not know what it does not announce either.
func (s *Session) lacks(what string, err error) bool {
	e, ok := errors.AsType[*dragoman.Error](err)
	return ok && e.Code == protocol.CodeMethodNotFound && !s.Can(what)
}

// without says that a server does not have something, or why its list could not be had.
func (s *Session) without(what string, err error) error {
	if s.lacks(what, err) {
		return fmt.Errorf("%s has no %s: %w", s.Name(), what, err)
	}
	return err
}
