package streamable_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// What cannot be answered any more is lost at once, also while the background
// stream is open. Only a status that promises an answer elsewhere is waited for.
func TestCallWhoseAnswerIsEmptyIsLostAtOnce(t *testing.T) {
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		after  time.Duration
		is     error // if it comes immediately
	}{
		{"200 without a body", func(w http.ResponseWriter) { w.WriteHeader(http.StatusOK) }, 0, streamable.ErrNoResponse},
		{"200 with no JSON in its body", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", "0")
		}, 0, streamable.ErrNoResponse},
		{"an event stream without events", func(w http.ResponseWriter) { sendEvents(w) }, 0, streamable.ErrNoResponse},
		{"an event stream without ids", func(w http.ResponseWriter) { sendEvents(w, ": hello", "data:") }, 0, streamable.ErrNoResponse},
		{"a connection that breaks after it has been used", func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, 0, io.EOF},
		{"202", func(w http.ResponseWriter) { w.WriteHeader(http.StatusAccepted) }, streamable.DefaultCallTimeout, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, client := serveInMemory(t, func(w http.ResponseWriter, k *took) {
					switch {
					case k.Method == http.MethodGet:
						sendEvents(w, ": ok")
						<-k.Context().Done()
					case !shakes(w, k, "2025-11-25"):
						c.answer(w)
					}
				})
				conn := dialScript(t, client, nil)
				shake(t, conn, "2025-11-25")
				began := time.Now()
				resp, err := conn.Call(t.Context(), peertest.Parse(t, callTool), nil)
				if took := time.Since(began); err == nil || took != c.after {
					t.Fatalf("got %v, %v after %v, want an error after %v", resp, err, took, c.after)
				}
				var fault protocol.Fault
				if c.after == 0 && (!errors.Is(err, c.is) || !errors.As(err, &fault) || fault.Outcome() != protocol.OutcomeUnknown) {
					t.Errorf("got %v", err)
				}
				if _, list := s.taken("tools/call"); len(list) != 1 {
					t.Errorf("the call was sent %d times", len(list))
				}
				if conn.Err() != nil {
					t.Errorf("the conversation is over: %v", conn.Err())
				}
			})
		})
	}
}
