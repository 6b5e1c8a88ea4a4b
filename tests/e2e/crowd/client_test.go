//go:build unix

package crowd

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

type object = gatewaytest.Object

// patience is how long anything may take that has no limit of its own.
const patience = 15 * time.Second

// token is every client's progress token.
const token = "t1"

// A testClient is a client that has a name, and knows what is its own by that. All of
// its requests have the same id and the same progress token as all of everybody
// else's.
type testClient struct {
	*gatewaytest.Client
	mu      sync.Mutex
	word    string   // what its questions must have in them
	foreign []string // what was another's
}

// enter opens the conversation of a client with a bridge.
func (b *bridge) enter(ctx context.Context, name, way string, r protocol.Revision) (*testClient, error) {
	g := &testClient{}
	g.Client = &gatewaytest.Client{Name: name, Revision: r, Alike: true, Asked: g.question}
	if err := g.Open(ctx, b.dialers[way]()); err != nil {
		return nil, fmt.Errorf("over %s: %w", way, err)
	}
	return g, nil
}

// mustEnter is enter for a client without whom the test makes no sense. It leaves
// when the test is over.
func (b *bridge) mustEnter(ctx context.Context, t *testing.T, name, way string, r protocol.Revision) *testClient {
	t.Helper()
	g, err := b.enter(ctx, name, way, r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Conn.Close() })
	return g
}

// question looks at a question before it is answered. What it says must be this
// client's own.
func (g *testClient) question(ctx context.Context, method string, params json.RawMessage) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.word != "" && method != protocol.MethodListRoots && !strings.Contains(string(params), g.word) {
		g.foreign = append(g.foreign, fmt.Sprintf("%s %s while %q was expected", method, params, g.word))
	}
	return nil
}

// begin begins a new chapter: word is what questions must have in them from now
// on, and what was heard before does not count.
func (g *testClient) begin(word string) {
	g.mu.Lock()
	g.word = word
	g.mu.Unlock()
	g.Forget()
}
