package jsonrpc_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/jsonrpc"
)

// TestWhatWaitsForTheHandshakeIsBounded has a client that sends many or large
// notifications before its initialize is answered.
func TestWhatWaitsForTheHandshakeIsBounded(t *testing.T) {
	const small = `{"jsonrpc":"2.0","method":"notifications/n"}`
	large := func(mib int) string {
		return `{"jsonrpc":"2.0","method":"notifications/n","params":{"p":"` + strings.Repeat("x", mib<<20) + `"}}`
	}
	for name, test := range map[string]struct {
		send []string
		over bool
	}{
		"three megabytes":    {[]string{large(1), large(1), large(1)}, false},
		"five megabytes":     {[]string{large(1), large(1), large(1), large(1), large(1)}, true},
		"one larger message": {[]string{large(6)}, false},
		"and another one":    {[]string{large(6), small}, true},
		"many messages":      {slices.Repeat([]string{small}, 1024), false},
		"one too many":       {slices.Repeat([]string{small}, 1025), true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWire()
				c := jsonrpc.New(w, &jsonrpc.Options{Server: true})
				c.Start(dragoman.Funcs{OnCall: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				}})
				defer c.Close()
				w.say(`{"jsonrpc":"2.0","id":1,"method":"initialize"}`)
				for _, text := range test.send {
					w.say(text)
				}
				synctest.Wait()
				if over := errors.Is(c.Err(), dragoman.ErrOverloaded); over != test.over {
					t.Errorf("the conversation ended with %v", c.Err())
				}
			})
		})
	}
}
