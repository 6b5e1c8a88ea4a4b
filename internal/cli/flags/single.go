package flags

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/observe"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/target/diagnose"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

const (
	// urlStart is how long we wait for a server at a URL before we serve it all
	// the same.
	urlStart = 10 * time.Second
)

// A Server is the one server that a command line names: a configuration of that alone,
// or the built-in server.
type Server struct {
	*target.Target
	File    config.File
	BuiltIn *builtin.Server  // nil if the server is named
	root    *gateway.Backend // what clients of the built-in server see; else nil
	SignIn  *upstream.SignInOptions
	Calls   slog.Level // of the log lines of calls
	Title   string     // what it calls itself, if it has come up
}

// Server returns the server that the settings name. framing is how it is spoken to on a
// stream. Nothing is started or dialled.
func (s *Settings) Server(framing string, v *term.Console) (*Server, error) {
	o := &Server{File: config.File{Limits: config.Limits{Message: config.Size(s.MaxMessage), IdleSession: s.idle}}}
	UseTokenFile(&o.File, s.tokenFile)
	if s.URL == "" && s.Command == nil {
		err := o.useBuiltIn(s)
		return o, err
	}
	frames, err := Framing(framing)
	if err != nil {
		return nil, err
	}
	c := &config.Server{
		URL: s.URL, Transport: config.Transport(s.Order), Cwd: s.Cwd, Framing: framing, Era: s.Era, Isolation: s.isolation, Pool: s.pool,
		Timeout: s.Timeout, ConnectTimeout: s.DialTimeout, Tools: config.Tools{Exclude: s.ignored},
	}
	if err := s.SignIn.Settle(); err != nil {
		return nil, err
	}
	if s.URL != "" {
		c.Auth, c.TLS, c.Proxy = s.SignIn.Auth, s.SignIn.TLS, s.SignIn.Proxy
	}
	if s.Timeout == 0 {
		c.Timeout = -1 // none
	}
	var headers http.Header
	if s.Command != nil {
		c.Command, c.Args = s.Command[0], s.Command[1:]
		c.Env, c.Inherit, err = s.Environment()
	} else {
		headers, err = ParseHeaders(s.Headers, os.LookupEnv)
		c.Headers = make(map[string]string, len(headers))
		for name, values := range headers {
			c.Headers[name] = strings.Join(values, ", ")
		}
	}
	if err != nil {
		return nil, err
	}
	if headers.Get("Authorization") != "" && (c.Auth.TokenFile != "" || len(c.Auth.Command) > 0) {
		return nil, errors.New("-H has an Authorization header, and --server-token-file or --server-token-command a token; choose one")
	}
	o.Target, err = target.New(&target.Spec{Command: s.Command, URL: s.URL, Transport: s.Order, Framing: frames, Header: headers})
	if e, ok := errors.AsType[*target.SpecError](err); ok {
		if strings.HasPrefix(e.Reason, "unknown scheme") {
			return nil, errors.New(e.Reason + ", or -- before a command")
		}
		return nil, errors.New(e.Reason)
	}
	if err != nil {
		return nil, err
	}
	if s.URL != "" {
		if err := checkSignIn(c); err != nil {
			return nil, err
		}
	}
	warnPlain(s, v)
	c.Name = o.Name
	o.File.Servers, o.File.Names = map[string]*config.Server{c.Name: c}, []string{c.Name}
	return o, nil
}

// useBuiltIn makes the built-in server the one.
func (o *Server) useBuiltIn(s *Settings) error {
	revisions, err := ChooseRevisions(s.Era, "auto", s.revisions)
	if err != nil {
		return err
	}
	o.Target = &target.Target{Name: "everything", How: "built-in"}
	o.BuiltIn = builtin.New(&builtin.Options{Version: term.Version(), Revisions: revisions})
	o.root = &gateway.Backend{Acceptor: o.BuiltIn}
	if speaksEra(revisions, protocol.Legacy) {
		o.root.Sessions = o.BuiltIn
	}
	if speaksEra(revisions, protocol.Modern) {
		o.root.Requests = o.BuiltIn.Requests()
	}
	return nil
}

