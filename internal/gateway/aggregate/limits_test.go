package aggregate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/wire/subscription"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// plainMember answers requests by a function.
type plainMember struct {
	name string
	dragoman.Funcs
}

func (m *plainMember) Name() string                 { return m.name }
func (m *plainMember) Requests() dragoman.Peer      { return m }
func (m *plainMember) Prefix() *string              { return nil }
func (m *plainMember) OnChange(func(string)) func() { return func() {} }

func envelope(t *testing.T, method string, params any) *dragoman.Message {
	t.Helper()
	req, err := dragoman.NewRequest(dragoman.IntID(1), method, params)
	if err == nil {
		req, err = protocol.Envelope{Version: protocol.Latest.String()}.Put(req)
	}
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestWhatIsKnownOfCallersIsBounded(t *testing.T) {
	g := groupOf(false, "a_")
	g.views = make(map[string]*view)
	for i := range 3*MaxCallers + 1 {
		g.view(fmt.Sprint(i))
		if len(g.views) > MaxCallers {
			t.Fatalf("%d callers are known", len(g.views))
		}
	}
	v := g.view("x")
	for i := range 3*MaxLearned + 1 {
		uri := fmt.Sprint("x://", i)
		if v.learn(uri, g.members[0]); len(v.learned) > MaxLearned || v.recall(uri) == nil {
			t.Fatalf("%d resources are known", len(v.learned))
		}
	}
	size := func() (n int) {
		for uri := range v.learned {
			n += len(uri)
		}
		return n
	}
	for i := range 100 {
		uri := fmt.Sprint("x://", i) + strings.Repeat("x", 10<<10)
		v.learn(uri, g.members[0])
		if v.learn(uri, g.members[0]); size() > maxLearnedBytes || size() != v.learnedSize || v.recall(uri) == nil {
			t.Fatalf("%d resources are known, whose URIs have %d bytes", len(v.learned), size())
		}
	}
	if v.learn(strings.Repeat("x", maxLearnedBytes+1), g.members[0]); size() > maxLearnedBytes {
		t.Errorf("the URIs have %d bytes", size())
	}
}

func TestCallersWithTheSameOffersShareThem(t *testing.T) {
	g := newGroup([]*source{{Member: named{name: "a"}}}, false)
	for _, who := range []string{"ada", "bob"} {
		g.view(who).record(tools, g.members[0], []string{"x", "y"}, 0)
	}
	if g.view("ada").indexed(tools) != g.view("bob").indexed(tools) {
		t.Error("each has an index of its own")
	}
	g.view("bob").record(tools, g.members[0], []string{"x"}, 0)
	if a, b := g.view("ada").indexed(tools), g.view("bob").indexed(tools); len(a.byName) != 2 || len(b.byName) != 1 {
		t.Errorf("got %v and %v", a.byName, b.byName)
	}
}

func TestLongListsOfOneMemberAreCut(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	for _, test := range []struct {
		element func(i int) string
		want    int
	}{
		{func(i int) string { return fmt.Sprintf(`{"name":"t%d"}`, i) }, MaxElements},
		{func(i int) string { return fmt.Sprintf(`{"name":"t%d","description":"%s"}`, i, big) }, MaxBytes>>20 - 1},
	} {
		a := New(&Options{PerMember: time.Minute})
		m := &plainMember{name: "m"}
		n := 0
		m.OnCall = func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			var page []string
			for size := 0; len(page) < 200 && size < 1<<22; n++ {
				page = append(page, test.element(n))
				size += len(page[len(page)-1])
			}
			return req.Reply([]byte(fmt.Sprintf(`{"tools":[%s],"nextCursor":"%d"}`, strings.Join(page, ","), n)))
		}
		h, err := a.fetch(t.Context(), newGroup([]*source{{Member: m}}, false).members[0], tools, envelope(t, protocol.MethodListTools, nil))
		if err != nil || len(h.keys) != test.want {
			t.Errorf("%d elements, %v; want %d", len(h.keys), err, test.want)
		}
		_ = a.Close()
	}
}

func TestPagesAreBoundedAndForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p snapshots
		r := &request{Message: envelope(t, protocol.MethodListTools, nil)}
		element := []byte(`{"name":"` + strings.Repeat("x", 1<<20) + `"}`)
		open := func(n int) string {
			resp, err := p.first(r, &snapshot{kind: tools, elements: slices.Repeat([][]byte{element}, n), meta: []byte("{}")})
			if err != nil || resp.Len() > MaxPageBytes+len(element) {
				t.Fatalf("a page of %d bytes, %v", resp.Len(), err)
			}
			return string(resp.Get("nextCursor"))
		}
		works := func(cursor string) bool {
			resp, err := p.next(r, tools, "", []byte(cursor))
			return err == nil && !resp.IsError()
		}
		first := open(10)
		for range 2 {
			if !works(first) {
				t.Error("a cursor does not work, or only once")
			}
		}
		for range MaxSnapshotBytes / (10 << 20) {
			open(10)
		}
		if works(first) || p.size > MaxSnapshotBytes {
			t.Errorf("%d bytes are kept", p.size)
		}
		last := open(10)
		time.Sleep(SnapshotTime + time.Second)
		if works(last) {
			t.Error("a cursor works forever")
		}
		if open(10); len(p.all) != 1 {
			t.Errorf("%d snapshots are kept", len(p.all))
		}
		element = []byte(`{"name":"x"}`)
		for range MaxSnapshots + 10 {
			open(MaxPage + 1)
		}
		if len(p.all) != MaxSnapshots {
			t.Errorf("%d snapshots are kept", len(p.all))
		}
	})
}

func TestSubscriptionsAreBounded(t *testing.T) {
	a := New(nil)
	for range MaxListens {
		if !a.listens.Add(new(subscription.Listen), MaxListens) {
			t.Fatal("refused too early")
		}
	}
	resp, err := a.Call(t.Context(), envelope(t, protocol.MethodListen, map[string]any{"notifications": map[string]any{}}), dragoman.NoPeer)
	if err != nil || !resp.IsError() || resp.RPCError().Code != protocol.CodeOverloaded {
		t.Errorf("got %v, %v", resp, err)
	}
	_ = a.Close()
}

func TestLongTemplatesMatchNothing(t *testing.T) {
	if p := compile(strings.Repeat("x", maxTemplate+1)); p.matches(p.template) || p.mayMatch(p.template) {
		t.Error("it matches")
	}
}
