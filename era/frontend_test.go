package era_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestFrontServesClientsOfEveryRevision(t *testing.T) {
	peertest.NoLeak(t)
	server := builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.Latest}})
	defer server.Close()
	f := era.NewFrontend(server.Requests(), nil)
	defer f.Close()
	for _, r := range protocol.Revisions() {
		t.Run(r.String(), func(t *testing.T) {
			c := join(t, f, r)
			c.echo()
			if r.Era() == protocol.Legacy {
				return
			}
			names := string(c.must(protocol.MethodDiscover, `{}`).Get("supportedVersions"))
			for _, other := range protocol.Revisions() {
				if !strings.Contains(names, other.String()) {
					t.Errorf("%s is not among the revisions that are served: %s", other, names)
				}
			}
		})
	}
}

func TestFrontTellsOfSessionsThatHaveEnded(t *testing.T) {
	peertest.NoLeak(t)
	server := builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.Latest}})
	defer server.Close()
	ended := make(chan string, 10)
	f := era.NewFrontend(server.Requests(), &era.FrontendOptions{Ended: func(ctx context.Context) { ended <- dragoman.CallerOf(ctx).Session }})
	one, other := join(t, f, protocol.LatestLegacy), join(t, f, protocol.LatestLegacy)
	join(t, f, protocol.Latest).echo() // which has no session
	_ = one.conn.Close()
	first := <-ended
	other.echo()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if second := <-ended; first == "" || second == "" || first == second || len(ended) != 0 {
		t.Errorf("the sessions %q and %q have ended, and %d more", first, second, len(ended))
	}
}

func TestFrontThatIsClosedCutsCalls(t *testing.T) {
	for _, r := range []protocol.Revision{protocol.LatestLegacy, protocol.Latest} {
		t.Run(r.String(), func(t *testing.T) {
			peertest.NoLeak(t)
			server := builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.Latest}})
			defer server.Close()
			var calls atomic.Int32
			f := era.NewFrontend(dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
				if req.Method() == protocol.MethodCallTool {
					calls.Add(1)
				}
				return server.Requests().Call(ctx, req, from)
			}}, nil)
			c := join(t, f, r)
			done := make(chan error, 1)
			go func() { // ends with the front
				_, err := c.request(context.Background(), protocol.MethodCallTool, `{"name":"wait"}`)
				done <- err
			}()
			eventually(t, "the call is in flight", func() bool { return calls.Load() == 1 })
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-done; !errors.Is(err, dragoman.ErrClosed) {
				t.Errorf("got %v", err)
			}
			if _, err := c.request(t.Context(), protocol.MethodListTools, `{}`); !errors.Is(err, dragoman.ErrClosed) {
				t.Errorf("afterwards: got %v", err)
			}
		})
	}
}
