package httpx

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
	process  = strings.ToLower(rand.Text()[:10]) + "-" // tells our ids from those of other processes
)

// NewRequestID returns an id to log a request under. It is no secret, so it costs no
// random bits, which take longer than all else that a request costs us here.
func NewRequestID() string { return process + strconv.FormatUint(requests.Add(1), 36) }

// RequestID returns the id under which a request is logged, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// Identified returns the request with the client's id for it in its context, which the
// response names too, if there is one that is fit to be logged.
func Identified(w http.ResponseWriter, r *http.Request) *http.Request {
	id := r.Header[HeaderRequestID]
	if len(id) != 1 || !plainID(id[0]) {
		return r
	}
	w.Header()[HeaderRequestID] = id
	return r.WithContext(WithRequestID(r.Context(), id[0]))
}

// plainID tells whether an id is short and has nothing in it that could be taken
// for something else in a log.
func plainID(id string) bool {
	for _, c := range []byte(id) {
		if (c < '0' || c > '9') && (c|0x20 < 'a' || c|0x20 > 'z') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return id != "" && len(id) <= maxRequestID
}
