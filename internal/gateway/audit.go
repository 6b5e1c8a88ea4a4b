package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/audit"
	"github.com/dragoman-mcp/dragoman/internal/config"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// openAudit opens the audit log, if the configuration has one.
func (g *Gateway) openAudit(file *config.File) (err error) {
	if file.Audit.File == "" {
		return nil
	}
	if g.audit, err = audit.Open(file.Audit.File, g.auditOptions(&file.Audit)); err != nil {
		return err
	}
	g.audit.Record(audit.Event{Kind: audit.Start, Reason: fmt.Sprintf("%s %s, %d servers", g.opts.Name, g.opts.Version, len(file.Servers))})
	return nil
}

func (g *Gateway) auditOptions(a *config.Audit) *audit.Options {
	o := &audit.Options{
		MaxSize: int64(a.MaxSize), MaxAge: a.MaxAge, Keep: a.Keep, Refuse: a.OnFailure == "refuse", Arguments: a.Arguments, Logger: g.log,
	}
	if w := a.Webhook; w.URL != "" {
		o.Webhook = &audit.Webhook{URL: w.URL, Events: w.Events, SecretFile: w.SecretFile}
	}
	return o
}

// closeAudit writes down the end. Everything else has ended before.
func (g *Gateway) closeAudit(cut error) error {
	g.audit.Record(audit.Event{Kind: audit.Stop, Reason: reasonOf(cut)})
	return g.audit.Close()
}

// auditReload writes down what came of a reload.
func (g *Gateway) auditReload(r *Reloaded) {
	e := audit.Event{Kind: audit.Reload, Time: r.At, Outcome: audit.Answered}
	if r.Failed {
		e.Outcome, e.Reason = audit.Failed, "the configuration has errors, the previous one stays in force"
	} else {
		c := &r.Changes
		e.Reason = fmt.Sprintf("added %q, replaced %q, removed %q, left out because of errors %d", c.Added, c.Replaced, c.Removed, len(r.LeftOut))
	}
	g.audit.Record(e)
}

// Audit returns the audit log, for events that others know of: sign-ins, tokens. It is
// nil if there is none, which takes them too.
func (g *Gateway) Audit() *audit.Log { return g.audit }

func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A denial is the answer to a request that a rule of ours denies, on its way to the
// recorder, which makes it one.
type denial struct {
	rule   string
	answer *dragoman.Error
}

// Error implements error.
func (d *denial) Error() string { return d.rule + ": " + d.answer.Message }

// outcome returns what has become of a call, as it is written down. No message of a server is:
// it may repeat what it was given.
func outcome(e *audit.Event, req, resp *dragoman.Message, err error) {
	denied, isDenied := errors.AsType[*denial](err)
	switch {
	case isDenied:
		e.Outcome, e.Rule, e.Code = audit.Denied, denied.rule, denied.answer.Code
		return
	case errors.Is(err, dragoman.ErrCancelled), errors.Is(err, context.Canceled):
		e.Outcome = audit.Cancelled
		return
	case err != nil:
		resp = protocol.Failure(req, err)
	case resp == nil:
		e.Outcome = audit.Unknown
		return
	case !resp.IsError():
		e.Outcome = audit.Answered
		return
	}
	failure := resp.RPCError()
	e.Outcome, e.Code = audit.Failed, failure.Code
	if protocol.IsOwn(failure) {
		e.Outcome, e.Reason = audit.Unknown, failure.Message
		switch failure.Code {
		case protocol.CodeUnavailable, protocol.CodeOverloaded, protocol.CodeDraining, protocol.CodeSignIn:
			e.Outcome = audit.Refused
		case protocol.CodeDenied:
			e.Outcome = audit.Denied
		}
	}
}

// A unionRecorder is a union that writes down what it answers with an error itself. What it passes
// on, the chain of the server writes down.
type unionRecorder struct {
	dragoman.Peer
	audit *audit.Log
}

