package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/observe/audit"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpserver"
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
		o.Webhook = &audit.Webhook{URL: w.URL, Events: w.Events, Keys: w.Keys}
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

// watchSession writes down that a session was opened, and when it ends.
func (g *Gateway) watchSession(ctx context.Context, name string, client dragoman.Conn) {
	e := audit.Event{Kind: audit.SessionOpened, Request: httpframe.RequestID(ctx), Who: audit.WhoIs(dragoman.CallerOf(ctx)), Server: name}
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
	e := audit.Event{Request: httpframe.RequestID(r.Context()), Method: r.Method, Name: r.URL.Path, Rule: rule, Code: http.StatusForbidden, Reason: reasonOf(err)}
	if c, err := httpserver.ByAddress(r); err == nil {
		e.Who = audit.WhoIs(c)
	}
	e.Door = door
	if refusal, ok := errors.AsType[*httpserver.Refusal](err); ok {
		e.Reason = refusal.Message
		if refusal.Status != 0 {
			e.Code = refusal.Status
		}
	}
	g.audit.Deny(e)
}
