package up_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/up"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	subscribe   = `{"jsonrpc":"2.0","id":"s","method":"resources/subscribe","params":{"uri":%q}}`
	unsubscribe = `{"jsonrpc":"2.0","id":"u","method":"resources/unsubscribe","params":{"uri":%q}}`
)

func TestChangesReachTheClient(t *testing.T) {
	peertest.NoLeak(t)
	for _, rev := range legacy {
		server := modern(t)
		s := serve(t, server.Requests(), nil)
		c := connect(t, s, rev)
		// Granted only when the listen is open, so nothing below is missed.
		c.must(fmt.Sprintf(subscribe, "test://watched-resource"))
		other := connect(t, s, rev)
		for tool, method := range map[string]string{
			"test_trigger_tool_change":     protocol.NoteToolsChanged,
			"test_trigger_prompt_change":   protocol.NotePromptsChanged,
			"test_trigger_resource_change": protocol.NoteResourcesChanged,
			"update_resource":              protocol.NoteResourceUpdated,
		} {
			other.tool(tool, `{}`)
			note := c.next()
			if note.Method() != method || note.Meta(protocol.MetaSubscriptionID) != nil {
				t.Errorf("%v: %s brought %s", rev, tool, note)
			}
			if method == protocol.NoteResourceUpdated && note.URI() != "test://watched-resource" {
				t.Errorf("%v: %s", rev, note)
			}
		}
		c.must(fmt.Sprintf(unsubscribe, "test://watched-resource"))
		other.tool("update_resource", `{}`)
		other.tool("test_trigger_tool_change", `{}`)
		if note := c.next(); note.Method() != protocol.NoteToolsChanged {
			t.Errorf("%v: after unsubscribe came %s", rev, note)
		}
	}
}

func TestSubscriptionsThatAreNotPossible(t *testing.T) {
	t.Parallel()
	c := connect(t, serve(t, modern(t).Requests(), nil), protocol.V20250618)
	c.fails(fmt.Sprintf(subscribe, "test://none"), protocol.CodeInvalidParams)
	c.fails(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{}}`, protocol.CodeInvalidParams)
	c.fails(`{"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{}}`, protocol.CodeInvalidParams)
	c.must(fmt.Sprintf(unsubscribe, "test://never"))
	c.must(fmt.Sprintf(subscribe, "test://watched-resource"))
	c.must(fmt.Sprintf(subscribe, "test://watched-resource"))
	link := scripted(nil)
	link.caps = `{"resources":{}}`
	c = connect(t, serve(t, link, nil), protocol.V20250618)
	c.fails(fmt.Sprintf(subscribe, "x:y"), protocol.CodeMethodNotFound)
	c.fails(fmt.Sprintf(unsubscribe, "x:y"), protocol.CodeMethodNotFound)
	if n := len(link.requests(protocol.MethodListen)); n != 0 {
		t.Errorf("%d listens for nothing", n)
	}
}

// A stage is a modern server whose listens the test plays by hand.
type stage struct {
	*script
	opened chan *part
}

// A part is one listen of a stage.
type part struct {
	id    dragoman.ID
	want  wanted
	from  dragoman.Peer
	gone  chan struct{} // closed when the client ended it
	close chan error    // ends it from the server's side
}

type wanted struct {
	ToolsListChanged      bool     `json:"toolsListChanged,omitempty"`
	PromptsListChanged    bool     `json:"promptsListChanged,omitempty"`
	ResourcesListChanged  bool     `json:"resourcesListChanged,omitempty"`
	ResourceSubscriptions []string `json:"resourceSubscriptions,omitempty"`
}

func staged() *stage {
	g := &stage{opened: make(chan *part, 100)}
	g.script = scripted(map[string]handler{protocol.MethodListen: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (string, error) {
		p := &part{id: req.ID(), from: from, gone: make(chan struct{}), close: make(chan error, 1)}
		_ = json.Unmarshal(req.Get("notifications"), &p.want)
		g.opened <- p
		select {
		case <-ctx.Done():
			close(p.gone)
			return "", context.Cause(ctx)
		case err := <-p.close:
			return `{"resultType":"complete"}`, err
		}
	}})
	g.caps = `{"tools":{"listChanged":true},"resources":{"subscribe":true}}`
	return g
}

func (p *part) tell(method string, params map[string]any) {
	params["_meta"] = map[string]any{protocol.MetaSubscriptionID: p.id}
	note, err := dragoman.NewNotification(method, params)
	if err != nil {
		panic(err)
	}
	_ = p.from.Notify(context.Background(), note)
}

func (p *part) ack() { p.tell(protocol.NoteAcknowledged, map[string]any{"notifications": p.want}) }

// toldOutside returns what the client has been told outside of requests, in
// short.
func (c *client) toldOutside() string {
	var list []string
	for {
		select {
		case note := <-c.notes:
			list = append(list, strings.TrimPrefix(note.Method(), "notifications/")+note.URI())
		default:
			slices.Sort(list)
			return strings.Join(list, " ")
		}
	}
}

// later runs a request of the client while the test continues.
func (c *client) later(text string) chan *dragoman.Message {
	done := make(chan *dragoman.Message, 1)
	go func() {
		resp, err := c.conn.Call(context.Background(), parse(c.t, text), c)
		if err != nil {
			resp = parse(c.t, text).Fail(&dragoman.Error{Code: 1, Message: err.Error()})
		}
		done <- resp
	}()
	return done
}

func TestSubscribeWhileTheServerIsAwayFails(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := staged()
		c := connect(t, serve(t, g, nil), protocol.V20250618)
		(<-g.opened).close <- errors.New("away")
		synctest.Wait()
		answer := c.later(fmt.Sprintf(subscribe, "x:a"))
		p := <-g.opened
		p.close <- errors.New("away")
		if e := (<-answer).RPCError(); e == nil || e.Code != protocol.CodeInternal {
			t.Errorf("got %v", e)
		}
		p = <-g.opened // but what there was before is tried again
		if p.want.ResourceSubscriptions != nil || !p.want.ToolsListChanged {
			t.Errorf("wants %+v", p.want)
		}
		p.ack()
		synctest.Wait()
		if got := c.toldOutside(); got != "tools/list_changed" {
			t.Errorf("told %q", got)
		}
	})
}