// Open makes the gateway of the server. messages is what clients of HTTP+SSE are told.
func (o *Server) Open(messages string, v *term.Console) (*gateway.Gateway, error) {
	cache := ""
	if o.BuiltIn == nil && o.Process {
		cache = CacheDirectory() // for its era
	}
	return observe.NewGateway(&gateway.Options{
		Name: "dragoman", Version: term.Version(), Single: o.root == nil, Root: o.root, MessagesPath: messages,
		Load:   func() (*config.File, *config.Report) { return &o.File, &config.Report{} }, // for the files that it names
		SignIn: o.SignIn, RootName: o.Name, Cache: cache, Stderr: v.Stderr, Notice: v.Notice, Logger: v.Log,
	}, &o.File, o.Calls)
}

// Close ends the built-in server, if that is the one.
func (o *Server) Close() {
	if o.BuiltIn != nil {
		o.BuiltIn.Close()
	}
}

// Start has the server come up, and says so. It returns an error if it is not there
// and nothing can be served.
func (o *Server) Start(ctx context.Context, g *gateway.Gateway, v *term.Console) error {
	if o.BuiltIn != nil {
		return nil
	}
	limit := ctx
	waiting := term.NewWaiting(v, o.Name+": starting")
	defer waiting.End()
	if !o.Process {
		v.Printf("connecting to %s", o.File.Servers[o.Name].Location())
		var cancel context.CancelFunc
		limit, cancel = context.WithTimeoutCause(ctx, urlStart, target.Unreached(urlStart))
		defer cancel()
	}
	up := g.Upstreams()[0]
	era, err := up.Start(limit)
	waiting.End()
	switch {
	case err == nil:
		o.Title = up.Title()
		v.Printf("serving %s (%s, %s era)", o.Title, o.How, era)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case o.Process:
		return &term.Failure{Status: term.ExitUnreachable, Hint: "run with --debug to see every step", Err: o.Explain(err)}
	default:
		v.Warnf("%v; serving it anyway, each request tries again", o.Explain(err))
	}
	return nil
}

// Explain returns in a line why the server cannot be reached, and what to do.
func (o *Server) Explain(err error) error {
	subject := diagnose.Subject{CommandLine: true}
	_, isStart := errors.AsType[*stdio.StartError](err)
	_, signIn := errors.AsType[*oauth.SignInError](err)
	status, refused := errors.AsType[*protocol.StatusError](err)
	if isStart {
		reason, advice, _ := subject.Explain(err)
		return errors.New(reason + "; " + advice)
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the URL may hold a secret
	}
	if e, ok := errors.AsType[*stdio.ExitError](err); ok {
		err = e
	}
	switch {
	case o.Process:
		return fmt.Errorf("the server did not come up: %w%s", term.PlainError(err), subject.Withheld(err))
	case signIn, refused && (status.Status == http.StatusUnauthorized || status.Status == http.StatusForbidden):
		return fmt.Errorf("%s: %w", o.Name, err)
	}
	return fmt.Errorf("%s cannot be reached: %w", o.Name, term.PlainError(err))
}

// warnPlain says so if others on the way can read and change what is sent.
func warnPlain(s *Settings, v *term.Console) {
	u, err := url.Parse(s.URL)
	if err != nil || s.allowHTTP || u.Scheme != "http" && u.Scheme != "ws" && u.Scheme != "tcp" || u.Hostname() == "localhost" {
		return
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "" && (ip == nil || !ip.IsLoopback()) {
		v.Warnf("the connection to %s is not encrypted: others on the way can read and change what is sent", u.Hostname())
	}
}

// Environment returns the variables that the command gets: those that are set,
// and the names of ours that are passed on.
func (s *Settings) Environment() (env map[string]string, inherit []string, err error) {
	if s.allEnv {
		inherit = []string{"*"}
	}
	env = make(map[string]string)
	for i, entry := range s.env {
		name, value, set := strings.Cut(entry, "=")
		_, ours := os.LookupEnv(name)
		switch {
		case name == "":
			return nil, nil, fmt.Errorf("-e %d has no name: write NAME=value, or NAME to pass ours on", i+1)
		case set:
			env[name] = value
		case !ours:
			return nil, nil, fmt.Errorf("-e %s: it is not set here; set it, or write %s=value", name, name)
		default:
			inherit = append(inherit, name)
		}
	}
	return env, inherit, nil
}

// CacheDirectory is where the last known lists of servers are kept. Without one
// they are not.
func CacheDirectory() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "dragoman")
}
