package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// tapBeat is how often who taps is shown that we are there, while nothing passes.
const tapBeat = 15 * time.Second

// serveTap streams what passes, until who asked has left.
func (g *Gateway) serveTap(w http.ResponseWriter, r *http.Request) {
	server := r.URL.Query().Get("server")
	if server != "" && g.serverOr(w, server) == nil {
		return
	}
	unmasked := r.URL.Query().Get("unmasked") == "true"
	queue, stop := g.taps.Open(server)
	defer stop()
	w.Header().Set("Content-Type", "application/x-ndjson")
	flush := http.NewResponseController(w)
	if flush.Flush() != nil {
		return
	}
	out := json.NewEncoder(w)
	for r.Context().Err() == nil {
		beat, cancel := context.WithTimeout(r.Context(), tapBeat)
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
			if _, err := w.Write([]byte("\n")); err != nil { // which means nothing to who reads JSON
				return
			}
		}
		if flush.Flush() != nil {
			return
		}
	}
}
