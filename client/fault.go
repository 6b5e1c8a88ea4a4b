package client

import (
	"context"
	"errors"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/target/diagnose"
	"github.com/dragoman-mcp/dragoman/internal/util/redact"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/stdio"
)

// stderrLines is how many of the last lines on standard error an Error has.
const stderrLines = 10

// fault returns the error of a request that has no result. outer is the caller's
// context, inner that of the call.
func (c *Client) fault(outer, inner context.Context, k *call, method string, resp *dragoman.Message, err error) error {
	if err == nil {
		e := resp.RPCError()
		if k.answered.Load() {
			return e
		}
		return c.unsent(k, method, e)
	}
	if outer.Err() != nil {
		return context.Cause(outer)
	}
	if e, ok := errors.AsType[*unanswered](err); ok {
		return e.error
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e, ok := errors.AsType[*dragoman.Error](err); ok && statusOf(err) == 0 {
		return e
	}
	sent := k.reached.Load()
	if e, ok := errors.AsType[*dragoman.TimeoutError](context.Cause(inner)); ok {
		return c.wrap(Timeout, method, sent, e)
	}
	kind, may := kindOf(err)
	return c.wrap(kind, method, sent && may, err)
}

// unsent returns the error of a request that era.Server answered itself, because
// there is no way to the server.
func (c *Client) unsent(k *call, method string, e *dragoman.Error) error {
	if !protocol.IsGatewayError(e) {
		return e
	}
	var err error = e
	if last := c.dialer.failure(k.failures); last != nil {
		err = last
	}
	return c.wrap(ConnectionFailed, method, false, err)
}

// kindOf judges an error of a conversation.
func kindOf(err error) (kind Kind, sent bool) {
	fault, isFault := errors.AsType[protocol.Fault](err)
	switch {
	case statusOf(err) != 0:
		return NetworkError, !isFault || fault.Outcome() != protocol.OutcomeNotSent
	case errors.Is(err, dragoman.ErrOverloaded):
		return NetworkError, false
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout, true
	case errors.Is(err, dragoman.ErrClosed):
		return ConnectionLost, true
	case isFault && fault.Outcome() == protocol.OutcomeNotSent:
		return ConnectionFailed, false
	}
	return NetworkError, true
}

// unconnected returns the error of Connect.
func (c *Client) unconnected(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// What came of it says less than the reason: an exit, or what was not found.
	rpc, _ := errors.AsType[*dragoman.Error](err)
	if last := c.dialer.failure(0); last != nil && (errors.Is(err, dragoman.ErrClosed) || rpc != nil && protocol.IsGatewayError(rpc)) {
		err = last
	}
	return c.wrap(ConnectionFailed, "", false, err)
}

// wrap makes an Error. A process that ended is of its own kind, whatever else
// there is to say.
func (c *Client) wrap(kind Kind, method string, sent bool, err error) *Error {
	e := &Error{Kind: kind, Server: c.name, Method: method, Sent: sent, Err: err}
	if exit, ok := errors.AsType[*stdio.ExitError](err); ok && kind != Timeout {
		e.Kind, e.Exit, e.Stderr = ProcessCrashed, exit, lastLines(c.dialer.stderrTail())
	}
	e.Advice = e.advice()
	if c.ctx.Err() != nil {
		e.Advice = "the client is closed"
	}
	return e
}

// lastLines returns the last lines of what a process said.
func lastLines(text []byte) []string {
	lines := strings.Split(strings.TrimRight(strings.ToValidUTF8(string(text), ""), "\r\n"), "\n")
	if len(lines) > stderrLines {
		lines = lines[len(lines)-stderrLines:]
	}
	said := lines[:0]
	for _, line := range lines {
		if line = strings.TrimSpace(line); line != "" {
			said = append(said, redact.Text(line))
		}
	}
	return said
}

// advice returns what to do about an error.
func (e *Error) advice() string {
	_, advice, known := diagnose.Explain(e.Err)
	switch {
	case known && strings.HasSuffix(e.Err.Error(), advice):
		return "" // its text has it
	case known && e.Kind == ProcessCrashed && e.Method != "":
		return advice + "; the next request starts it again"
	case known:
		return advice
	}
	switch e.Kind {
	case ConnectionFailed:
		return "check that the server is running and speaks MCP at this address"
	case ConnectionLost:
		return "the request may have been carried out; the next one connects again"
	}
	return "the request may have been carried out; the connection is still open"
}

// statusOf returns the HTTP status that an error is about, or zero.
func statusOf(err error) int {
	if e, ok := errors.AsType[*protocol.StatusError](err); ok {
		return e.Status
	}
	return 0
}
