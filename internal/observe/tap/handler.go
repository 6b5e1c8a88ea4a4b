package tap

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// keepAlive is how often an empty line is sent while there are no messages.
const keepAlive = 15 * time.Second

// ServeHTTP streams the messages from now on, a JSON object per line, until the client leaves.
// server=NAME in the query selects a server; with unmasked=true secrets are shown.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	queue, stop := h.Open(r.URL.Query().Get("server"))
	unmasked := r.URL.Query().Get("unmasked") == "true"
	defer stop()
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush := http.NewResponseController(w)
	if flush.Flush() != nil {
		return
	}
	out := json.NewEncoder(w)
	for r.Context().Err() == nil {
		beat, cancel := context.WithTimeout(r.Context(), keepAlive)
		events := queue.Next(beat)
		cancel()
		for _, e := range events {
			if !unmasked {
				e = e.Masked()
			}
			if out.Encode(e) != nil {
				return
			}
		}
		if len(events) == 0 {
			if _, err := w.Write([]byte("\n")); err != nil {
				return
			}
		}
		if flush.Flush() != nil {
			return
		}
	}
}
