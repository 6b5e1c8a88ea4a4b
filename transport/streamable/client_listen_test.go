package streamable_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// A server without an event log loses what it says on the background stream
// before that is open.
func TestBackgroundStreamIsOpenBeforeTheFirstRequest(t *testing.T) {
	t.Parallel()
	var open atomic.Bool
	early := make(chan string, 8)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			time.Sleep(50 * time.Millisecond) // as a server under load would take
			open.Store(true)
			w.Header().Set("Content-Type", "text/event-stream")
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
			return
		}
		body, _ := io.ReadAll(r.Body)
		m, err := dragoman.Parse(body)
		if err != nil { // the end of the session
			return
		}
		w.Header().Set("Content-Type", "application/json")
		switch m.Method() {
		case protocol.MethodInitialize:
			w.Header().Set("Mcp-Session-Id", "s")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"n","version":"1"}}}`, m.ID())
		case protocol.MethodPing:
			if !open.Load() {
				early <- m.String()
			}
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID())
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(server.Close)
	conn, err := (&streamable.Client{URL: server.URL}).Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	for _, text := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"n","version":"1"}}}`,
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","id":2,"method":"ping"}`,
	} {
		m, err := dragoman.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if m.Kind() == dragoman.Notification {
			err = conn.Notify(t.Context(), m)
		} else {
			_, err = conn.Call(t.Context(), m, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	select {
	case text := <-early:
		t.Errorf("came before the background stream was open: %s", text)
	default:
	}
}
