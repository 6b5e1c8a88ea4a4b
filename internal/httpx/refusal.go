package httpx

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// drainTime is how long the rest of a refused request may take to arrive.
const drainTime = 5 * time.Second

// A Refusal is a request that is not served: HTTP status, JSON-RPC code and text.
type Refusal struct {
	// Status is the HTTP status. Zero means 400.
	Status int

	// Code is the JSON-RPC code. Zero means −32600, invalid request.
	Code int

	// Message says what is wrong and, where that can be said, what to do.
	Message string

	// ID is the id of the refused request. Zero means that it is not known.
	ID dragoman.ID

	// Data is the error's data, as JSON text, or nil.
	Data json.RawMessage

	// Allow is the list of methods that are served, for status 405.
	Allow string
}

// Refuse makes a refusal with the code of an invalid request.
func Refuse(status int, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Code: protocol.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

// Unavailable makes the refusal of what cannot be served now.
func Unavailable(e *dragoman.Error) *Refusal {
	return &Refusal{Status: http.StatusServiceUnavailable, Code: e.Code, Message: e.Message, Data: e.Data}
}

// Error implements error.
func (e *Refusal) Error() string {
	return fmt.Sprintf("httpx: refused with status %d: %s", e.status(), e.Message)
}

func (e *Refusal) status() int {
	if e.Status == 0 {
		return http.StatusBadRequest
	}
	return e.Status
}

// Write answers the request. It must not have been answered before.
func (e *Refusal) Write(w http.ResponseWriter) {
	code := e.Code
	if code == 0 {
		code = protocol.CodeInvalidRequest
	}
	body := dragoman.NewFailure(e.ID, &dragoman.Error{Code: code, Message: e.Message, Data: e.Data}).Bytes()
	h := w.Header()
	h["Content-Type"], h["X-Content-Type-Options"] = jsonType, noSniff
	h.Set("Content-Length", strconv.Itoa(len(body)))
	setRetryAfter(h, e.Status)
	if e.Allow != "" {
		h.Set("Allow", e.Allow)
	}
	if e.Status == http.StatusRequestEntityTooLarge || e.Status == http.StatusRequestTimeout {
		h.Set("Connection", "close")
	}
	// net/http reads the rest of a small body before it answers. Without a
	// deadline a client that stops in the middle would hold the connection.
	// Writers that know no deadlines have no such connection.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime))
	w.WriteHeader(e.status())
	_, _ = w.Write(body) // whoever is gone does not miss it
}

// setRetryAfter says when to try again, if a status says that one may.
func setRetryAfter(h http.Header, status int) {
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		h["Retry-After"] = retryAfter
	}
}

// Values of headers that many answers have. They are never changed.
var (
	retryAfter = []string{"1"} // seconds
	jsonType   = []string{"application/json"}
	noSniff    = []string{"nosniff"}
)
