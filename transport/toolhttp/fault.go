package toolhttp

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A faultError is why a call has no answer, as what the caller gets for one.
type faultError struct {
	code    int
	message string
	outcome string
	status  int // of HTTP, or 0
}

func (e *faultError) Error() string { return "toolhttp: " + e.message }

// rpc returns the fault as an error that says that it is none of the server's.
func (e *faultError) rpc() *dragoman.Error {
	data, _ := json.Marshal(struct {
		Source  string `json:"source"`
		Outcome string `json:"outcome"`
		Status  int    `json:"status,omitempty"`
	}{"gateway", e.outcome, e.status}) // strings and numbers always encode
	return &dragoman.Error{Code: e.code, Message: e.message, Data: data}
}

func unreadableAnswer(why string) error {
	return &faultError{protocol.CodeLost, "the server's answer cannot be read: " + why, protocol.OutcomeUnknown, 0}
}

// errNoAnswer says that a stream ended early.
var errNoAnswer = &faultError{
	protocol.CodeLost, "no response received for request: the stream ended before its complete or error event", protocol.OutcomeUnknown, 0,
}

// fault returns the error response's error for what went wrong.
func fault(err error) *dragoman.Error {
	var (
		known   *faultError
		parse   *dragoman.ParseError
		lost    protocol.Fault
		timeout net.Error
	)
	if u, ok := errors.AsType[*url.Error](err); ok && !u.Timeout() {
		err = u.Err // the URL may hold secrets
	}
	switch {
	case errors.As(err, &known):
		return known.rpc()
	case errors.Is(err, errTimeout), errors.As(err, &timeout) && timeout.Timeout():
		return (&faultError{protocol.CodeTimeout, "no answer in time", protocol.OutcomeUnknown, 0}).rpc()
	case errors.Is(err, dragoman.ErrTooLarge):
		return (&faultError{protocol.CodeTooLarge, "the server's answer is larger than the limit", protocol.OutcomeUnknown, 0}).rpc()
	case errors.As(err, &parse):
		return fault(unreadableAnswer(fmt.Sprintf("%s at byte %d", parse.Reason, parse.Offset)))
	case errors.As(httpx.Lost(err), &lost) && lost.Outcome() == protocol.OutcomeNotSent:
		return (&faultError{protocol.CodeUnavailable, "the server cannot be reached: " + err.Error(), protocol.OutcomeNotSent, 0}).rpc()
	}
	return (&faultError{protocol.CodeLost, "no response received for request: " + err.Error(), protocol.OutcomeUnknown, 0}).rpc()
}

// httpFault is the fault for an HTTP error without a JSON-RPC body.
func httpFault(resp *http.Response, body []byte) error {
	e := &faultError{code: protocol.CodeLost, outcome: protocol.OutcomeUnknown, status: resp.StatusCode}
	switch s := resp.StatusCode; {
	case s == http.StatusServiceUnavailable, s == http.StatusTooManyRequests:
		e.code, e.outcome = protocol.CodeOverloaded, protocol.OutcomeNotSent
	case s == http.StatusGatewayTimeout, s == http.StatusRequestTimeout:
		e.code = protocol.CodeTimeout
	case s < 500:
		e.code, e.outcome = protocol.CodeUnavailable, protocol.OutcomeNotSent
	}
	e.message = fmt.Sprintf("the server answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	if said := excerpt(resp.Header.Get("Content-Type"), body); said != "" {
		e.message += ": " + said
	}
	return e
}

// excerpt returns the beginning of a body that a person can read.
func excerpt(contentType string, body []byte) string {
	if !strings.HasPrefix(contentType, "text/plain") && !strings.HasPrefix(contentType, jsonType) {
		return ""
	}
	const most = 200
	text := string(body[:min(len(body), 4*most)])
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}
