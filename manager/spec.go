package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/dragoman-mcp/dragoman/config"
	"github.com/dragoman-mcp/dragoman/internal/redact"
	"github.com/dragoman-mcp/dragoman/target"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// newTarget makes the server that the configuration names, with what is passed on
// to it.
func (u *Upstream) newTarget(p *passed) (*target.Target, error) {
	c := u.conf.Load()
	spec := &target.Spec{
		Name: c.Name, URL: c.URL, Transport: string(c.How()),
		Dir: c.Cwd, Inherit: c.Inherit, User: c.User,
		Limits: stdio.ResourceLimits{
			Memory: int64(c.Limits.Memory), OpenFiles: int64(c.Limits.Files), CPUTime: c.Limits.CPU,
		},
		MaxMessage: u.manager.opts.MaxMessage, DialTimeout: u.set.connect,
		OnStderr: func(line string) { u.stderr(p, line) }, Logger: u.log,
	}
	if c.Command != "" {
		spec.Command = append([]string{c.Command}, c.Args...)
	}
	for name, value := range c.Env {
		spec.Env = append(spec.Env, name+"="+value)
	}
	framing := c.Framing
	if framing == "" {
		framing = "auto"
	}
	var ok bool
	if spec.Framing, ok = stdio.ParseFraming(framing); !ok {
		return nil, fmt.Errorf("manager: framing %q is unknown", framing)
	}
	if len(c.Headers) > 0 {
		spec.Header = make(http.Header)
	}
	for name, value := range c.Headers {
		spec.Header.Set(name, value)
	}
	p.addTo(spec)
	t, err := u.manager.target(spec)
	if e, bad := errors.AsType[*target.SpecError](err); bad {
		return nil, fmt.Errorf("manager: %s", e.Reason)
	}
	return t, err
}

// clean says what an error says, without what may be a secret.
func (u *Upstream) clean(p *passed, err error) string {
	if err == nil {
		return ""
	}
	if errors.Is(err, context.Canceled) {
		return "it was given up"
	}
	return u.scrub(p, err.Error())
}

// scrub takes secrets out of a text: what looks like one, what the configuration
// gives to the server, and what a caller passes on.
func (u *Upstream) scrub(p *passed, text string) string {
	c := u.conf.Load()
	if c.URL != "" {
		text = strings.ReplaceAll(text, c.URL, c.Where())
	}
	for _, value := range secretsOf(c, p) {
		text = strings.ReplaceAll(text, value, "[redacted]")
	}
	return redact.Text(text)
}

// secretsOf returns values that must not be shown. Short ones would take too much
// else with them.
func secretsOf(c *config.Server, p *passed) []string {
	var list []string
	add := func(value string) {
		if len(value) >= minSecret {
			list = append(list, value)
		}
	}
	for _, value := range c.Headers {
		add(value)
		if _, token, ok := strings.Cut(value, " "); ok {
			add(token) // without Bearer
		}
	}
	for name, value := range c.Env {
		if looksSecret(name) {
			add(value)
		}
	}
	if p != nil {
		for _, value := range p.values {
			add(value)
		}
	}
	return list
}

// minSecret is how long a value must be to be looked for in texts.
const minSecret = 6

// looksSecret tells whether the name of a variable says that it holds a secret.
func looksSecret(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"secret", "token", "key", "pass", "auth", "cred", "cookie"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
