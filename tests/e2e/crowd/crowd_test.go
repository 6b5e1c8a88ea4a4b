//go:build unix

package crowd

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

const (
	// many is how many clients come at once.
	many = 200 / scarce

	// inTime is how long they may take together, on a machine that has a lot else
	// to do. With two cores for themselves it is a few seconds.
	inTime = 60 * time.Second
)

// A server is one that a bridge may stand in front of.
type server struct {
	name  string
	rev   protocol.Revision
	dial  func(*testing.T, protocol.Revision, journal) dragoman.Dialer
	piped bool // it is on stdio
}

// behind are the servers that a bridge may stand in front of.
func behind() []server {
	process := func(t *testing.T, r protocol.Revision, j journal) dragoman.Dialer { return child(t, r, j) }
	web := func(t *testing.T, r protocol.Revision, j journal) dragoman.Dialer {
		return &streamable.Client{URL: listen(t, r, j, "").url(), Timeout: -1}
	}
	return []server{
		{"legacy server on stdio", protocol.LatestLegacy, process, true},
		{"legacy server on HTTP", protocol.LatestLegacy, web, false},
		{"modern server on stdio", protocol.Latest, process, true},
		{"modern server on HTTP", protocol.Latest, web, false},
	}
}

// TestManyClientsGetWhatIsTheirOwn has a crowd of both eras at one bridge. All
// requests have the same id and the same progress token.
func TestManyClientsGetWhatIsTheirOwn(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	for _, server := range behind() {
		t.Run(server.name, func(t *testing.T) {
			peertest.NoLeak(t)
			j := newJournal(t)
			// Each client has a child of its own, if the server is one. Nobody is to wait
			// for one here.
			b := newBridge(t, &era.Server{Dialer: server.dial(t, server.rev, j), Stateless: !server.piped, MaxSessions: 2 * many})
			began := time.Now()
			refused := b.crowd(t, many, func(ctx context.Context, g *testClient) error {
				return g.everything(ctx, server.piped && (g.Modern() || server.rev.Era() == protocol.Modern))
			})
			if refused != 0 {
				t.Errorf("%d of %d clients were refused", refused, many)
			}
			t.Logf("%d clients took %v; %d processes", many, time.Since(began).Round(time.Millisecond), len(j.pids()))
			for _, tool := range []string{"echo", "tell", "test_sampling", "test_elicitation"} {
				j.ran(t, tool, many)
			}
		})
	}
}

// TestCrowdAtTheLimitIsServedOrRefused has more modern clients than there may be
// sessions with a legacy server.
func TestCrowdAtTheLimitIsServedOrRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	peertest.NoLeak(t)
	j := newJournal(t)
	const n, sessions = 50, 4
	b := newBridge(t, &era.Server{Dialer: child(t, protocol.LatestLegacy, j), MaxSessions: sessions})
	refused := b.crowdOf(t, n, func(i int) (string, protocol.Revision) {
		return []string{overHTTP, overWS}[i%2], protocol.Latest
	}, func(ctx context.Context, g *testClient) error { return g.input(ctx) })
	t.Logf("%d of %d clients were refused; %d processes", refused, n, len(j.pids()))
	if refused == n {
		t.Error("nobody was served")
	}
	if got := len(j.pids()); got > n+sessions+1 { // one to find out the era on
		t.Errorf("%d processes were started for %d clients", got, n)
	}
	j.ran(t, "test_sampling", n-refused)
}

// TestCallsOfOneClientShareItsProcess has many calls of one modern client at once, of
// which some ask it something, and of two clients that must not share.
func TestCallsOfOneClientShareItsProcess(t *testing.T) {
	peertest.NoLeak(t)
	j := newJournal(t)
	b := newBridge(t, &era.Server{Dialer: child(t, protocol.LatestLegacy, j)})
	ctx, cancel := context.WithTimeout(t.Context(), inTime)
	defer cancel()
	const calls = 50
	for i := range 2 {
		g := b.mustEnter(ctx, t, fmt.Sprintf("client-%d", i), overHTTP, protocol.Latest)
		var all sync.WaitGroup
		for n := range calls {
			all.Go(func() {
				tool, want, arguments := "echo", fmt.Sprint("call ", n), object{"text": fmt.Sprint("call ", n)}
				if n%8 == 0 {
					tool, want, arguments = "test_sampling", "LLM response: "+g.Name, object{"prompt": g.Name}
				}
				if got, err := g.Tool(ctx, tool, arguments); err != nil || got != want {
					t.Errorf("%s, call %d: %s says %q, error %v", g.Name, n, tool, got, err)
				}
			})
		}
		all.Wait()
	}
	if got := len(j.pids()); got > 2+1 { // one to find out the era on
		t.Errorf("%d processes served two clients", got)
	}
}

