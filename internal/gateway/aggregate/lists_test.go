package aggregate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/aggregate"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestListsHoldWhatAllMembersHave(t *testing.T) {
	peertest.NoLeak(t)
	a := of(t, nil, fake("a", "x", "y"), fake("b", "x"))
	result := must(t, a, protocol.MethodListTools, nil)
	if got, want := texts(result, "tools", "name"), []string{"a_x", "a_y", "b_x"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if result["ttlMs"] != 1000.0 || result["cacheScope"] != "public" || result["resultType"] != "complete" || result["nextCursor"] != nil {
		t.Errorf("got %v", result)
	}
	if info := result["_meta"].(object)[protocol.MetaServerInfo]; info == nil {
		t.Error("no serverInfo")
	}
	// Members that do not know a method have nothing of the kind.
	if got := must(t, a, protocol.MethodListPrompts, nil); len(got["prompts"].([]any)) != 0 || got["_meta"].(object)["dragoman/missing"] != nil {
		t.Errorf("got %v", got)
	}
}

func TestS30_TheLeastTimeAndTheNarrowestScopeCount(t *testing.T) {
	a := of(t, nil,
		&server{name: "a", peer: answers(map[string]any{protocol.MethodListTools: `{"tools":[],"ttlMs":9000,"cacheScope":"public"}`})},
		&server{name: "b", peer: answers(map[string]any{protocol.MethodListTools: `{"tools":[],"ttlMs":7000,"cacheScope":"private","_meta":{"dragoman/cached":true}}`})})
	result := must(t, a, protocol.MethodListTools, nil)
	if result["ttlMs"] != 7000.0 || result["cacheScope"] != "private" || fmt.Sprint(result["_meta"].(object)["dragoman/cached"]) != "[b]" {
		t.Errorf("got %v", result)
	}
}

func TestPain25_ElementsPassByteForByte(t *testing.T) {
	const element = `{"title" : "T","name":"t","x-new":{"big":12345678901234567890,"e":1E5,"u":"\u00e4"},` +
		`"inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}},"outputSchema":{"type":"array"},` +
		`"annotations":{"readOnlyHint":true,"unknown":null},"_meta":{"k/v":[1 , 2]},"description":"d"}`
	s := &server{name: "a", peer: answers(map[string]any{protocol.MethodListTools: `{"tools":[ ` + element + ` ]}`})}
	resp := ask(t, of(t, nil, s), protocol.MethodListTools, nil)
	want := strings.Replace(element, `"name":"t"`, `"name":"a_t"`, 1)
	if !bytes.Contains(resp.Bytes(), []byte(want)) {
		t.Errorf("got  %s\nwant %s", resp.Bytes(), want)
	}
	s.prefix = new(string)
	if resp = ask(t, of(t, nil, s), protocol.MethodListTools, nil); !bytes.Contains(resp.Bytes(), []byte(element)) {
		t.Errorf("without a prefix: got %s", resp.Bytes())
	}
}

func TestNamesHaveTheConfiguredPrefix(t *testing.T) {
	prefix := "my."
	s := fake("a", "read", "put", "list.all")
	s.prefix = &prefix
	a := of(t, nil, s)
	if got, want := names(t, a), []string{"my_read", "my_put", "my_list_all"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for name, want := range map[string]string{"my_put": "a/put", "my_list_all": "a/list.all", "my_read": "a/read"} {
		if got := said(must(t, a, protocol.MethodCallTool, call(name, nil))); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"my_none", "a_read", "read", ""} {
		if e := refusal(t, a, protocol.MethodCallTool, call(name, nil)); e.Code != protocol.CodeInvalidParams {
			t.Errorf("%q: %v", name, e)
		}
	}
	if n := s.saw(protocol.MethodCallTool); n != 3 {
		t.Errorf("the server was asked %d times, want 3", n)
	}
}

func TestAnUnknownToolIsToldWithWhatMayBeMeant(t *testing.T) {
	a := of(t, nil, fake("github", "search", "commit"), fake("gitlab", "search"))
	for name, want := range map[string]string{
		"search":        `"github_search" or "gitlab_search"`,
		"github_serach": `"github_search"`,
	} {
		names(t, a)
		if e := refusal(t, a, protocol.MethodCallTool, call(name, nil)); !strings.Contains(e.Message, "unknown tool") || !strings.Contains(e.Message, want) {
			t.Errorf("%s: got %q", name, e.Message)
		}
	}
}

func TestPain22_TwoServersWithOnePrefixDoNotHideEachOther(t *testing.T) {
	x, y := fake("x", "same", "own"), fake("y", "same")
	x.prefix, y.prefix = new(string), new(string)
	got := names(t, of(t, nil, x, y))
	if len(got) != 3 || got[0] != "same" || !strings.HasPrefix(got[2], "same_") {
		t.Fatalf("got %q", got)
	}
	// Nor does it matter who answers first, or that only one is asked.
	slow := make(chan struct{})
	late := fake("x", "same", "own")
	late.prefix = x.prefix
	fast := late.peer
	late.peer = dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
		<-slow
		return fast.Call(ctx, req, from)
	}}
	a := of(t, nil, late, y)
	go close(slow) // at once
	if said := said(must(t, a, protocol.MethodCallTool, call(got[2], nil))); said != "y/same" {
		t.Errorf("%s: got %q", got[2], said)
	}
	if said := said(must(t, a, protocol.MethodCallTool, call("same", nil))); said != "x/same" {
		t.Errorf("same: got %q", said)
	}
}

