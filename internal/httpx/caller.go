package httpx

import (
	"errors"
	"net"
	"net/http"

	"github.com/dragoman-mcp/dragoman"
)

// A CallerFunc returns who makes a request, or why it is refused.
type CallerFunc = func(*http.Request) (*dragoman.Caller, error)

// ByAddress is the CallerFunc of servers without authentication: it distinguishes
// callers by their address.
func ByAddress(r *http.Request) (*dragoman.Caller, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr // a Unix socket
	}
	return &dragoman.Caller{Address: host, Header: r.Header}, nil
}

// WithCaller returns the request with its caller in its context. If who is nil,
// ByAddress finds it.
func WithCaller(r *http.Request, who CallerFunc) (*http.Request, *Refusal) {
	if who == nil {
		who = ByAddress
	}
	c, err := who(r)
	if err != nil {
		if refusal, ok := errors.AsType[*Refusal](err); ok {
			return nil, refusal
		}
		return nil, Refuse(http.StatusForbidden, "%v", err)
	}
	return r.WithContext(dragoman.WithCaller(r.Context(), c)), nil
}

// CallerKey returns what distinguishes the caller of a request that has [WithCaller] from
// others.
func CallerKey(r *http.Request) string { return dragoman.CallerOf(r.Context()).Key() }

// CallerIdentity returns the identity that the caller of a request shares with whoever
// may use what it opens.
func CallerIdentity(r *http.Request) string { return dragoman.CallerOf(r.Context()).Identity() }