func TestSubscriptionsOfASessionAreBounded(t *testing.T) {
	t.Parallel()
	link := &acknowledging{script: scripted(nil)}
	link.caps = `{"resources":{"subscribe":true}}`
	c := connect(t, serve(t, link, &up.Options{MaxSubscriptions: 3}), protocol.V20250618)
	for _, uri := range []string{"x:1", "x:2", "x:3", "x:3"} {
		c.must(fmt.Sprintf(subscribe, uri))
	}
	c.fails(fmt.Sprintf(subscribe, "x:4"), protocol.CodeOverloaded)
	c.must(fmt.Sprintf(unsubscribe, "x:2"))
	c.must(fmt.Sprintf(subscribe, "x:4"))
	c.fails(fmt.Sprintf(subscribe, "x:5"), protocol.CodeOverloaded)

	c = connect(t, serve(t, link, nil), protocol.V20250618)
	var wg sync.WaitGroup
	for i := range up.DefaultMaxSubscriptions {
		wg.Go(func() { c.must(fmt.Sprintf(subscribe, fmt.Sprintf("x:%d", i))) })
	}
	wg.Wait()
	c.fails(fmt.Sprintf(subscribe, "x:more"), protocol.CodeOverloaded)
}

// acknowledging is a server that acknowledges every listen and tells nothing.
type acknowledging struct{ *script }

func (a *acknowledging) Call(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
	if req.Method() != protocol.MethodListen {
		return a.script.Call(ctx, req, from)
	}
	note, err := dragoman.NewNotification(protocol.NoteAcknowledged, map[string]any{"notifications": req.Get("notifications")})
	if err != nil {
		return nil, err
	}
	_ = from.Notify(ctx, note)
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func TestSessionThatEndsEndsItsListen(t *testing.T) {
	peertest.NoLeak(t)
	g := staged()
	s := serve(t, g, nil)
	c := connect(t, s, protocol.V20250618)
	p := <-g.opened
	p.ack()
	c.conn.Close()
	select {
	case <-p.gone:
	case <-time.After(patience):
		t.Fatal("the listen outlives its session")
	}
	// Also while a subscription waits.
	c = connect(t, s, protocol.V20250618)
	(<-g.opened).ack()
	answer := c.later(fmt.Sprintf(subscribe, "x:a"))
	<-g.opened
	c.conn.Close()
	if resp := <-answer; !resp.IsError() {
		t.Errorf("got %s", resp)
	}
}

func TestChangesDuringSubscriptionsAreAllHeard(t *testing.T) {
	peertest.NoLeak(t)
	server := modern(t)
	s := serve(t, server.Requests(), nil)
	c, other := connect(t, s, protocol.V20251125), connect(t, s, protocol.V20251125)
	c.must(fmt.Sprintf(subscribe, "test://watched-resource"))
	for i := range 30 {
		// Whenever a change falls while the listen is replaced, it is told.
		toggle := unsubscribe
		if i%2 == 0 {
			toggle = subscribe
		}
		answer := c.later(fmt.Sprintf(toggle, "test://static-text"))
		other.tool("update_resource", `{}`)
		for note := c.next(); note.URI() != "test://watched-resource"; note = c.next() {
			t.Errorf("told %s", note)
		}
		if resp := <-answer; resp.IsError() {
			t.Fatal(resp)
		}
		c.toldOutside()
	}
}
