package upstream

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/credential"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/target/diagnose"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// passed is what a caller has passed on to a server: values by the server's names
// of headers or variables. It is never shown.
type passed struct {
	digest  string
	env     bool // variables, not headers
	values  map[string]string
	subject string // whose sign-in is used, if each caller has its own
}

// passedOf returns what of a caller is passed on, or nil.
func (u *Upstream) passedOf(caller *dragoman.Caller) *passed {
	if !u.set.passes {
		return nil
	}
	c, h := u.conf.Load(), http.Header(caller.Header)
	p := &passed{env: c.Command != "", values: make(map[string]string)}
	names := c.PassHeaders
	if p.env {
		names = c.PassEnv
	}
	for theirs, ours := range names {
		if values := h.Values(theirs); len(values) > 0 {
			p.values[ours] = strings.Join(values, ", ")
		}
	}
	if c.Auth.SignIn == eachCaller {
		p.subject = caller.Principal
	}
	if len(p.values) == 0 && p.subject == "" {
		return nil
	}
	sum := hmac.New(sha256.New, u.manager.salt)
	fmt.Fprintf(sum, "%q;", p.subject)
	for _, name := range slices.Sorted(maps.Keys(p.values)) {
		fmt.Fprintf(sum, "%q=%q;", name, p.values[name])
	}
	p.digest = hex.EncodeToString(sum.Sum(nil)[:16])
	return p
}

// keyed returns a caller with what is passed on to this server, and nothing else, in its key.
func (u *Upstream) keyed(who *dragoman.Caller) *dragoman.Caller {
	if !u.set.passes && who.Passed == "" {
		return who
	}
	caller := *who
	caller.Passed = ""
	if p := u.passedOf(&caller); p != nil {
		caller.Passed = p.digest
	}
	if caller.Passed == who.Passed {
		return who
	}
	return &caller
}

// passing returns the context of a request whose caller is keyed.
func (u *Upstream) passing(ctx context.Context) context.Context {
	who := dragoman.CallerOf(ctx)
	if caller := u.keyed(who); caller != who {
		return dragoman.WithCaller(ctx, caller)
	}
	return ctx
}

// newTarget makes the server that the configuration names, with what is passed on
// to it.
func (u *Upstream) newTarget(p *passed) (*target.Target, error) {
	return u.targetWith(p, &output{up: u, passed: p})
}

// targetWith is newTarget for a process that writes to out.
func (u *Upstream) targetWith(p *passed, out *output) (*target.Target, error) {
	spec, err := specOf(u.conf.Load())
	if err != nil {
		return nil, err
	}
	spec.MaxMessage, spec.DialTimeout = u.manager.opts.MaxMessage, u.set.connect
	spec.Vet, spec.TLS, spec.Proxy = u.vet(), u.tls, u.proxy
	spec.OnStderr, spec.OnText, spec.Logger = out.stderr, out.text, u.log
	if source := u.sourceOf(p); source != nil {
		spec.Wrap = source.Transport
	}
	if u.credential != nil {
		spec.Wrap = u.credential.Transport
	}
	if p != nil {
		for name, value := range p.values {
			if p.env {
				spec.Env = append(spec.Env, name+"="+value)
			} else {
				spec.Header.Set(name, value)
			}
		}
	}
	t, err := u.manager.target(spec)
	if e, bad := errors.AsType[*target.SpecError](err); bad {
		return nil, fmt.Errorf("upstream: %s", e.Reason)
	}
	return t, err
}

// specOf returns what a configuration says of how its server is reached.
func specOf(c *config.Server) (*target.Spec, error) {
	spec := &target.Spec{
		Name: c.Name, URL: c.URL, Transport: string(c.ResolvedTransport()),
		Dir: c.Cwd, Inherit: c.Inherit, User: c.User,
		Limits: stdio.ResourceLimits{
			Memory: int64(c.Limits.Memory), OpenFiles: int64(c.Limits.Files), Processes: int64(c.Limits.Processes), CPUTime: c.Limits.CPU,
		},
		Sandbox: sandboxOf(c),
	}
	if c.Command != "" {
		spec.Command = append([]string{cmp.Or(c.Program, c.Command)}, c.Args...)
	}
	for name, value := range c.Env {
		spec.Env = append(spec.Env, name+"="+value)
	}
	var ok bool
	if spec.Framing, ok = stdio.ParseFraming(cmp.Or(c.Framing, "auto")); !ok {
		return nil, fmt.Errorf("upstream: framing %q is unknown", c.Framing)
	}
	if c.URL != "" {
		spec.Header = make(http.Header)
	}
	for name, value := range c.Headers {
		spec.Header.Set(name, value)
	}
	return spec, nil
}

// sandboxOf returns what a server can reach, or nil.
func sandboxOf(c *config.Server) *stdio.Sandbox {
	if c.Sandbox == nil {
		return nil
	}
	return &stdio.Sandbox{
		Read: c.Sandbox.Read, Write: c.Sandbox.Write, Optional: c.Sandbox.Optional,
		NoNetwork: c.Sandbox.Network != nil && !*c.Sandbox.Network,
	}
}