// crowd has n clients use the bridge at once, half of them of each era.
func (b *bridge) crowd(t *testing.T, n int, run func(context.Context, *testClient) error) (refused int) {
	t.Helper()
	return b.crowdOf(t, n, func(i int) (string, protocol.Revision) {
		way := []string{overHTTP, overWS}[i/2%2]
		if i%25 < 2 {
			way = overStdio
		}
		if i%2 == 0 {
			return way, protocol.Latest
		}
		return way, protocol.LatestLegacy
	}, run)
}

// crowdOf returns how many of the clients were refused because of a limit, before anything was
// sent to the server. Any other failure is one of the test.
func (b *bridge) crowdOf(t *testing.T, n int, kind func(i int) (way string, r protocol.Revision), run func(context.Context, *testClient) error) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), inTime)
	defer cancel()
	var (
		refused atomic.Int64
		crowd   sync.WaitGroup
		start   = make(chan struct{})
	)
	for i := range n {
		crowd.Go(func() {
			<-start
			way, r := kind(i)
			name := fmt.Sprintf("guest-%03d", i) // none is a part of another
			err := b.runClient(ctx, name, way, r, run)
			switch _, outcome := gatewaytest.Outcome(err); {
			case err == nil:
			case outcome == protocol.OutcomeNotSent: // also without a list of tools, if its session is waited for too long
				refused.Add(1)
			default:
				t.Errorf("%s, %s over %s: %v", name, r, way, err)
			}
		})
	}
	close(start)
	crowd.Wait()
	return int(refused.Load())
}

// runClient lets one client come, do what it wants, and leave.
func (b *bridge) runClient(ctx context.Context, name, way string, r protocol.Revision, run func(context.Context, *testClient) error) error {
	g, err := b.enter(ctx, name, way, r)
	if err != nil {
		return err
	}
	err = run(ctx, g)
	_ = g.Conn.Close()
	if err == nil && len(g.foreign) > 0 {
		err = fmt.Errorf("it received a request for another client: %s", strings.Join(g.foreign, "; "))
	}
	return err
}

// everything uses tools of each kind. Each step has a word of its own, which
// nobody else uses.
func (g *testClient) everything(ctx context.Context, shared bool) error {
	if err := g.wants(ctx, "echo", g.Name+" echo", g.Name+" echo"); err != nil {
		return err
	}
	if err := g.tell(ctx, shared); err != nil {
		return err
	}
	resp, err := g.Request(ctx, protocol.MethodListTools, object{})
	if err != nil || resp.Get("tools") == nil {
		return fmt.Errorf("tools/list: got %v, error %w", resp, err)
	}
	return g.input(ctx)
}

// wants calls a tool and compares what it says.
func (g *testClient) wants(ctx context.Context, tool, word, want string) error {
	g.begin(word)
	arguments := object{}
	switch tool {
	case "echo", "tell":
		arguments["text"] = word
	case "test_sampling":
		arguments["prompt"] = word
	case "test_elicitation":
		arguments["message"] = word
	default:
		g.begin("") // its questions are the same for all
	}
	got, err := g.Tool(ctx, tool, arguments)
	if err == nil && got != want {
		err = fmt.Errorf("%s says %q, want %q", tool, got, want)
	}
	return err
}

// tell has itself told its name, and wants that and nothing else. On a pipe that
// is shared nobody knows whose a log message is, so some reach nobody.
func (g *testClient) tell(ctx context.Context, shared bool) error {
	word := g.Name + " tell"
	if err := g.wants(ctx, "tell", word, word); err != nil {
		return err
	}
	for i, n := range g.Notes(protocol.NoteProgress) {
		if gatewaytest.Text(n.Get("message")) != word || gatewaytest.Text(n.Get("progressToken")) != token || string(n.Get("progress")) != fmt.Sprint(i+1) {
			return fmt.Errorf("progress %d of %q is %s", i+1, word, n.Params())
		}
	}
	for _, n := range g.Notes(protocol.NoteMessage) {
		if gatewaytest.Text(n.Get("data")) != word {
			return fmt.Errorf("a log message of %q is %s", word, n.Params())
		}
	}
	if p, l := len(g.Notes(protocol.NoteProgress)), len(g.Notes(protocol.NoteMessage)); p != steps || l > steps || l < steps && !shared {
		return fmt.Errorf("heard of progress %d times and %d log messages, want %d of each", p, l, steps)
	}
	return nil
}

// input uses tools that ask. What they say has the client's own answers in it.
func (g *testClient) input(ctx context.Context) error {
	for _, step := range []struct{ tool, want string }{
		{"test_sampling", "LLM response: " + g.Name},
		{"test_elicitation", fmt.Sprintf(`User response: action=accept, content={"email":%q,"username":%[1]q}`, g.Name)},
		{"test_input_required_result_list_roots", "The client's roots: file:///" + g.Name},
		{"test_input_required_result_multiple_inputs", g.Name + " " + g.Name + " (roots: 1)"},
	} {
		if err := g.wants(ctx, step.tool, g.Name+" "+step.tool, step.want); err != nil {
			return err
		}
	}
	return nil
}
