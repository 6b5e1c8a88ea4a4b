// Package observe makes the observers that a configuration asks for: the log of calls and of
// messages, those who follow messages with "dragoman tap", and the audit log. It owns them from
// the start of a gateway to its end. Package gateway and the commands run and serve use it;
// package internal/gateway knows no observer.
package observe

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/observe/audit"
	"github.com/dragoman-mcp/dragoman/internal/observe/logs"
	"github.com/dragoman-mcp/dragoman/internal/observe/tap"
)

// NewGateway returns a gateway with the observers of its configuration, before those of opts. They
// follow its reloads, and are closed by its Shutdown. callLevel is the level at which calls
// without a failure are logged.
func NewGateway(opts *gateway.Options, file *config.File, callLevel slog.Level) (*gateway.Gateway, error) {
	o := *opts
	log := cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	calls, taps := &logs.Calls{Log: log, Base: callLevel}, new(tap.Hub)
	observers := event.Observers{&logs.Messages{Log: log}, taps, calls}
	var audited *audit.Log
	if file.Audit.File != "" {
		var err error
		if audited, err = audit.Open(file.Audit.File, auditOptions(&file.Audit, log)); err != nil {
			return nil, err
		}
		observers = append(observers, &audit.Observer{Log: audited})
		o.AuditStatus = func() any { return audited.Status() }
	}
	o.Observers = append(observers, o.Observers...)
	o.ControlHandlers = map[string]http.Handler{"GET /tap": taps}
	o.Applied = func(file *config.File) {
		calls.Slow.Store(int64(cmp.Or(file.Log.Slow, logs.DefaultSlow)))
		audited.Configure(auditOptions(&file.Audit, log))
		if opts.Applied != nil {
			opts.Applied(file)
		}
	}
	o.Closed = func() error {
		err := audited.Close()
		if opts.Closed != nil {
			err = errors.Join(err, opts.Closed())
		}
		return err
	}
	calls.Slow.Store(int64(cmp.Or(file.Log.Slow, logs.DefaultSlow)))
	return gateway.New(&o, file)
}

func auditOptions(a *config.Audit, log *slog.Logger) *audit.Options {
	o := &audit.Options{
		MaxSize: int64(a.MaxSize), MaxAge: a.MaxAge, Keep: a.Keep, Refuse: a.OnFailure == "refuse", Arguments: a.Arguments, Logger: log,
	}
	if w := a.Webhook; w.URL != "" {
		o.Webhook = &audit.Webhook{URL: w.URL, Events: w.Events, Keys: w.Keys}
	}
	return o
}
