package down_test

import (
	"context"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// gated is a server whose tools say when they run and then wait to be let go. Those that are
// let go with "ask" ask the user before they answer.
type gated struct {
	runs map[string]chan struct{}
	do   map[string]chan string
}

func newGated(tools ...string) *gated {
	g := &gated{make(map[string]chan struct{}), make(map[string]chan string)}
	for _, tool := range tools {
		g.runs[tool], g.do[tool] = make(chan struct{}, 1), make(chan string, 1)
	}
	return g
}

func (g *gated) script() *script {
	return &script{rev: protocol.V20251125, on: map[string]handler{
		protocol.MethodCallTool: func(ctx context.Context, c *scripted, req *dragoman.Message, from dragoman.Peer) (any, error) {
			g.runs[req.Name()] <- struct{}{}
			select {
			case what := <-g.do[req.Name()]:
				if what != "ask" {
					return text(what), nil
				}
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
			_, err := c.ask(ctx, from, protocol.MethodElicit, confirmForm(req.Name()))
			return text("asked"), err
		},
	}}
}

// On a pipe a server request does not say which call it belongs to. The calls of the same
// session that are in flight can differ in what is known of their tools.
func TestRequestThatNamesNoCallGoesToTheLikeliest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		before []string // tools that were called before, one at a time, and asked
		inRow  []string // tools that are in flight when one of them asks, in this order
		asks   string
	}{
		"the oldest":                                {nil, []string{"ask", "slow"}, "ask"},
		"the oldest of three":                       {nil, []string{"ask", "slow", "slower"}, "ask"},
		"a tool that has asked before":              {[]string{"ask"}, []string{"slow", "ask", "slower"}, "ask"},
		"the oldest of those that have":             {[]string{"ask", "slower"}, []string{"slow", "slower", "ask"}, "slower"},
		"one that has asked, of more than one call": {[]string{"slow"}, []string{"ask", "slow", "slower"}, "slow"},
	} {
		t.Run(name, func(t *testing.T) {
			peertest.NoLeak(t)
			g := newGated("ask", "slow", "slower")
			r := newRig(t, dragoman.Local(g.script()), confuse, nil)
			for _, tool := range c.before {
				g.do[tool] <- "ask"
				if _, n := r.rounds(t.Context(), protocol.MethodCallTool, canAll, callParams(tool, nil), obliging); n != 1 {
					t.Fatalf("%s asked %d times", tool, n)
				}
				<-g.runs[tool]
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			calls, answered := make(map[string]<-chan outcome), make(chan outcome, 3)
			for _, tool := range c.inRow {
				calls[tool] = r.start(ctx, r.request(protocol.MethodCallTool, canAll, callParams(tool, nil)), nil)
				receive(t, g.runs[tool], tool+" runs")
			}
			g.do[c.asks] <- "ask"
			for tool, other := range calls {
				// Ends when a call is asked, or with the test.
				go func() {
					if o := <-other; tool == c.asks || o.err == nil {
						answered <- o
					}
				}()
			}
			first := receive(t, answered, "a call is asked")
			if first.req.Name() != c.asks {
				t.Fatalf("%s was asked, want %s", first.req.Name(), c.asks)
			}
			questions, state := asked(t, first.resp)
			answers := object{}
			for key, q := range questions {
				answers[key] = obliging(q)
			}
			complete(t, r.send(ctx, r.request(protocol.MethodCallTool, canAll, with(callParams(c.asks, nil), state, answers)), nil))
			cancel()
		})
	}
}

func TestRequestThatNamesNoCallNeverGoesToAnotherPrincipal(t *testing.T) {
	t.Parallel()
	peertest.NoLeak(t)
	g := newGated("ask", "slow")
	r := newRig(t, dragoman.Local(g.script()), confuse, nil)
	slow := r.start(as(t.Context(), "eve"), r.request(protocol.MethodCallTool, canAll, callParams("slow", nil)), nil)
	receive(t, g.runs["slow"], "slow runs")
	g.do["ask"] <- "ask"
	ask := r.start(as(t.Context(), "ada"), r.request(protocol.MethodCallTool, canAll, callParams("ask", nil)), nil)
	asked(t, r.finish(ask))
	g.do["slow"] <- "done"
	if got := said(t, complete(t, r.finish(slow))); got != "done" {
		t.Errorf("got %q", got)
	}
}
