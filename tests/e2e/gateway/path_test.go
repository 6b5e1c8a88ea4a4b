//go:build unix

package gateway

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// TestPathOfACall calls a tool over Streamable HTTP and compares the methods Call that carry
// the request, from the endpoint to the connection to the server, with the expected ones. A
// name stands once, where it is met first.
//
// The aim is at most eight names for one server and twelve for the aggregate. These lists may
// become shorter; one that becomes longer needs a reason in the commit that does it.
func TestPathOfACall(t *testing.T) {
	const legacy, modern = protocol.Legacy, protocol.Modern
	paths := make(chan path, 1)
	onCall := func() { paths <- callPath() }
	both := insideBoth(t, onCall)
	runs := map[protocol.Era]*insideGateway{legacy: insideSingle(t, legacy, onCall), modern: insideSingle(t, modern, onCall)}
	for _, row := range []struct {
		endpoint       string
		client, server protocol.Era
		want           string
	}{
		{"server", legacy, legacy, `
			event.(*peer).Call
			gateway.(*filter).Call
			upstream.(*session).Call
			era.(*frontConn).Call
			era.(*legacySession).Call
			upstream.(*conn).Call
			jsonrpc.(*Conn).Call
		`},
		{"server", legacy, modern, `
			event.(*peer).Call
			gateway.(*filter).Call
			upstream.(*session).Call
			era.(*frontConn).Call
			up.(*session).Call
			era.requests.Call
			upstream.(*conn).Call
			jsonrpc.(*Conn).Call
		`},
		{"server", modern, legacy, `
			event.(*peer).Call
			gateway.(*filter).Call
			upstream.requests.Call
			era.requests.Call
			down.(*Server).Call
			upstream.(*conn).Call
			jsonrpc.(*Conn).Call
		`},
		{"server", modern, modern, `
			event.(*peer).Call
			gateway.(*filter).Call
			upstream.requests.Call
			era.requests.Call
			upstream.(*conn).Call
			jsonrpc.(*Conn).Call
		`},
		{"run", legacy, legacy, `
			event.(*peer).Call
			gateway.(*filter).Call
			upstream.(*session).Call
			era.(*frontConn).Call
			era.(*legacySession).Call
			upstream.(*conn).Call
			jsonrpc.(*Conn).Call
		`},
		{"run", modern, modern, `
			event.(*peer).Call
			gateway.(*filter).Call
			upstream.requests.Call
			era.requests.Call
			upstream.(*conn).Call
			jsonrpc.(*Conn).Call
		`},
		{"aggregate", legacy, legacy, `
			event.(*peer).Call
			era.(*frontConn).Call
			up.(*session).Call
			era.closablePeer.Call
			aggregate.(*Aggregate).Call
			gateway.(*filter).Call
			upstream.requests.Call
			era.requests.Call
			down.(*Server).Call
			upstream.(*conn).Call
			jsonrpc.(*Conn).Call
		`},
		{"aggregate", legacy, modern, `
			event.(*peer).Call
			era.(*frontConn).Call
			up.(*session).Call
			era.closablePeer.Call
			aggregate.(*Aggregate).Call
			gateway.(*filter).Call
			upstream.requests.Call
			era.requests.Call
			upstream.(*conn).Call
			jsonrpc.(*Conn).Call
		`},
		{"aggregate", modern, legacy, `
			event.(*peer).Call
			era.closablePeer.Call
			aggregate.(*Aggregate).Call
			gateway.(*filter).Call
			upstream.requests.Call
			era.requests.Call
			down.(*Server).Call
			upstream.(*conn).Call
			jsonrpc.(*Conn).Call
		`},
		{"aggregate", modern, modern, `
			event.(*peer).Call
			era.closablePeer.Call
			aggregate.(*Aggregate).Call
			gateway.(*filter).Call
			upstream.requests.Call
			era.requests.Call
			upstream.(*conn).Call
			jsonrpc.(*Conn).Call
		`},
	} {
		t.Run(fmt.Sprintf("%s, %s client, %s server", row.endpoint, row.client, row.server), func(t *testing.T) {
			g, at, tool := both, "/servers/"+row.server.String(), "echo"
			switch row.endpoint {
			case "run":
				g, at = runs[row.server], ""
			case "aggregate":
				at, tool = "", row.server.String()+"_echo"
			}
			ctx, cancel := context.WithTimeout(t.Context(), gatewaytest.Patience)
			defer cancel()
			c, err := gatewaytest.Dial(ctx, &streamable.Client{URL: g.base + at + "/mcp"}, "guest", row.client)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Conn.Close()
			var got path
			for range 2 { // the first call may open connections and subscriptions
				if _, err := c.Tool(ctx, tool, nil); err != nil {
					t.Fatal(err)
				}
				got = <-paths
			}
			t.Logf("%d names, %d frames:\n%s", len(got.names), got.frames, strings.Join(got.names, "\n"))
			if want := strings.Fields(row.want); !slices.Equal(got.names, want) {
				t.Errorf("the path of a call is not\n%s", strings.Join(want, "\n"))
			}
		})
	}
}

var (
	goroutineHead = regexp.MustCompile(`^goroutine (\d+) `)
	createdIn     = regexp.MustCompile(`(?m)^created by .* in goroutine (\d+)$`)
	callFrame     = regexp.MustCompile(`(?m)^github\.com/dragoman-mcp/(?:[^/\s(]+/)*([^/\s(]+(?:\(\*[^)\s]+\))?\S*\.Call)\(`)
)

// A path is what carries a call.
type path struct {
	names  []string // of methods
	frames int      // how many calls of them there are
}

// callPath returns the methods Call of this module that wait for the caller of this function, a
// server that carries out a request: those on the goroutine of the HTTP handler and on
// goroutines that it has started, in the order in which they were called. A request that is
// given to a goroutine that exists already is not followed there, so the list ends with the
// connection to the server, whose reader is such a goroutine.
func callPath() (p path) {
	text := make([]byte, 4<<20)
	text = text[:runtime.Stack(text, true)]
	_, rest, _ := strings.Cut(string(text), "\n\n") // the first one is our own
	following := make(map[string]bool)              // goroutines, by their numbers
	stacks := strings.Split(rest, "\n\n")
	for again := true; again; {
		again = false
		for i, stack := range stacks {
			head, calls := goroutineHead.FindStringSubmatch(stack), callFrame.FindAllStringSubmatch(stack, -1)
			if head == nil || calls == nil {
				continue
			}
			created := createdIn.FindStringSubmatch(stack)
			if !strings.Contains(stack, ".ServeHTTP(") && (len(created) == 0 || !following[created[1]]) {
				continue
			}
			if strings.Contains(stack, "frames elided") {
				return path{names: []string{"a stack is too deep to be shown"}}
			}
			slices.Reverse(calls) // a stack begins with its innermost frame
			for _, call := range calls {
				p.frames++
				if !slices.Contains(p.names, call[1]) {
					p.names = append(p.names, call[1])
				}
			}
			following[head[1]], stacks[i], again = true, "", true
		}
	}
	return p
}
