package up_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/up"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestNegativeLimitsAreNone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 0
		link := scripted(map[string]handler{protocol.MethodCallTool: func(context.Context, *dragoman.Message, dragoman.Peer) (string, error) {
			time.Sleep(time.Hour)
			if n++; n > 50 {
				return `{"resultType":"complete","content":[]}`, nil
			}
			return needsName, nil
		}})
		connect(t, serve(t, link, &up.Options{MaxRounds: -1, RoundsTimeout: -1}), protocol.V20251125).
			must(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`)
	})
}

func TestServerIsNotBelievedForMoreThanADay(t *testing.T) {
	t.Parallel()
	for ttl, want := range map[string]int{"1e18": 1, "-1": 2, "0": 2} {
		synctest.Test(t, func(t *testing.T) {
			link := scripted(nil)
			link.rest = `"ttlMs":` + ttl
			s := serve(t, link, nil)
			connect(t, s, protocol.V20250618)
			time.Sleep(23 * time.Hour)
			connect(t, s, protocol.V20250618)
			if n := len(link.requests(protocol.MethodDiscover)); n != want {
				t.Errorf("ttl %s: asked %d times within a day, want %d", ttl, n, want)
			}
			time.Sleep(2 * time.Hour)
			connect(t, s, protocol.V20250618)
			if n := len(link.requests(protocol.MethodDiscover)); n != want+1 {
				t.Errorf("ttl %s: asked %d times in more than a day, want %d", ttl, n, want+1)
			}
		})
	}
}

func TestServerThatIgnoresTheEndOfATaskIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		link := scripted(map[string]handler{
			protocol.MethodCallTool: inTurn(fmt.Sprintf(created, "1000")),
			protocol.MethodCancelTask: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (string, error) {
				<-ctx.Done()
				return "", context.Cause(ctx)
			},
		})
		c := connect(t, serve(t, link, nil), protocol.V20250618)
		ctx, cancel := context.WithCancelCause(t.Context())
		start := time.Now()
		time.AfterFunc(500*time.Millisecond, func() { cancel(dragoman.ErrCancelled) })
		_, err := c.conn.Call(ctx, parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`), c)
		if took := time.Since(start); !errors.Is(err, dragoman.ErrCancelled) || took != 5500*time.Millisecond {
			t.Errorf("%v after %v", err, took)
		}
	})
}
