package httpserver

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/util/redact"
)

const (
	// mistakeInterval is how often a mistake of one kind is logged at most: a client can make
	// any number of them.
	mistakeInterval = time.Second

	// maxMistake is how much of the reason is logged.
	maxMistake = 240
)

// Mistakes logs the requests that are refused because of what their client does wrong, with what it
// should do: one of each status a second. It is safe for concurrent use.
type Mistakes struct {
	log *slog.Logger

	mu    sync.Mutex
	kinds map[int]*mistakes // by status
}

// mistakes are those with one status.
type mistakes struct {
	logged  time.Time // the last
	leftOut int       // since then
}

// NewMistakes returns what logs mistakes to a logger, at the level info.
func NewMistakes(log *slog.Logger) *Mistakes {
	return &Mistakes{log: Logger(log), kinds: make(map[int]*mistakes)}
}

// isMistake reports whether a status says that the client has to send another request. A limit and a
// client that is slow are no mistakes.
func isMistake(status int) bool {
	return status >= 400 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusTooManyRequests
}

// Log logs a request that is refused with a status, and reports whether it has. A status that is
// no mistake of the client is not logged. reason is called if it is. A nil *Mistakes logs nothing.
func (m *Mistakes) Log(r *http.Request, status int, reason func() string) bool {
	if m == nil || !isMistake(status) || !m.log.Enabled(r.Context(), slog.LevelInfo) {
		return false
	}
	now := time.Now()
	m.mu.Lock()
	kind := m.kinds[status]
	if kind == nil {
		kind = &mistakes{} // there are a hundred at most
		m.kinds[status] = kind
	}
	if !kind.logged.IsZero() && now.Sub(kind.logged) < mistakeInterval {
		kind.leftOut++
		m.mu.Unlock()
		return false
	}
	leftOut := kind.leftOut
	kind.logged, kind.leftOut = now, 0
	m.mu.Unlock()
	address := r.RemoteAddr
	if c, err := ByAddress(r); err == nil {
		address = c.Address
	}
	attrs := []slog.Attr{
		slog.Int("status", status), slog.String("method", redact.Clip(r.Method)), slog.String("path", redact.Clip(redact.Text(r.URL.Path))),
		slog.String("client", redact.Clip(address)), slog.String("reason", redact.Cut(withoutSecrets(reason()), maxMistake)),
	}
	if leftOut > 0 {
		attrs = append(attrs, slog.Int("left_out", leftOut))
	}
	m.log.LogAttrs(context.WithoutCancel(r.Context()), slog.LevelInfo, "request refused", attrs...)
	return true
}

// withoutSecrets returns a reason without what the client has sent of secrets. What it is told to
// send stays as it is.
func withoutSecrets(reason string) string {
	const advice = "Bearer TOKEN"
	parts := strings.Split(reason, advice)
	for i, part := range parts {
		parts[i] = redact.Line(part)
	}
	return strings.Join(parts, advice)
}

// Logger returns the logger for endpoints that share what bounds the log of mistakes.
func (m *Mistakes) Logger() *slog.Logger { return slog.New(&mistakesHandler{m.log.Handler(), m}) }

// A mistakesHandler is that of a logger by which endpoints find the mistakes that they share.
type mistakesHandler struct {
	slog.Handler
	mistakes *Mistakes
}

// mistakesOf returns the mistakes that come with a logger, or some of its own.
func mistakesOf(log *slog.Logger) *Mistakes {
	if shared, ok := log.Handler().(*mistakesHandler); ok {
		return shared.mistakes
	}
	return NewMistakes(log)
}
