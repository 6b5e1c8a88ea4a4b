package httpx

import (
	"context"
	"net/http"
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

// RequestID returns the id under which a request is logged, or "".
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// Identified returns the request with an id in its context, which the response
// names too: the client's, if that is fit to be logged, else a new one.
func Identified(w http.ResponseWriter, r *http.Request) *http.Request {
	id := r.Header.Get(HeaderRequestID)
	if !plainID(id) {
		id = NewID()
	}
	w.Header().Set(HeaderRequestID, id)
	return r.WithContext(WithRequestID(r.Context(), id))
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
