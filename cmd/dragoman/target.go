package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"

	"github.com/dragoman-mcp/dragoman/target"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// newTarget makes the server that the settings name. Nothing is dialled.
func newTarget(s *settings, framing stdio.Framing, v *voice) (*target.Target, error) {
	spec := &target.Spec{
		Command: s.command, Dir: s.cwd, URL: s.url, Transport: s.order, Framing: framing,
		MaxMessage: s.maxMessage, DialTimeout: s.dialTimeout, Logger: v.log,
	}
	var err error
	if s.command != nil {
		spec.Name = target.NameOfCommand(s.command)
		spec.OnStderr = v.repeat(spec.Name)
		spec.Env, spec.Inherit, err = s.environment()
	} else {
		spec.Header, err = parseHeaders(s.headers, os.LookupEnv)
	}
	if err != nil {
		return nil, err
	}
	t, err := target.New(spec)
	if e, ok := errors.AsType[*target.SpecError](err); ok {
		if strings.HasPrefix(e.Reason, "unknown scheme") {
			return nil, errors.New(e.Reason + ", or -- before a command")
		}
		return nil, errors.New(e.Reason)
	}
	warnPlain(s, v)
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

// environment returns the variables that the command gets: those that are set,
// and the names of ours that are passed on.
func (s *settings) environment() (env, inherit []string, err error) {
	if s.allEnv {
		inherit = []string{"*"}
	}
	for i, entry := range s.env {
		name, _, set := strings.Cut(entry, "=")
		_, ours := os.LookupEnv(name)
		switch {
		case name == "":
			return nil, nil, fmt.Errorf("-e %d has no name: write NAME=value, or NAME to pass ours on", i+1)
		case set:
			env = append(env, entry)
		case !ours:
			return nil, nil, fmt.Errorf("-e %s: it is not set here; set it, or write %s=value", name, name)
		default:
			inherit = append(inherit, name)
		}
	}
	return env, inherit, nil
}
