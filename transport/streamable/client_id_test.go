package streamable_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

func TestClientRefusesASessionIDThatIsNoVisibleASCIIOrTooLong(t *testing.T) {
	for name, test := range map[string]struct {
		id string
		ok bool
	}{
		"none":             {"", true},
		"plain":            {"s1", true},
		"1,024 characters": {strings.Repeat("x", 1024), true},
		"1,025 characters": {strings.Repeat("x", 1025), false},
		"a space":          {"a b", false},
		"not ASCII":        {"é", false},
	} {
		t.Run(name, func(t *testing.T) {
			s, c := serveScript(t, func(w http.ResponseWriter, k *took) {
				if k.what() == "initialize" {
					if test.id != "" {
						w.Header().Set("Mcp-Session-Id", test.id)
					}
					replyTo(w, k, `{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`)
					return
				}
				shakes(w, k, "2025-11-25")
			})
			conn := dialScript(t, c, nil)
			_, err := conn.Call(t.Context(), peertest.Parse(t, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`), nil)
			if test.ok != (err == nil) {
				t.Errorf("initialize: %v", err)
			}
			if err != nil && !strings.Contains(err.Error(), "session id") {
				t.Errorf("the error does not say what is wrong: %v", err)
			}
			_ = conn.Close()
			if _, deletes := s.taken("DELETE"); !test.ok && len(deletes) > 0 {
				t.Error("the session id was sent back")
			}
		})
	}
}

// A stream whose last event has an id that cannot be sent back in a header is not
// resumed: its call is lost at once.
func TestClientResumesNoStreamWhoseEventIDIsTooLong(t *testing.T) {
	for name, test := range map[string]struct {
		id      string
		resumed bool
	}{
		"8 KiB":               {strings.Repeat("x", 8<<10), true},
		"more than 8 KiB":     {strings.Repeat("x", 8<<10+1), false},
		"a control character": {"a\x01b", false},
	} {
		t.Run(name, func(t *testing.T) {
			_, c := serveScript(t, func(w http.ResponseWriter, k *took) {
				switch {
				case k.what() == "tools/call":
					sendEvents(w, oneEvent("1", `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}`))
					sendEvents(w, oneEvent(test.id, `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":2}}`))
				case k.what() == "GET" && k.Header.Get("Last-Event-ID") != "":
					if got := k.Header.Get("Last-Event-ID"); got != test.id {
						t.Errorf("resumed behind an id of %d bytes, want %d", len(got), len(test.id))
					}
					w.WriteHeader(http.StatusNotImplemented)
					fmt.Fprint(w, "resumed")
				default:
					shakes(w, k, "2025-11-25")
				}
			})
			c.Retry = &streamable.Retry{Min: time.Millisecond, Attempts: -1}
			conn := dialScript(t, c, nil)
			shake(t, conn, "2025-11-25")
			_, err := conn.Call(t.Context(), peertest.Parse(t, callTool), newHeard())
			want := "the stream ended"
			if test.resumed {
				want = "501"
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the call ends with %v, want %q", err, want)
			}
		})
	}
}
