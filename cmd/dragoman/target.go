package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

// commandProbe is how long a server that is a command may take over the first
// request: it may have to be fetched first.
const commandProbe = 20 * time.Second

// A target is a server that is named on the command line.
type target struct {
	name   string // for people and configurations
	how    string // how it is reached, without secrets
	dialer dragoman.Dialer

	// probe finds out the server's era. If nil, a conversation does, within
	// probeTimeout; zero means era's default.
	probe        func(context.Context) (protocol.Era, error)
	probeTimeout time.Duration

	process bool // it is started by us
}

// isURL tells whether an argument is a URL and not the name of a program.
func isURL(arg string) bool {
	scheme, _, ok := strings.Cut(arg, "://")
	if ok && scheme != "" && !strings.ContainsAny(scheme, `/\ `) {
		return true
	}
	_, ok = cutAny(arg, "unix:", "tcp:", "http+unix:")
	return ok
}

// schemeOf returns the scheme of what isURL.
func schemeOf(target string) string {
	scheme, _, _ := strings.Cut(target, ":")
	return strings.ToLower(scheme)
}

// isLines tells whether a URL means a socket that carries messages alone.
func isLines(target string) bool {
	switch schemeOf(target) {
	case "tcp":
		return true
	case "unix":
		return !strings.HasPrefix(target, "unix://")
	}
	return false
}

func isHTTP(target string) bool { return slices.Contains([]string{"http", "https"}, schemeOf(target)) }

// newTarget makes the server that the settings name. Nothing is dialled.
func newTarget(s *settings, framing stdio.Framing, v *voice) (*target, error) {
	if s.command != nil {
		return newCommand(s, framing, v)
	}
	header, err := parseHeaders(s.headers, os.LookupEnv)
	if err != nil {
		return nil, err
	}
	t := &target{name: nameOfURL(s.url), how: schemeOf(s.url)}
	switch scheme := schemeOf(s.url); {
	case isLines(s.url):
		t.dialer, err = newSocket(s, framing, v)
	case scheme == "unix", scheme == "http+unix":
		err = t.reachUnix(s, header, v)
	case scheme == "http", scheme == "https":
		err = t.reachHTTP(s, header, v)
	case scheme == "ws", scheme == "wss":
		if err = checkURL(s.url); err == nil {
			t.dialer = &ws.Client{URL: s.url, Header: header, MaxMessage: s.maxMessage, Logger: v.log}
		}
	default:
		err = fmt.Errorf("unknown scheme %q: use http, https, ws, wss, unix or tcp, or -- before a command", scheme)
	}
	if err == nil {
		warnPlain(s, v)
	}
	return t, err
}

// warnPlain says so if others on the way can read and change what is sent.
func warnPlain(s *settings, v *voice) {
	u, err := url.Parse(s.url)
	if err != nil || s.allowHTTP || u.Scheme != "http" && u.Scheme != "ws" && u.Scheme != "tcp" || u.Hostname() == "localhost" {
		return
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() != "" && (ip == nil || !ip.IsLoopback()) {
		v.say("warning: the connection to %s is not encrypted: others on the way can read and change what is sent", u.Hostname())
	}
}

func newCommand(s *settings, framing stdio.Framing, v *voice) (*target, error) {
	c := &stdio.Command{
		Path: s.command[0], Args: s.command[1:], Dir: s.cwd,
		Framing: framing, MaxMessage: s.maxMessage, Logger: v.log,
	}
	if s.allEnv {
		c.InheritEnv = []string{"*"}
	}
	for i, entry := range s.env {
		name, _, set := strings.Cut(entry, "=")
		_, ours := os.LookupEnv(name)
		switch {
		case name == "":
			return nil, fmt.Errorf("-e %d has no name: write NAME=value, or NAME to pass ours on", i+1)
		case set:
			c.Env = append(c.Env, entry)
		case !ours:
			return nil, fmt.Errorf("-e %s: it is not set here; set it, or write %s=value", name, name)
		default:
			c.InheritEnv = append(c.InheritEnv, name)
		}
	}
	name := nameOfCommand(s.command)
	c.OnStderr = v.repeat(name)
	return &target{name: name, how: "command", dialer: c, probeTimeout: commandProbe, process: true}, nil
}

func newSocket(s *settings, framing stdio.Framing, v *voice) (dragoman.Dialer, error) {
	a := &stdio.Address{Options: &stdio.Options{Framing: framing, MaxMessage: s.maxMessage, Logger: v.log}}
	if path, ok := strings.CutPrefix(s.url, "unix:"); ok {
		if path == "" {
			return nil, errors.New("unix: needs the path of a socket, as in unix:/run/server.sock")
		}
		a.Network, a.Address = "unix", path
		return a, nil
	}
	a.Network, a.Address = "tcp", strings.TrimPrefix(strings.TrimPrefix(s.url, "tcp:"), "//")
	if _, port, err := net.SplitHostPort(a.Address); err != nil || port == "" {
		return nil, errors.New("tcp: needs a host and a port, as in tcp:127.0.0.1:9000")
	}
	return a, nil
}
