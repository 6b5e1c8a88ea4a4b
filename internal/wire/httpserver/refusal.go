package httpserver

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
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

	// Challenge says how to prove who one is, for statuses 401 and 403.
	Challenge string
}

// Refuse makes a refusal with the code of an invalid request.
func Refuse(status int, format string, args ...any) *Refusal {
	return &Refusal{Status: status, Code: protocol.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

// Unavailable makes the refusal of what cannot be served now.
func Unavailable(e *dragoman.Error) *Refusal {
	return &Refusal{Status: cmp.Or(RefusedStatus(e), http.StatusServiceUnavailable), Code: e.Code, Message: e.Message, Data: e.Data}
}

// RefusedStatus is the status that goes with an error which says that a limit of ours, or
// our end, kept a request from being sent: 429 if the limit is that of who sent it,
// else 503. It is zero for an error of any other kind.
func RefusedStatus(e *dragoman.Error) int {
	switch r, ok := protocol.RefusedBy(e); {
	case !ok:
		return 0
	case r.Limit == protocol.LimitCaller, r.Limit == protocol.LimitSession:
		return http.StatusTooManyRequests
	}
	return http.StatusServiceUnavailable
}

// Error implements error.
func (e *Refusal) Error() string {
	return fmt.Sprintf("httpserver: refused with status %d: %s", e.status(), e.Message)
}

// Log has a request logged that is refused by it, if that is the client's mistake.
func (e *Refusal) Log(m *Mistakes, r *http.Request) {
	m.Log(r, e.status(), func() string { return e.Message })
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
	if mayRetry(e.Status) {
		setRetryAfter(h, &dragoman.Error{Code: code, Data: e.Data})
	}
	if e.Allow != "" {
		h.Set("Allow", e.Allow)
	}
	if e.Challenge != "" {
		h.Set("WWW-Authenticate", e.Challenge)
	}
	if e.Status == http.StatusRequestEntityTooLarge || e.Status == http.StatusRequestTimeout {
		h.Set("Connection", "close")
	}
	// net/http reads the rest of a small body before it answers. Without a
	// deadline a client that stops in the middle would hold the connection.
	// Writers that know no deadlines have no such connection.
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(drainTime))
	w.WriteHeader(e.status())
	_, _ = w.Write(body) // the client may be gone
}

// mayRetry reports whether a status says that one may try again.
func mayRetry(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable
}

// setRetryAfter says when to try again: in as many seconds as the error says, or one.
func setRetryAfter(h http.Header, e *dragoman.Error) {
	h["Retry-After"] = retryAfter
	if r, ok := protocol.RefusedBy(e); ok && r.Retry > time.Second {
		h["Retry-After"] = []string{strconv.Itoa(int((r.Retry + time.Second - 1) / time.Second))}
	}
}

// Values of headers that many answers have. They are never changed.
var (
	retryAfter = []string{"1"} // seconds
	jsonType   = []string{"application/json"}
	noSniff    = []string{"nosniff"}
)

// minLength is the length from which the header has to say it: net/http counts what is
// shorter by itself, for less.
const minLength = 2 << 10

// minGzip is the length from which compression is worth its time.
const minGzip = 16 << 10

var gzipWriters = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // fails on unknown levels alone
	return z
}}

// WriteJSON answers with a body that is JSON text, compressed if it is long, the
// client accepts that, and there is a network between us.
func WriteJSON(w http.ResponseWriter, r *http.Request, status int, body []byte) error {
	h := w.Header()
	h["Content-Type"] = jsonType
	if r.Method != http.MethodPost || len(r.Header["Origin"]) > 0 {
		h["X-Content-Type-Options"] = noSniff // browsers post with an Origin
	}
	if len(body) >= minGzip && !isLocal(r.RemoteAddr) {
		h.Add("Vary", "Accept-Encoding")
		if accepts(r.Header.Values("Accept-Encoding"), "gzip", "*") {
			h.Set("Content-Encoding", "gzip")
			w.WriteHeader(status)
			return writeGzip(w, body)
		}
	}
	if len(body) >= minLength {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(status)
	_, err := w.Write(body)
	return err
}

// isLocal reports whether a client is on this machine: it has a loopback address, or
// none, as over a Unix socket.
func isLocal(address string) bool {
	a, err := netip.ParseAddrPort(address)
	return err != nil || a.Addr().Unmap().IsLoopback()
}

func writeGzip(w io.Writer, body []byte) error {
	z := gzipWriters.Get().(*gzip.Writer)
	z.Reset(w)
	_, err := z.Write(body)
	if cerr := z.Close(); err == nil {
		err = cerr
	}
	z.Reset(io.Discard) // the pool must not hold on to w
	gzipWriters.Put(z)
	return err
}
