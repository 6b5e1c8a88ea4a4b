package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/gateway/catalog"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/gateway/store"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// listed asks for a list.
func listed(t *testing.T, u *Upstream, method string) *dragoman.Message {
	t.Helper()
	resp, err := ask(t.Context(), u.Service().Requests(), method, `{}`)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

func isCached(resp *dragoman.Message) bool { return string(resp.Meta(catalog.MetaCached)) == "true" }

func TestListsOfALegacyServerComeFromTheCacheForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{acceptor: builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.LatestLegacy}, PageSize: 3})}
		u := one(t, f, nil)
		synctest.Wait()
		fetched := f.saw(protocol.MethodListTools)
		if fetched < 2 {
			t.Fatalf("%d pages were fetched, want several", fetched)
		}
		resp := listed(t, u, protocol.MethodListTools)
		if isCached(resp) || resp.Get("nextCursor") != nil {
			t.Errorf("the list of a server that is there is marked, or has a next page: %.200s", resp.Bytes())
		}
		all, err := dragoman.Elements(resp.Get("tools"))
		if err != nil || len(all) < 10 || len(all) != u.Status().Tools {
			t.Errorf("%d tools, status %+v, %v", len(all), u.Status(), err)
		}
		if n := f.saw(protocol.MethodListTools); n != fetched {
			t.Errorf("the server was asked %d times more", n-fetched)
		}
		time.Sleep(catalog.Age + time.Second)
		listed(t, u, protocol.MethodListTools)
		synctest.Wait()
		if n := f.saw(protocol.MethodListTools); n <= fetched {
			t.Error("the list was taken for current forever")
		}
	})
}

// tagged is a modern server with one tool, whose list is what the test says.
func tagged(tags *atomic.Pointer[string], lists *atomic.Int32) dragoman.Acceptor {
	return dragoman.AcceptFunc(func(context.Context, dragoman.Conn) (dragoman.Peer, error) {
		return dragoman.Funcs{OnCall: func(_ context.Context, req *dragoman.Message, _ dragoman.Peer) (*dragoman.Message, error) {
			switch req.Method() {
			case protocol.MethodDiscover:
				return req.Reply(json.RawMessage(fmt.Sprintf(
					`{"resultType":"complete","supportedVersions":[%q],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`, protocol.Latest)))
			case protocol.MethodListTools:
				lists.Add(1)
				return req.Reply(json.RawMessage(fmt.Sprintf(`{"resultType":"complete","tools":[{"name":"a" , "n":12345678901234567890,"x":"<é>"}],%s}`, *tags.Load())))
			}
			return req.Fail(&dragoman.Error{Code: protocol.CodeMethodNotFound, Message: "no"}), nil
		}}, nil
	})
}

func TestListsOfAModernServerComeFromTheCacheIfItSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			tags  atomic.Pointer[string]
			asked atomic.Int32
		)
		say := func(s string) { tags.Store(&s) }
		say(`"ttlMs":60000,"cacheScope":"public"`)
		u := one(t, &fake{acceptor: tagged(&tags, &asked)}, urlOf(config.Server{Health: config.Health{Interval: -1}}))
		synctest.Wait()
		time.Sleep(10 * time.Second)
		resp := listed(t, u, protocol.MethodListTools)
		if n := asked.Load(); n != 1 {
			t.Errorf("a public list was asked for %d times, want once", n)
		}
		if got := string(resp.Get("ttlMs")); got != "50000" {
			t.Errorf("ttlMs is %s after ten seconds of sixty", got)
		}
		if !strings.Contains(resp.String(), `{"name":"a" , "n":12345678901234567890,"x":"<é>"}`) {
			t.Errorf("the tool is not as it came: %s", resp)
		}
		say(`"ttlMs":60000,"cacheScope":"private"`)
		time.Sleep(time.Minute)
		listed(t, u, protocol.MethodListTools) // has it fetched
		synctest.Wait()
		before := asked.Load()
		for _, caller := range []string{"a", "b"} {
			for range 3 {
				ctx := dragoman.WithCaller(t.Context(), &dragoman.Caller{Principal: caller})
				if resp, err := ask(ctx, u.Service().Requests(), protocol.MethodListTools, `{}`); codeOf(resp, err) != 0 {
					t.Fatal(resp, err)
				}
			}
		}
		if n := asked.Load() - before; n != 2 {
			t.Errorf("a private list was asked for %d times, want once for each caller", n)
		}
		time.Sleep(time.Minute)
		ctx := dragoman.WithCaller(t.Context(), &dragoman.Caller{Principal: "a"})
		if _, err := ask(ctx, u.Service().Requests(), protocol.MethodListTools, `{}`); err != nil || asked.Load()-before != 3 {
			t.Errorf("a private list that is no longer valid was asked for %d times, want again: %v", asked.Load()-before, err)
		}
	})
}

func TestListThatCouldNotBeHadIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			works atomic.Bool
			asked atomic.Int32
			tags  atomic.Pointer[string]
		)
		tags.Store(new(`"ttlMs":60000,"cacheScope":"public"`))
		server := tagged(&tags, &asked)
		u := one(t, &fake{acceptor: dragoman.AcceptFunc(func(ctx context.Context, c dragoman.Conn) (dragoman.Peer, error) {
			peer, err := server.Accept(ctx, c)
			return dragoman.Funcs{OnCall: func(ctx context.Context, req *dragoman.Message, from dragoman.Peer) (*dragoman.Message, error) {
				if req.Method() == protocol.MethodListTools && !works.Load() {
					asked.Add(1)
					return req.Fail(&dragoman.Error{Code: protocol.CodeInternal, Message: "not yet"}), nil
				}
				return peer.Call(ctx, req, from)
			}}, err
		})}, urlOf(config.Server{Health: config.Health{Interval: -1}}))
		synctest.Wait()
		list := func() (code int) {
			resp := listed(t, u, protocol.MethodListTools)
			synctest.Wait()
			if e := resp.RPCError(); e != nil {
				code = e.Code
			}
			return code
		}
		for range 3 {
			if code := list(); code != protocol.CodeInternal {
				t.Errorf("a list that could not be had: %d", code)
			}
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("the server was asked %d times at once", n)
		}
		works.Store(true)
		time.Sleep(catalog.Retry)
		list() // has it asked again
		if code := list(); code != 0 {
			t.Errorf("the list fails with %d although the server has it now", code)
		}
	})
}