func TestPlainNamesOfTheFirstMemberWin(t *testing.T) {
	a := of(t, &aggregate.Options{Plain: true}, fake("x", "same", "own"), fake("y", "same", "other"))
	if got, want := names(t, a), []string{"same", "own", "other"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := said(must(t, a, protocol.MethodCallTool, call("same", nil))); got != "x/same" {
		t.Errorf("got %q", got)
	}
}

// hanging is a peer that answers nothing.
var hanging = dragoman.Funcs{OnCall: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}}

func TestPain24_OneSlowServerDelaysAListByTheBoundAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deaf := make(chan struct{})
		a := aggregate.New(nil)
		defer a.Close()
		a.Set(list(fake("a", "x"), &server{name: "slow", peer: hanging},
			&server{name: "broken", peer: answers(map[string]any{protocol.MethodListTools: errors.New("broken")})},
			&server{name: "deaf", peer: dragoman.Funcs{OnCall: func(context.Context, *dragoman.Message, dragoman.Peer) (*dragoman.Message, error) {
				<-deaf // does not even hear that nobody waits any more
				return nil, dragoman.ErrClosed
			}}}, fake("b", "x")))
		defer close(deaf)
		began := time.Now()
		result := must(t, a, protocol.MethodListTools, nil)
		if d := time.Since(began); d != aggregate.DefaultPerMember {
			t.Errorf("it took %v", d)
		}
		if got, want := texts(result, "tools", "name"), []string{"a_x", "b_x"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := fmt.Sprint(result["_meta"].(object)["dragoman/missing"]); got != "[slow broken deaf]" {
			t.Errorf("missing: %s", got)
		}
		if result["ttlMs"] != 0.0 || result["cacheScope"] != "private" {
			t.Errorf("a list that lacks something may be kept: %v", result)
		}
	})
}

func TestPain24_ACallDoesNotWaitForTheListOfAnotherServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := of(t, nil, &server{name: "slow", peer: hanging}, fake("a", "x"))
		began := time.Now()
		if got := said(must(t, a, protocol.MethodCallTool, call("a_x", nil))); got != "a/x" || time.Since(began) != 0 {
			t.Errorf("got %q after %v", got, time.Since(began))
		}
	})
}

// While a server says nothing of its tools, a call of one still reaches it, and the
// server says what it says.
func TestACallReachesAServerWhoseListIsNotToBeHad(t *testing.T) {
	s := &server{name: "a", peer: answers(map[string]any{
		protocol.MethodListTools: &dragoman.Error{Code: protocol.CodeUnavailable, Message: "down"},
		protocol.MethodCallTool:  func(req *dragoman.Message) any { return object{"content": []object{{"text": req.Name()}}} },
	})}
	a := of(t, nil, s)
	if got := said(must(t, a, protocol.MethodCallTool, call("a_x", nil))); got != "x" {
		t.Errorf("got %q, want x", got)
	}
	if e := refusal(t, a, protocol.MethodCallTool, call("a_", nil)); e.Code != protocol.CodeUnavailable {
		t.Errorf("a name of nothing: got %v", e)
	}
	if e := refusal(t, a, protocol.MethodCallTool, call("b_x", nil)); e.Code != protocol.CodeInvalidParams {
		t.Errorf("got %v", e)
	}
}

func TestAllPagesOfAllMembersAreMerged(t *testing.T) {
	a := of(t, nil, real(t, "old", protocol.Legacy, builtin.Options{PageSize: 7, Numbered: 50}),
		real(t, "new", protocol.Modern, builtin.Options{PageSize: 3}))
	result := must(t, a, protocol.MethodListTools, nil)
	got := texts(result, "tools", "name")
	one := names(t, of(t, nil, real(t, "old", protocol.Legacy, builtin.Options{PageSize: -1})))
	if len(got) != 2*len(one) || result["nextCursor"] != nil || !slices.Equal(got[:len(one)], one) {
		t.Errorf("%d tools, want twice %d", len(got), len(one))
	}
	if uris := texts(must(t, a, protocol.MethodListResources, nil), "resources", "uri"); len(uris) != 54 {
		t.Errorf("%d resources, want those of old, which new has too, and 50", len(uris))
	}
}

