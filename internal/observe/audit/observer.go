package audit

import (
	"cmp"
	"context"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/event"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/internal/wire/httpframe"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Observer is the [event.Observer] that writes to a log: one record for each request, and one
// for each event. The record of a request to an aggregate has the outcome at the server that it
// was passed on to.
type Observer struct {
	event.Nop
	Log *Log
}

var _ event.Observer = (*Observer)(nil)

// Begin implements event.Observer. It writes that a request is about to be passed on, if the log
// wants that.
func (c *Observer) Begin(ctx context.Context, x *event.Exchange) error {
	switch {
	case !recorded(x) || !c.Log.Refuses():
		return nil
	case isHousekeeping(x):
		return c.Log.Ready()
	}
	e := c.event(ctx, x)
	return c.Log.Begin(ctx, &e)
}

// End implements event.Observer. Housekeeping that went well is not written.
func (c *Observer) End(ctx context.Context, x *event.Exchange) {
	if !recorded(x) || x.Refusal != nil && !x.Refusal.Admitted {
		return
	}
	passed := x
	if x.Role == event.AggregateEndpoint {
		if passed = x.Served(); passed == nil {
			passed = x
		}
	}
	e := c.event(ctx, passed)
	outcome(&e, passed)
	if e.Outcome == Answered || e.Outcome == Cancelled {
		if isHousekeeping(x) {
			return
		}
	}
	c.Log.Record(e)
}

// Event implements event.Observer.
func (c *Observer) Event(_ context.Context, e *event.Event) {
	r := Event{
		Time: e.Time, Kind: string(e.Kind), Request: e.Request, Server: e.Server, Method: e.Method, Name: e.Name,
		Code: e.Code, Rule: e.Rule, Reason: e.Reason, Duration: e.Duration,
	}
	if e.Caller != nil {
		r.Caller = CallerOf(e.Caller)
	}
	switch e.Kind {
	case event.Denied:
		c.Log.Deny(r)
		return
	case event.SignIn, event.TokenIssued, event.TokenRevoked, event.Reload:
		r.Outcome = Answered
	}
	if e.Failed {
		r.Outcome = Failed
	} else if e.Refused {
		r.Outcome = Denied
	}
	c.Log.Record(r)
}

// recorded reports whether a request has a record of its own.
func recorded(x *event.Exchange) bool {
	return x.Role == event.ServerEndpoint || x.Role == event.AggregateEndpoint
}

// isHousekeeping reports whether a request asks for nothing that a server offers. A listen does
// if it names resources or tasks.
func isHousekeeping(x *event.Exchange) bool {
	if x.Request.Method() == protocol.MethodListen {
		i := protocol.InterestOf(x.Request)
		return len(i.URIs) == 0 && len(i.Tasks) == 0
	}
	return protocol.IsUpkeep(x.Request.Method())
}

// event returns the event of a request, without its outcome.
func (c *Observer) event(ctx context.Context, x *event.Exchange) Event {
	req := x.Request
	e := Event{
		Kind: Call, Time: time.Now(), Request: httpframe.RequestID(ctx), Caller: CallerOf(x.Caller),
		Method: req.Method(), Name: cmp.Or(req.Name(), req.URI()), In: req.Len(),
	}
	e.Duration = e.Time.Sub(x.Began)
	if x.Role != event.AggregateEndpoint {
		e.Server = x.Server
	}
	if x.Response != nil {
		e.Out = x.Response.Len()
	}
	if e.Client == "" {
		e.Client = cmp.Or(redact.Clip(protocol.ClientName(req)), x.ClientName())
	}
	if c.Log.WantsArguments() {
		e.Arguments = Arguments(req.Get("arguments"))
	}
	return e
}

// outcome notes what has become of a call. No message of a server is written: it may repeat what
// it was given.
func outcome(e *Event, x *event.Exchange) {
	resp := x.Response
	switch {
	case x.Refusal != nil:
		e.Outcome, e.Rule, e.Code = Denied, x.Refusal.Rule, x.Refusal.Answer.Code
		return
	case x.Cancelled():
		e.Outcome = Cancelled
		return
	case x.Err != nil:
		resp = protocol.Failure(x.Request, x.Err)
	case resp == nil:
		e.Outcome = Unknown
		return
	case !resp.IsError():
		e.Outcome = Answered
		return
	}
	failure := resp.RPCError()
	e.Outcome, e.Code = Failed, failure.Code
	switch {
	case protocol.IsGatewayError(failure):
		e.Outcome, e.Reason = Unknown, failure.Message
		switch failure.Code {
		case protocol.CodeUnavailable, protocol.CodeOverloaded, protocol.CodeDraining, protocol.CodeSignIn:
			e.Outcome = Refused
		case protocol.CodeDenied:
			e.Outcome = Denied
		}
	case x.Role == event.AggregateEndpoint && x.Response != nil: // the aggregate itself has refused it
		e.Outcome, e.Reason = Refused, failure.Message
	}
}