// vet returns what judges the programs of the server, or nil. It goes by the configuration
// of the time when they are started.
func (u *Upstream) vet() func(*exec.Cmd) error {
	if !u.conf.Load().Checked() {
		return nil
	}
	return func(cmd *exec.Cmd) error { return u.conf.Load().Vet(cmd) }
}

// redactError says what an error says, without what may be a secret. It is for our owner.
func (u *Upstream) redactError(err error) string {
	return u.reasonFor(err) + diagnose.Subject{CommandLine: u.manager.opts.CommandLine}.Withheld(err)
}

// reasonFor is redactError for callers, who are not told what our environment has.
func (u *Upstream) reasonFor(err error) string {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, context.Canceled):
		return "it was given up"
	}
	return u.redact(nil, err.Error())
}

// redact takes secrets out of a text: what looks like one, what the configuration
// gives to the server, and what a caller passes on.
func (u *Upstream) redact(p *passed, text string) string {
	if c := u.conf.Load(); c.URL != "" {
		text = strings.ReplaceAll(text, c.URL, c.Location())
	}
	return u.redactSecrets(p, text)
}

// redactSecrets is redact for a text in which URLs are without secrets.
func (u *Upstream) redactSecrets(p *passed, text string) string {
	secrets := secretsOf(u.conf.Load(), p)
	if u.credential != nil {
		secrets = append(secrets, long(u.credential.Secrets())...)
	}
	return redact.Text(redact.Values(text, secrets))
}

// secretsOf returns values that must not be shown. Short ones of headers, and what callers pass on, need not be
// secrets, and would take too much else with them.
func secretsOf(c *config.Server, p *passed) []string {
	var list []string
	add := func(value string) { list = append(list, value) }
	for _, value := range c.Headers {
		add(value)
		if _, token, ok := strings.Cut(value, " "); ok {
			add(token) // without Bearer
		}
	}
	add(c.Auth.ClientSecret)
	add(c.Auth.Exchange.ClientSecret)
	if proxy, err := url.Parse(c.Proxy); err == nil && proxy.User != nil {
		password, _ := proxy.User.Password()
		add(password)
	}
	if p != nil {
		for _, value := range p.values {
			add(value)
		}
	}
	list = long(list)
	for name, value := range c.Env {
		if redact.IsSecret(name, value) {
			add(value)
		}
	}
	return list
}

// long returns the values that can be looked for in texts.
func long(list []string) []string {
	return slices.DeleteFunc(list, func(value string) bool { return len(value) < minSecret })
}

// minSecret is how long a value must be to be looked for in texts.
const minSecret = 6

// ReachOptions say how a server is reached by who wants it for itself.
type ReachOptions struct {
	// SignIn is how to sign in to it; nil means not at all.
	SignIn *SignInOptions

	MaxMessage  int
	DialTimeout time.Duration

	// OnStderr is given what its command writes to standard error, as it is.
	OnStderr func(line string)

	// Notice is told that it writes text where messages belong. If nil, that is logged.
	Notice func(level slog.Level, text string)
	Logger *slog.Logger
}

// A Reached is the server of a configuration as it is, neither kept up nor translated. The
// caller closes it when nothing of it is used any more.
type Reached struct {
	*target.Target

	// Spec is what Target was made of.
	Spec *target.Spec

	// SignIn signs in to the server, or is nil if nobody does.
	SignIn *oauth.Source

	credential *credential.Source
}

// Close forgets what was kept to reach the server.
func (r *Reached) Close() {
	if r.SignIn != nil {
		_ = r.SignIn.Close() // it has no error
	}
	if r.credential != nil {
		r.credential.Close()
	}
}

// Reach makes the server that a configuration names. Nothing is started or dialled.
func Reach(c *config.Server, o *ReachOptions) (*Reached, error) {
	spec, err := specOf(c)
	if err != nil {
		return nil, err
	}
	spec.MaxMessage, spec.DialTimeout, spec.OnStderr, spec.Logger = o.MaxMessage, o.DialTimeout, o.OnStderr, o.Logger
	if o.Notice != nil {
		var once sync.Once
		spec.OnText = func(line string) {
			once.Do(func() {
				o.Notice(slog.LevelWarn, strayNotice(cutText(redact.Line(redact.Values(line, secretsOf(c, nil))))))
			})
		}
	}
	var vet func(*exec.Cmd) error
	if c.Checked() {
		vet = c.Vet
	}
	spec.Vet = vet
	if spec.TLS, spec.Proxy, err = connectionOf(c, o.Logger); err != nil {
		return nil, err
	}
	r := &Reached{Spec: spec}
	if r.credential, err = newCredential(c, vet, o.Logger); err != nil {
		return nil, err
	}
	switch {
	case r.credential != nil:
		spec.Wrap = r.credential.Transport
	case o.SignIn != nil && SignsIn(c):
		conf, err := o.SignIn.config(c, o.Logger)
		if err != nil {
			return nil, err
		}
		if r.SignIn, err = oauth.New(conf); err != nil {
			return nil, err
		}
		spec.Wrap = r.SignIn.Transport
	}
	if r.Target, err = target.New(spec); err != nil {
		r.Close()
		if e, bad := errors.AsType[*target.SpecError](err); bad {
			return nil, errors.New(e.Reason)
		}
		return nil, err
	}
	return r, nil
}
