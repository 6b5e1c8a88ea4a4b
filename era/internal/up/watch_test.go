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
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
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

// ack acknowledges the listen, without some resources.
func (p *part) ack(without ...string) {
	w := p.want
	w.ResourceSubscriptions = slices.DeleteFunc(slices.Clone(w.ResourceSubscriptions), func(uri string) bool { return slices.Contains(without, uri) })
	p.tell(protocol.NoteAcknowledged, map[string]any{"notifications": w})
}

func (p *part) updated(uri string) {
	p.tell(protocol.NoteResourceUpdated, map[string]any{"uri": uri})
}

func (p *part) toolsChanged() { p.tell(protocol.NoteToolsChanged, map[string]any{}) }

func isGone(p *part) bool {
	select {
	case <-p.gone:
		return true
	default:
		return false
	}
}

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

// later runs a request of the client while the test goes on.
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

func TestListenIsReplacedWithoutLossOrDoubling(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := staged()
		s := serve(t, g, nil)
		c := connect(t, s, protocol.V20250618)
		first := <-g.opened
		if !first.want.ToolsListChanged || first.want.PromptsListChanged || first.want.ResourceSubscriptions != nil {
			t.Errorf("the first listen wants %+v", first.want)
		}
		first.ack()
		first.toolsChanged()
		synctest.Wait()
		if got := c.toldOutside(); got != "tools/list_changed" {
			t.Errorf("told %q", got)
		}

		answer := c.later(fmt.Sprintf(subscribe, "x:a"))
		second := <-g.opened
		if !second.want.ToolsListChanged || !slices.Equal(second.want.ResourceSubscriptions, []string{"x:a"}) {
			t.Errorf("the second listen wants %+v", second.want)
		}
		first.toolsChanged() // before the new one is there
		synctest.Wait()
		if len(answer) != 0 || isGone(first) {
			t.Fatal("the server has not acknowledged the new listen yet")
		}
		second.ack()
		if resp := <-answer; resp.IsError() {
			t.Fatal(resp)
		}
		first.toolsChanged() // on both
		second.toolsChanged()
		second.updated("x:a")
		<-first.gone
		second.toolsChanged() // the copy of one that the old listen told
		time.Sleep(time.Second)
		if got := c.toldOutside(); got != "resources/updatedx:a tools/list_changed" {
			t.Errorf("told %q", got)
		}
		second.toolsChanged()
		second.toolsChanged()
		synctest.Wait()
		if got := c.toldOutside(); got != "tools/list_changed tools/list_changed" {
			t.Errorf("two changes were told as %q", got)
		}

		// Many that wait are one listen: while the first of them is on its way, the
		// others gather.
		answers := []chan *dragoman.Message{c.later(fmt.Sprintf(subscribe, "x:b"))}
		third := <-g.opened
		for _, uri := range []string{"x:c", "x:d"} {
			answers = append(answers, c.later(fmt.Sprintf(subscribe, uri)))
		}
		synctest.Wait()
		third.ack()
		third = <-g.opened
		if want := []string{"x:a", "x:b", "x:c", "x:d"}; !slices.Equal(third.want.ResourceSubscriptions, want) {
			t.Errorf("the last listen wants %+v", third.want)
		}
		third.ack("x:c")
		for i, want := range []int{0, protocol.CodeInvalidParams, 0} {
			resp := <-answers[i]
			if e := resp.RPCError(); want == 0 && e != nil || want != 0 && (e == nil || e.Code != want) {
				t.Errorf("answer %d is %s", i, resp)
			}
		}
		time.Sleep(time.Second)
		c.conn.Close()
		<-third.gone
	})
}

func TestRefusedSubscriptionLeavesTheOthersAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := staged()
		c := connect(t, serve(t, g, nil), protocol.V20250618)
		first := <-g.opened
		first.ack()
		synctest.Wait()
		answer := c.later(fmt.Sprintf(subscribe, "x:no"))
		second := <-g.opened
		second.ack("x:no")
		first.toolsChanged()
		second.toolsChanged()
		if e := (<-answer).RPCError(); e == nil || e.Code != protocol.CodeInvalidParams {
			t.Errorf("got %v", e)
		}
		<-second.gone
		time.Sleep(time.Second)
		if isGone(first) {
			t.Error("the listen that works was ended")
		}
		if got := c.toldOutside(); got != "tools/list_changed" {
			t.Errorf("told %q", got)
		}

		// A server that refuses all of it, and one that never acknowledges.
		answer = c.later(fmt.Sprintf(subscribe, "x:bad"))
		third := <-g.opened
		third.close <- &dragoman.Error{Code: protocol.CodeInvalidParams, Message: "no such thing"}
		if e := (<-answer).RPCError(); e == nil || e.Code != protocol.CodeInvalidParams {
			t.Errorf("got %v", e)
		}
		answer = c.later(fmt.Sprintf(subscribe, "x:slow"))
		fourth := <-g.opened
		start := time.Now()
		first.toolsChanged()
		time.Sleep(1100 * time.Millisecond)
		if got := c.toldOutside(); got != "tools/list_changed" {
			t.Errorf("a server that does not acknowledge keeps back %q", got)
		}
		if e := (<-answer).RPCError(); e == nil || e.Code != protocol.CodeTimeout || time.Since(start) != subscription.AckTimeout {
			t.Errorf("after %v: %v", time.Since(start), e)
		}
		<-fourth.gone
		first.toolsChanged()
		synctest.Wait()
		if got := c.toldOutside(); got != "tools/list_changed" || isGone(first) {
			t.Errorf("told %q", got)
		}
	})
}

