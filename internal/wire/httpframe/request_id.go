package httpframe

import (
	"context"
	"crypto/rand"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
)

// HeaderRequestID carries the id under which a request is logged, from end to
// end.
const HeaderRequestID = "X-Request-Id"

// maxRequestID is how long an id of the client's may be.
const maxRequestID = 128

type requestKey struct{}

// WithRequestID returns the context of a request that is logged under an id.
func WithRequestID(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

var (
	requests atomic.Uint64
	process  = strings.ToLower(rand.Text()[:10]) + "-" // makes our ids differ from those of other processes
)

// WithNewRequestID returns the context of a request that is logged under an id of ours.
// It is no secret, so it is a counter: random bits would cost more than the rest of the
// request here.
func WithNewRequestID(ctx context.Context) context.Context {
	return &numberedContext{ctx, requests.Add(1)}
}

// A numberedContext has a request id that is spelled out when somebody asks for it:
// most requests are not logged.
type numberedContext struct {
	context.Context
	number uint64
}

// Value implements context.Context.
func (c *numberedContext) Value(key any) any {
	if _, ok := key.(requestKey); ok {
		return c
	}
	return c.Context.Value(key)
}

// RequestID returns the id under which a request is logged, or "".
func RequestID(ctx context.Context) string {
	switch id := ctx.Value(requestKey{}).(type) {
	case string:
		return id
	case *numberedContext:
		return process + strconv.FormatUint(id.number, 36)
	}
	return ""
}

// HasRequestID reports whether a request is logged under an id.
func HasRequestID(ctx context.Context) bool { return ctx.Value(requestKey{}) != nil }

// WithClientRequestID returns the request with the client's id for it in its context, which the
// response names too, if there is one that is fit to be logged.
func WithClientRequestID(w http.ResponseWriter, r *http.Request) *http.Request {
	id := r.Header[HeaderRequestID]
	if len(id) != 1 || !validRequestID(id[0]) {
		return r
	}
	w.Header()[HeaderRequestID] = id
	return r.WithContext(WithRequestID(r.Context(), id[0]))
}

// validRequestID reports whether an id is short and has nothing in it that could be taken
// for something else in a log.
func validRequestID(id string) bool {
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return id != "" && len(id) <= maxRequestID
}
