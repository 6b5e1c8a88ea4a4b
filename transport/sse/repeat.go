package sse

import (
	"context"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/backoff"
	"github.com/dragoman-mcp/dragoman/internal/mux"
)

// An answer to a question of the server is posted again if the link breaks before
// the server has taken it: so often, and all within the time of one POST. A server
// that had it already ignores the second, because nobody waits for it any more.
const maxRepeats = 5

var betweenRepeats = backoff.Backoff{Min: 250 * time.Millisecond, Max: 4 * time.Second}

// post posts a frame.
func (l *link) post(ctx context.Context, f mux.Frame, answer bool) (*http.Response, error) {
	text := f.AppendTo(nil)
	for n := 0; ; n++ {
		resp, err := l.postOnce(ctx, text)
		if err == nil || !answer || n == maxRepeats || backoff.Sleep(ctx, betweenRepeats.Wait(n+1)) != nil {
			return resp, err
		}
	}
}

func (l *link) postOnce(ctx context.Context, text []byte) (*http.Response, error) {
	return l.http.Do(ctx, http.MethodPost, l.endpoint, text, func(h http.Header) {
		if l.sync {
			h.Set("Accept", "application/json")
		}
	})
}