func TestUnsubscribeIsObeyedAtOnceAndShrinksTheListen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := staged()
		g.caps = `{"resources":{"subscribe":true}}` // so no listen without a subscription
		c := connect(t, serve(t, g, nil), protocol.V20250618)
		synctest.Wait()
		if len(g.opened) != 0 {
			t.Error("a listen for nothing")
		}
		var p *part
		for _, uri := range []string{"x:a", "x:b"} {
			answer := c.later(fmt.Sprintf(subscribe, uri))
			p = <-g.opened
			p.ack()
			<-answer
			time.Sleep(time.Second)
		}
		c.must(fmt.Sprintf(unsubscribe, "x:a"))
		p.updated("x:a")
		p.updated("x:b")
		p.updated("x:b/sub")
		next := <-g.opened
		if !slices.Equal(next.want.ResourceSubscriptions, []string{"x:b"}) {
			t.Errorf("the smaller listen wants %+v", next.want)
		}
		next.ack()
		<-p.gone
		time.Sleep(time.Second)
		if got := c.toldOutside(); got != "resources/updatedx:b resources/updatedx:b/sub" {
			t.Errorf("told %q", got)
		}
		// Back again, it is heard again.
		answer := c.later(fmt.Sprintf(subscribe, "x:a"))
		p = <-g.opened
		p.ack()
		<-answer
		time.Sleep(time.Second)
		p.updated("x:a")
		synctest.Wait()
		if got := c.toldOutside(); got != "resources/updatedx:a" {
			t.Errorf("told %q", got)
		}
		c.must(fmt.Sprintf(unsubscribe, "x:a"))
		(<-g.opened).ack()
		time.Sleep(time.Second)
		c.must(fmt.Sprintf(unsubscribe, "x:b"))
		time.Sleep(time.Second)
		if len(g.opened) != 0 {
			t.Errorf("a listen for nothing: %+v", (<-g.opened).want)
		}
	})
}

func TestLostListenIsOpenedAgainAndTheClientReminded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{"broken": dragoman.Closed(errors.New("cut")), "ended by the server": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := staged()
				c := connect(t, serve(t, g, nil), protocol.V20250618)
				(<-g.opened).ack()
				synctest.Wait()
				answer := c.later(fmt.Sprintf(subscribe, "x:a"))
				p := <-g.opened
				p.ack()
				<-answer
				time.Sleep(time.Second)
				p.close <- end
				// Eight fail at once, then one is acknowledged.
				at := time.Now()
				for i, want := range []time.Duration{250, 500, 1000, 2000, 4000, 8000, 10000, 10000} {
					want *= time.Millisecond
					p = <-g.opened
					if took := time.Since(at); took > want || took < want*3/4 {
						t.Errorf("try %d comes after %v, want %v", i, took, want)
					}
					at = time.Now()
					p.close <- errors.New("still away")
				}
				p = <-g.opened
				if got := c.toldOutside(); got != "" {
					t.Errorf("told %q while nobody knows", got)
				}
				p.ack()
				synctest.Wait()
				if got := c.toldOutside(); got != "resources/updatedx:a tools/list_changed" {
					t.Errorf("reminded of %q", got)
				}
				p.updated("x:a")
				synctest.Wait()
				if got := c.toldOutside(); got != "resources/updatedx:a" {
					t.Errorf("told %q", got)
				}
				// After a while in peace it begins anew.
				time.Sleep(time.Minute)
				at = time.Now()
				p.close <- end
				p = <-g.opened
				if took := time.Since(at); took > 250*time.Millisecond {
					t.Errorf("after a minute in peace it took %v", took)
				}
				p.ack()
			})
		})
	}
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

func TestServerWithNothingToTellIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]error{
		"acknowledges nothing": nil,
		"does not know it":     &dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "what"},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := staged()
			connect(t, serve(t, g, nil), protocol.V20250618)
			p := <-g.opened
			if end == nil {
				p.want = wanted{}
				p.ack()
			}
			p.close <- end
			time.Sleep(time.Hour)
			if len(g.opened) != 0 {
				t.Errorf("a server that %s is asked again", name)
			}
		})
	}
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

func TestBytesOfSubscriptionsAreBounded(t *testing.T) {
	t.Parallel()
	link := &acknowledging{script: scripted(nil)}
	link.caps = `{"resources":{"subscribe":true}}`
	c := connect(t, serve(t, link, nil), protocol.V20250618)
	long := strings.Repeat("x", 100<<10)
	for _, uri := range []string{"a:" + long, "b:" + long, "b:" + long} {
		c.must(fmt.Sprintf(subscribe, uri))
	}
	c.fails(fmt.Sprintf(subscribe, "c:"+long), protocol.CodeOverloaded)
	c.must(fmt.Sprintf(subscribe, "d:"))
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
