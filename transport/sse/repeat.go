package sse

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/mux"
)

// An answer to a question of the server is posted again if the link breaks before
// the server has taken it: so often, after a pause that grows from minPause to
// twice as long each time, and all within the time of one POST. A server that had
// it already ignores the second, because nobody waits for it any more.
const (
	maxRepeats = 5
	minPause   = 250 * time.Millisecond
)

// post posts a frame.
func (l *link) post(ctx context.Context, f mux.Frame, answer bool) (*http.Response, error) {
	text := f.AppendTo(nil)
	for n := 0; ; n++ {
		resp, err := l.postOnce(ctx, text)
		if err == nil || !answer || n == maxRepeats || !pause(ctx, minPause<<n) {
			return resp, err
		}
	}
}

func (l *link) postOnce(ctx context.Context, text []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, l.endpoint.String(), bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	l.dress(req)
	req.Header.Set("Content-Type", "application/json")
	if l.sync {
		req.Header.Set("Accept", "application/json")
	}
	return l.http.Do(req)
}

// pause waits for d, less a random part of up to one half, and tells whether ctx
// goes on.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d - rand.N(d/2))
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
