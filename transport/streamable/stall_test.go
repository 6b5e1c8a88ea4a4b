package streamable_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// The clock of a bubble stands still as long as any goroutine can continue. So if it has
// not moved, nobody has waited for anything.
func TestClientThatReadsNothingHoldsUpNobodyAndIsCut(t *testing.T) {
	e := builtin.New(nil)
	clients := make(chan dragoman.Conn, 2)
	s := &streamable.Server{Requests: e.Requests(), Sessions: dragoman.AcceptFunc(func(ctx context.Context, c dragoman.Conn) (dragoman.Peer, error) {
		clients <- c
		return e.Accept(ctx, c)
	})}
	inBubble(t, s, func(t *testing.T, b *bubble) {
		first, other := b.dial(), b.dial()
		headers := first.hello()
		stalled := <-clients
		others := other.hello()

		deaf := b.dial()
		if _, err := io.WriteString(deaf, request(http.MethodGet, headers, "")); err != nil {
			t.Fatal(err)
		}
		if _, err := http.ReadResponse(deaf.r, nil); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		note, err := dragoman.NewNotification(protocol.NoteMessage, map[string]any{"level": "info", "data": strings.Repeat("x", 4<<10)})
		if err != nil {
			t.Fatal(err)
		}
		tell := func() {
			for range 4096 { // several times what may wait
				if err := stalled.Notify(t.Context(), note); err != nil {
					t.Fatalf("Notify: %v", err)
				}
			}
		}
		tell()
		if n := b.stuck(); n != 1 {
			t.Fatalf("%d writes are blocked, want that of the stalled client", n)
		}
		for range 200 {
			other.echo(others)
			first.echo(headers) // a session of the same client
		}
		tell()
		if n := b.stuck(); n != 1 {
			t.Errorf("then %d writes are blocked, want the same as before", n)
		}
		if d := time.Since(start); d != 0 {
			t.Errorf("somebody waited: it took %v", d)
		}

		deaf.broken()
		if d := time.Since(start); d != 30*time.Second {
			t.Errorf("the stalled client was cut after %v, want 30 s", d)
		}
		if n := b.stuck(); n != 0 {
			t.Errorf("%d writes are blocked though nobody is stalled", n)
		}
		other.echo(others)
		first.echo(headers)
		if err := stalled.Err(); err != nil {
			t.Errorf("the session of the stalled client is over: %v", err)
		}
	})
}

// Whatever is answered, and however short, a client that sends on and on and
// reads nothing is cut.
func TestPipelinedRequestsOfAClientThatReadsNothingAreCut(t *testing.T) {
	for name, body := range map[string]string{
		"call":         echoCall("1", "hi"),
		"long answer":  `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
		"notification": `{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}`,
		"refusal":      `{"jsonrpc":"2.0","id":1}`,
		"stream":       `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"test_tool_with_progress","_meta":{"progressToken":1}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, &streamable.Server{Sessions: builtin.New(nil), WriteTimeout: 7 * time.Second}, func(t *testing.T, b *bubble) {
				headers := b.dial().hello()
				deaf := b.dial()
				start := time.Now()
				for {
					if _, err := io.WriteString(deaf, request(http.MethodPost, headers, body)); err != nil {
						break
					}
				}
				if d := time.Since(start); d != 7*time.Second {
					t.Errorf("it was cut after %v, want 7 s", d)
				}
			})
		})
	}
}