func TestChangedListIsFetchedAndTold(t *testing.T) {
	for name, f := range map[string]*fake{"legacy": legacyServer(), "modern": modernServer()} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				u := one(t, f, &config.Server{Isolation: "shared"})
				received := make(chan string, 100)
				defer u.Service().OnChange(func(note string) { received <- note })()
				synctest.Wait()
				before := u.Status().Tools
				if resp, err := call(t.Context(), u.Service().Requests(), "test_trigger_tool_change", `{}`); codeOf(resp, err) != 0 {
					t.Fatal(resp, err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if got := u.Status().Tools; got != before+1 {
					t.Errorf("%d tools are known, want %d", got, before+1)
				}
				select {
				case note := <-received:
					if note != protocol.NoteToolsChanged {
						t.Errorf("told %q", note)
					}
				default:
					t.Error("nobody was told")
				}
				if resp := listed(t, u, protocol.MethodListTools); !strings.Contains(resp.String(), "test_added_tool") {
					t.Error("the list is an old one")
				}
			})
		})
	}
}

func TestD20_LastKnownListIsServedWhileTheServerIsAwayAlsoByAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := store.NewMemory(nil)
		f := legacyServer()
		conf := []*config.Server{{Name: "s", Command: "memory"}}
		m := manage(t, &Options{Store: store}, map[string]*fake{"s": f})
		m.Apply(conf)
		synctest.Wait()
		want := string(listed(t, m.Upstream("s"), protocol.MethodListTools).Get("tools"))
		f.set(errAway)
		f.crash()
		time.Sleep(time.Minute)
		resp := listed(t, m.Upstream("s"), protocol.MethodListTools)
		if !isCached(resp) || string(resp.Get("ttlMs")) != "0" || string(resp.Get("tools")) != want {
			t.Errorf("while it is away: %.300s", resp.Bytes())
		}
		if err := m.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}

		m = manage(t, &Options{Store: store}, map[string]*fake{"s": f})
		m.Apply(conf)
		began := time.Now()
		resp = listed(t, m.Upstream("s"), protocol.MethodListTools)
		if !isCached(resp) || string(resp.Get("tools")) != want || time.Since(began) > 0 {
			t.Errorf("another process, after %v: %.300s", time.Since(began), resp.Bytes())
		}
		if s := m.Upstream("s").Status(); !s.Cached || s.Tools == 0 {
			t.Errorf("status: %+v", s)
		}
		if resp := listed(t, m.Upstream("s"), protocol.MethodDiscover); !isCached(resp) || resp.Get("capabilities") == nil {
			t.Errorf("discover: %s", resp)
		}
	})
}

func TestD20_Pain24_ListOfAServerThatStartsSlowlyWaitsTwoSecondsAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, good := modernServer(), modernServer()
		slow.setMute(true)
		m := manage(t, nil, map[string]*fake{"slow": slow, "good": good})
		m.Apply([]*config.Server{{Name: "slow", Command: "memory"}, {Name: "good", Command: "memory"}})
		synctest.Wait()
		if got := m.Upstream("good").State(); got != Ready {
			t.Errorf("a server that hangs delays another, which is %q", got)
		}
		if got := m.Upstream("slow").State(); got != Starting {
			t.Errorf("the slow one is %q", got)
		}
		began := time.Now()
		resp, err := ask(t.Context(), m.Upstream("slow").Service().Requests(), protocol.MethodListTools, `{}`)
		refused(t, protocol.CodeUnavailable, resp, err)
		if took := time.Since(began); took != MaxListWait {
			t.Errorf("it took %v, want %v", took, MaxListWait)
		}
		began = time.Now()
		resp, err = ask(t.Context(), m.Upstream("slow").Service().Requests(), protocol.MethodListTools, `{}`)
		refused(t, protocol.CodeUnavailable, resp, err)
		if took := time.Since(began); took != 0 {
			t.Errorf("the next one waits %v for the same start", took)
		}
	})
}

func TestS30_SessionsWithListsOfTheirOwnAreNotServedFromTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// Each conversation has a server of its own, as with processes.
		f := &fake{acceptor: dragoman.AcceptFunc(func(ctx context.Context, c dragoman.Conn) (dragoman.Peer, error) {
			return builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.LatestLegacy}}).Accept(ctx, c)
		})}
		u := one(t, f, nil)
		synctest.Wait()
		ctx := dragoman.WithCaller(t.Context(), &dragoman.Caller{Address: "alice"})
		if resp, err := call(ctx, u.Service().Requests(), "test_trigger_tool_change", `{}`); codeOf(resp, err) != 0 {
			t.Fatal(resp, err)
		}
		time.Sleep(time.Second)
		for range 2 {
			resp, err := ask(ctx, u.Service().Requests(), protocol.MethodListTools, `{}`)
			if err != nil || !strings.Contains(resp.String(), "test_added_tool") {
				t.Fatalf("the session's own list lacks its new tool: %v", err)
			}
			time.Sleep(time.Second)
		}
	})
}