// A passing says of a request to a union whether it was passed on. A union may ask servers for their
// lists to find out who is meant; that does not count.
type passing struct {
	method string
	on     atomic.Bool
}

type passingKey struct{}

// passedOn notes that a request has come to a server.
func passedOn(ctx context.Context, req *dragoman.Message) {
	if p, ok := ctx.Value(passingKey{}).(*passing); ok && p.method == req.Method() {
		p.on.Store(true)
	}
}

// Unwrap returns the union itself.
func (p *unionRecorder) Unwrap() dragoman.Peer { return p.Peer }

// Call implements dragoman.Peer.
func (p *unionRecorder) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	began, pass := time.Now(), &passing{method: req.Method()}
	resp, err := p.Peer.Call(context.WithValue(ctx, passingKey{}, pass), req, from)
	if !pass.on.Load() && (err != nil || resp == nil || resp.IsError()) {
		e := newCall(ctx, dragoman.CallerOf(ctx), began, req, resp)
		outcome(&e, req, resp, err)
		if e.Outcome == audit.Failed {
			e.Outcome, e.Reason = audit.Refused, resp.RPCError().Message // of ours
		}
		p.audit.Record(e)
	}
	return resp, err
}

// newCall returns the event of a call that has ended.
func newCall(ctx context.Context, who *dragoman.Caller, began time.Time, req, resp *dragoman.Message) audit.Event {
	e := audit.Event{
		Kind: audit.Call, Time: time.Now(), Request: httpx.RequestID(ctx), Who: audit.WhoIs(who),
		Method: req.Method(), Name: cmp.Or(req.Name(), req.URI()), In: req.Len(),
	}
	e.Duration = e.Time.Sub(began)
	if resp != nil {
		e.Out = resp.Len()
	}
	return e
}

// audited returns a backend whose sessions are written down, under a name.
func (g *Gateway) audited(name string, s *Backend) *Backend {
	if g.audit == nil {
		return s
	}
	in := *s
	watch := func(a dragoman.Acceptor) dragoman.Acceptor {
		if a == nil {
			return nil
		}
		return dragoman.AcceptFunc(func(ctx context.Context, client dragoman.Conn) (dragoman.Peer, error) {
			peer, err := a.Accept(ctx, client)
			if err == nil {
				g.watchSession(ctx, name, client)
			}
			return peer, err
		})
	}
	in.Acceptor, in.Sessions = watch(s.Acceptor), watch(s.Sessions)
	return &in
}

// watchSession writes down that a session was opened, and when it ends.
func (g *Gateway) watchSession(ctx context.Context, name string, client dragoman.Conn) {
	e := audit.Event{Kind: audit.SessionOpened, Request: httpx.RequestID(ctx), Who: audit.WhoIs(dragoman.CallerOf(ctx)), Server: name}
	began := time.Now()
	// Ends with the session, or with us.
	if g.watching.Start(func() {
		select {
		case <-client.Done():
		case <-g.ended.Done():
		}
		e := e
		e.Kind, e.Duration = audit.SessionClosed, time.Since(began)
		g.audit.Record(e)
	}) {
		g.audit.Record(e)
	}
}

// deny writes down that a request was refused before it had come to a server. rule says by
// what.
func (g *Gateway) deny(r *http.Request, door, rule string, err error) {
	if g.audit == nil {
		return
	}
	e := audit.Event{Request: httpx.RequestID(r.Context()), Method: r.Method, Name: r.URL.Path, Rule: rule, Code: http.StatusForbidden, Reason: reasonOf(err)}
	if c, err := httpx.ByAddress(r); err == nil {
		e.Who = audit.WhoIs(c)
	}
	e.Door = door
	if refusal, ok := errors.AsType[*httpx.Refusal](err); ok {
		e.Reason = refusal.Message
		if refusal.Status != 0 {
			e.Code = refusal.Status
		}
	}
	g.audit.Deny(e)
}
