package httpx

import (
	"errors"
	"net"
	"net/http"

	"github.com/dragoman-mcp/dragoman"
)

// A CallerFunc tells who makes a request, or why it is refused.
type CallerFunc = func(*http.Request) (*dragoman.Caller, error)

// Address is the CallerFunc of doors that ask for no proof: callers are told apart by
// where they come from.
func Address(r *http.Request) (*dragoman.Caller, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr // a Unix socket
	}
	return &dragoman.Caller{Address: host, Header: r.Header}, nil
}

// Named returns the request with its caller in its context, as who tells it; if that
// is nil, Address does.
func Named(r *http.Request, who CallerFunc) (*http.Request, *Refusal) {
	if who == nil {
		who = Address
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

// Key returns what tells the caller of a request that is [Named] from others.
func Key(r *http.Request) string { return dragoman.CallerOf(r.Context()).Key() }

// Owner returns what the caller of a request must have in common with who opened
// something in order to use it.
func Owner(r *http.Request) string { return dragoman.CallerOf(r.Context()).Identity() }