func TestALongListHasPagesOfOneSnapshot(t *testing.T) {
	var all []string
	for i := range 2*aggregate.MaxPage + 10 {
		all = append(all, fmt.Sprintf("t%d", i))
	}
	s := fake("a", all...)
	a := of(t, nil, s)
	result := must(t, a, protocol.MethodListTools, nil)
	got := texts(result, "tools", "name")
	first := result["nextCursor"]
	a.Set(list(fake("b", "other"))) // the rest is of the list as it was
	for result["nextCursor"] != nil {
		result = must(t, a, protocol.MethodListTools, object{"cursor": result["nextCursor"]})
		got = append(got, texts(result, "tools", "name")...)
	}
	if len(got) != len(all) || got[len(got)-1] != "a_"+all[len(all)-1] {
		t.Errorf("%d tools, want %d", len(got), len(all))
	}
	for _, cursor := range []any{"nonsense", 7, first.(string) + "9", "." + strings.TrimLeft(first.(string), "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567.")} {
		if e := refusal(t, a, protocol.MethodListTools, object{"cursor": cursor}); e.Code != protocol.CodeInvalidParams {
			t.Errorf("%v: got %v", cursor, e)
		}
	}
	// A cursor is good for who was given it, in the list that gave it.
	if e := refusal(t, a, protocol.MethodListPrompts, object{"cursor": first}); e.Code != protocol.CodeInvalidParams {
		t.Errorf("another list: got %v", e)
	}
	resp, err := a.Call(dragoman.WithCaller(t.Context(), &dragoman.Caller{Principal: "eve"}), request(t, protocol.MethodListTools, nil, object{"cursor": first}), nil)
	if err != nil || !resp.IsError() {
		t.Errorf("another caller: got %v, %v", resp, err)
	}
}

func TestListsThatNeverEndAreCut(t *testing.T) {
	n := 0
	a := of(t, nil, fake("a", "x"),
		&server{name: "loop", peer: answers(map[string]any{protocol.MethodListTools: `{"tools":[{"name":"y"}],"nextCursor":"again"}`})},
		&server{name: "many", peer: answers(map[string]any{protocol.MethodListTools: func(*dragoman.Message) any {
			n++
			return object{"tools": []object{{"name": fmt.Sprint("t", n)}}, "nextCursor": fmt.Sprint(n)}
		}})})
	result := must(t, a, protocol.MethodListTools, nil)
	if missing := result["_meta"].(object)["dragoman/missing"]; missing != nil || n != protocol.MaxPages {
		t.Errorf("missing %v after %d pages", missing, n)
	}
	if got := texts(result, "tools", "name"); len(got) != aggregate.MaxPage || !slices.Equal(got[:3], []string{"a_x", "loop_y", "many_t1"}) {
		t.Errorf("%d tools: %q", len(got), got[:min(len(got), 3)])
	}
}

func TestS30_CallersAreOfferedWhatIsTheirs(t *testing.T) {
	s := &server{name: "a", peer: dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		who := dragoman.CallerOf(ctx).Principal
		if req.Method() == protocol.MethodListTools {
			return req.Reply(object{"tools": []object{{"name": "secret-of-" + who}}})
		}
		return req.Reply(object{"content": []object{{"text": who + " calls " + req.Name()}}})
	}}}
	a := of(t, nil, s)
	for _, who := range []string{"ada", "bob"} {
		ctx := dragoman.WithCaller(t.Context(), &dragoman.Caller{Principal: who})
		resp, err := a.Call(ctx, request(t, protocol.MethodCallTool, nil, call("a_secret-of-"+who, nil)), nil)
		if err != nil || said(decoded(t, resp)) != who+" calls secret-of-"+who {
			t.Errorf("%s: %v, %v", who, resp, err)
		}
	}
	resp, err := a.Call(dragoman.WithCaller(t.Context(), &dragoman.Caller{Principal: "bob"}), request(t, protocol.MethodCallTool, nil, call("a_secret-of-bda", nil)), nil)
	if err != nil || !resp.IsError() || strings.Contains(resp.RPCError().Message, "ada") {
		t.Errorf("bob learns what ada has: %v, %v", resp, err)
	}
}

// A server may have a session for each of ours, in which a tool makes others appear.
func TestSessionsOfOneCallerAreOfferedWhatIsTheirs(t *testing.T) {
	s := &server{name: "a", peer: dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
		if req.Method() == protocol.MethodListTools {
			return req.Reply(object{"tools": []object{{"name": "of-" + dragoman.CallerOf(ctx).Session}}})
		}
		return req.Reply(object{"content": []object{{"text": req.Name()}}})
	}}}
	a := of(t, nil, s)
	for range 2 {
		for _, session := range []string{"1", "2"} {
			ctx := dragoman.WithCaller(t.Context(), &dragoman.Caller{Principal: "ada", Session: session})
			resp, err := a.Call(ctx, request(t, protocol.MethodCallTool, nil, call("a_of-"+session, nil)), nil)
			if err != nil || resp.IsError() || said(decoded(t, resp)) != "of-"+session {
				t.Errorf("session %s: %v, %v", session, resp, err)
			}
		}
	}
}
