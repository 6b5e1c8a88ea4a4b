package gateway

import (
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/httpx"
	"github.com/dragoman-mcp/dragoman/internal/redact"
)

const (
	// refusalWindow is the time in which at most maxRefusals refused requests are logged:
	// whoever can reach us can have any number refused.
	refusalWindow = time.Minute
	maxRefusals   = 5
)

// refusals bounds what is logged of requests that are refused because of their Host or
// Origin.
type refusals struct {
	mu      sync.Mutex
	began   time.Time // of the window
	logged  int       // in it
	leftOut int       // and not
}

// log logs a request that is refused, unless there were too many.
func (f *refusals) log(log *slog.Logger, r *http.Request, err error) {
	f.mu.Lock()
	now := time.Now()
	var before int
	if now.Sub(f.began) >= refusalWindow {
		before = f.leftOut
		f.began, f.logged, f.leftOut = now, 0, 0
	}
	f.logged++
	tooMany := f.logged > maxRefusals
	if tooMany {
		f.leftOut++
	}
	f.mu.Unlock()
	if before > 0 {
		log.Warn("more requests were refused because of their Host or Origin", "requests", before)
	}
	if tooMany {
		return
	}
	address := r.RemoteAddr
	if c, err := httpx.ByAddress(r); err == nil {
		address = c.Address
	}
	reason := err.Error()
	if refusal, ok := errors.AsType[*httpx.Refusal](err); ok {
		reason = refusal.Message
	}
	log.Warn("request refused", "reason", redact.Clip(reason), "client", address, "method", redact.Clip(r.Method), "path", redact.Clip(r.URL.Path))
}
