package httpx

import (
	"net/http"

	"github.com/dragoman-mcp/dragoman"
)

// Named returns the request with the caller in its context, as who tells it. If
// that is nil, all callers are one.
func Named(r *http.Request, who func(*http.Request) string) *http.Request {
	if who == nil {
		return r
	}
	return r.WithContext(dragoman.WithCaller(r.Context(), who(r)))
}

// Caller returns who makes a request that is [Named].
func Caller(r *http.Request) string { return dragoman.CallerOf(r.Context()) }
