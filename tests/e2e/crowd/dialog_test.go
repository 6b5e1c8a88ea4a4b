//go:build unix

package crowd

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// TestAnswerToADialogEndsNoOtherCall has one legacy client with several calls under
// way that each open a dialog. Each call is made while the dialogs of those before
// it are open, as happens by chance when all are made at once, and the dialogs are
// answered in the same order.
func TestAnswerToADialogEndsNoOtherCall(t *testing.T) {
	const calls = 6
	for _, way := range []string{overHTTP, overSSE, overWS, overStdio} {
		t.Run(way, func(t *testing.T) {
			peertest.NoLeak(t)
			b := newBridge(t, &era.Server{Dialer: child(t, protocol.LatestLegacy, newJournal(t))})
			ctx, cancel := context.WithTimeout(t.Context(), inTime)
			defer cancel()
			opened, answer := make(chan int, calls), [calls]chan struct{}{}
			c := &gatewaytest.Client{Name: "client", Revision: protocol.LatestLegacy, Asked: func(ctx context.Context, _ string, params json.RawMessage) error {
				var dialog struct {
					Message int `json:",string"`
				}
				if err := json.Unmarshal(params, &dialog); err != nil {
					return err
				}
				opened <- dialog.Message
				select {
				case <-answer[dialog.Message]:
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}}
			if err := c.Open(ctx, b.dialers[way]()); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Conn.Close() })
			var said [calls]chan string
			for i := range calls {
				answer[i], said[i] = make(chan struct{}), make(chan string, 1)
				go func() { // ends with the call
					text, err := c.Tool(ctx, "test_elicitation", object{"message": fmt.Sprint(i)})
					said[i] <- fmt.Sprint(text, err)
				}()
				select {
				case <-opened:
				case <-ctx.Done():
					t.Fatalf("call %d opens no dialog", i)
				}
			}
			for i := range calls {
				close(answer[i])
				if got, want := <-said[i], `User response: action=accept, content={"email":"client","username":"client"}<nil>`; got != want {
					t.Errorf("call %d says %s, want %s", i, got, want)
				}
			}
		})
	}
}
