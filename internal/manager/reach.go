package manager

import (
	"errors"
	"log/slog"
	"os/exec"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/credential"
	"github.com/dragoman-mcp/dragoman/internal/redact"
	"github.com/dragoman-mcp/dragoman/internal/target"
	"github.com/dragoman-mcp/dragoman/internal/trace"
	"github.com/dragoman-mcp/dragoman/oauth"
)

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
			once.Do(func() { o.Notice(slog.LevelWarn, strayNotice(cutText(redact.Text(line)))) })
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
	r.Dialer = trace.Dialer(r.Dialer, o.Logger)
	return r, nil
}
