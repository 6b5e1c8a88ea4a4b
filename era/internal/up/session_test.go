package up_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/era/internal/up"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

func TestHandshakeIsAnsweredOutOfDiscover(t *testing.T) {
	t.Parallel()
	s := serve(t, modern(t).Requests(), nil)
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18", "2025-11-25": "2025-11-25",
		"2026-07-28": "2025-11-25", "2031-01-01": "2025-11-25",
	} {
		resp := dial(t, s).must(fmt.Sprintf(initialize, asked))
		var result struct {
			ProtocolVersion string
			Capabilities    map[string]json.RawMessage
			ServerInfo      struct{ Name, Version string }
			Instructions    string
		}
		if err := resp.Decode(&result); err != nil {
			t.Fatal(err)
		}
		if result.ProtocolVersion != want || result.ServerInfo.Name != "dragoman-everything" || result.Instructions == "" {
			t.Errorf("%s: %s", asked, resp)
		}
		for _, name := range []string{"tools", "resources", "prompts", "logging"} {
			if result.Capabilities[name] == nil {
				t.Errorf("%s: no %s in %s", asked, name, resp)
			}
		}
	}
}

func TestServerThatDoesNotSayWhoItIsGetsOurName(t *testing.T) {
	t.Parallel()
	link := scripted(nil)
	resp := dial(t, serve(t, link, &up.Options{Name: "bridge", Version: "7"})).must(fmt.Sprintf(initialize, "2025-06-18"))
	if got := string(resp.Get("serverInfo")); got != `{"name":"bridge","version":"7"}` {
		t.Errorf("serverInfo is %s", got)
	}
	if resp.Get("instructions") != nil {
		t.Errorf("instructions out of nowhere: %s", resp)
	}
	var caps map[string]json.RawMessage
	_ = json.Unmarshal(resp.Get("capabilities"), &caps)
	if caps["extensions"] != nil || caps["tasks"] != nil || caps["resources"] == nil {
		t.Errorf("capabilities are %s", resp.Get("capabilities"))
	}
}

func TestDiscoverIsAskedOnceForAllAndAgainWhenItIsOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		link := scripted(nil)
		link.rest = `"ttlMs":60000`
		link.handlers = map[string]handler{protocol.MethodDiscover: func(ctx context.Context, req *dragoman.Message, _ dragoman.Peer) (string, error) {
			time.Sleep(time.Second) // long enough for all to ask
			return `{"supportedVersions":["2026-07-28"],"capabilities":{},"ttlMs":60000}`, nil
		}}
		s := serve(t, link, nil)
		var wg sync.WaitGroup
		for range 20 {
			c := dial(t, s)
			wg.Go(func() { c.must(fmt.Sprintf(initialize, "2025-06-18")) })
		}
		wg.Wait()
		time.Sleep(58 * time.Second)
		dial(t, s).must(fmt.Sprintf(initialize, "2025-06-18"))
		if n := len(link.requests(protocol.MethodDiscover)); n != 1 {
			t.Errorf("discover was asked %d times, want once", n)
		}
		time.Sleep(2 * time.Second)
		dial(t, s).must(fmt.Sprintf(initialize, "2025-06-18"))
		if n := len(link.requests(protocol.MethodDiscover)); n != 2 {
			t.Errorf("discover was asked %d times, want twice", n)
		}
	})
}

func TestOneWhoLeavesDuringDiscoverDoesNotEndItForOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		link := scripted(map[string]handler{protocol.MethodDiscover: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (string, error) {
			select {
			case <-ctx.Done():
				return "", context.Cause(ctx)
			case <-time.After(time.Second):
				return `{"supportedVersions":["2026-07-28"],"capabilities":{}}`, nil
			}
		}})
		s := serve(t, link, nil)
		first, second := dial(t, s), dial(t, s)
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error, 1)
		go func() {
			_, err := first.conn.Call(ctx, parse(t, fmt.Sprintf(initialize, "2025-06-18")), nil)
			gone <- err
		}()
		synctest.Wait()
		go func() {
			time.Sleep(time.Millisecond)
			cancel()
		}()
		second.must(fmt.Sprintf(initialize, "2025-06-18"))
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("the first got %v", err)
		}
	})
}

func TestHandshakeWithoutAServerFailsAndCanBeTriedAgain(t *testing.T) {
	t.Parallel()
	link := scripted(map[string]handler{protocol.MethodDiscover: func(context.Context, *dragoman.Message, dragoman.Peer) (string, error) {
		return "", dragoman.Closed(errors.New("nobody there"))
	}})
	c := dial(t, serve(t, link, nil))
	wants(t, c.fails(fmt.Sprintf(initialize, "2025-06-18"), protocol.CodeInternal).Message, "nobody there")
	link.mu.Lock()
	link.handlers = nil
	link.mu.Unlock()
	c.must(fmt.Sprintf(initialize, "2025-06-18"))
}

func TestServerThatNeverAnswersDiscoverIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		link := scripted(map[string]handler{protocol.MethodDiscover: func(ctx context.Context, _ *dragoman.Message, _ dragoman.Peer) (string, error) {
			<-ctx.Done()
			return "", context.Cause(ctx)
		}})
		start := time.Now()
		dial(t, serve(t, link, nil)).fails(fmt.Sprintf(initialize, "2025-06-18"), protocol.CodeInternal)
		if took := time.Since(start); took != up.DiscoverTimeout {
			t.Errorf("given up after %v", took)
		}
	})
}

func TestServerWithoutACommonRevisionIsNamedAsSuch(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]handler{
		"by its result": inTurn(`{"supportedVersions":["2025-11-25","2031-01-01"],"capabilities":{}}`),
		"by its error": func(context.Context, *dragoman.Message, dragoman.Peer) (string, error) {
			return "", &dragoman.Error{Code: protocol.CodeUnsupported, Message: "no", Data: json.RawMessage(`{"supported":["2031-01-01"],"requested":"2026-07-28"}`)}
		},
		"by an error that loops": func(context.Context, *dragoman.Message, dragoman.Peer) (string, error) {
			return "", &dragoman.Error{Code: protocol.CodeUnsupported, Message: "no", Data: json.RawMessage(`{"supported":["2026-07-28","2031-01-01"]}`)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := dial(t, serve(t, scripted(map[string]handler{protocol.MethodDiscover: h}), nil)).fails(fmt.Sprintf(initialize, "2025-06-18"), protocol.CodeInvalidParams)
			wants(t, e.Message, "Unsupported protocol version")
			wants(t, string(e.Data), "2031-01-01")
			wants(t, string(e.Data), `"requested":"2025-06-18"`)
		})
	}
	old := builtin.New(&builtin.Options{Revisions: legacy})
	link, err := dragoman.Local(old).Dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	dial(t, serve(t, link, nil)).fails(fmt.Sprintf(initialize, "2025-06-18"), protocol.CodeInternal)
}

func TestOrderOfTheHandshakeIsKept(t *testing.T) {
	t.Parallel()
	c := dial(t, serve(t, modern(t).Requests(), nil))
	c.must(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	for _, method := range []string{"tools/list", "logging/setLevel", "resources/subscribe", "vendor/x"} {
		c.fails(`{"jsonrpc":"2.0","id":1,"method":"`+method+`"}`, protocol.CodeInvalidRequest)
	}
	c.tell(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	c.fails(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, protocol.CodeInvalidParams)
	c.fails(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":[]}}`, protocol.CodeInvalidParams)
	c.must(fmt.Sprintf(initialize, "2025-06-18"))
	c.must(`{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	c.fails(fmt.Sprintf(initialize, "2025-06-18"), protocol.CodeInvalidRequest)
}

func TestEveryRequestCarriesTheSessionInItsEnvelope(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rev  protocol.Revision
		caps string // as the server is told
	}{
		{protocol.V20241105, `{"roots":{},"sampling":{},"experimental":{"x":1},"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{protocol.V20250326, `{"roots":{},"sampling":{},"experimental":{"x":1},"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{protocol.V20250618, `{"roots":{},"sampling":{},"elicitation":{},"experimental":{"x":1},"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
		{protocol.V20251125, `{"roots":{},"sampling":{"tools":{},"context":{}},"elicitation":{"form":{},"url":{}},"experimental":{"x":1},"extensions":{"io.modelcontextprotocol/tasks":{}}}`},
	} {
		link := scripted(nil)
		c := connect(t, serve(t, link, nil), test.rev)
		c.must(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		c.must(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"debug"}}`)
		c.must(`{"jsonrpc":"2.0","id":1,"method":"vendor/unknown","params":{"deep":{"n":123456789012345678901234567890},"_meta":{"x":1,"progressToken":5}}}`)
		for method, level := range map[string]string{"tools/list": `"info"`, "vendor/unknown": `"debug"`} {
			all := link.requests(method)
			if len(all) != 1 {
				t.Fatalf("%s came %d times", method, len(all))
			}
			env, err := protocol.ReadEnvelope(all[0])
			if err != nil {
				t.Fatal(err)
			}
			if env.Version != "2026-07-28" || string(env.Client) != `{"name":"old","version":"1.50"}` || string(env.LogLevel) != level {
				t.Errorf("%v %s: envelope %s", test.rev, method, all[0])
			}
			if !equal(t, env.Capabilities, test.caps) {
				t.Errorf("%v %s: capabilities\n%s, want\n%s", test.rev, method, env.Capabilities, test.caps)
			}
		}
		sent := link.requests("vendor/unknown")[0]
		if string(sent.Get("deep")) != `{"n":123456789012345678901234567890}` || string(sent.Meta("x")) != "1" || string(sent.Meta("progressToken")) != "5" {
			t.Errorf("%v: changed on the way: %s", test.rev, sent)
		}
	}
}

func equal(t *testing.T, a json.RawMessage, b string) bool {
	t.Helper()
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		t.Fatalf("%s or %s is no JSON", a, b)
	}
	p, _ := json.Marshal(x)
	q, _ := json.Marshal(y)
	return string(p) == string(q)
}

func TestClientThatIntroducesItselfBadlyIsServed(t *testing.T) {
	t.Parallel()
	c := dial(t, serve(t, modern(t).Requests(), nil))
	c.must(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","clientInfo":{"name":7}}}`)
	c.must(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
}

func TestLogLevelIsKeptForTheClient(t *testing.T) {
	t.Parallel()
	for _, rev := range legacy {
		c := connect(t, serve(t, modern(t).Requests(), nil), rev)
		for _, test := range []struct {
			level string
			logs  int
		}{{"", 7}, {"debug", 8}, {"error", 4}, {"emergency", 1}} {
			if test.level != "" {
				c.must(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":%q}}`, test.level))
			}
			c.tool("test_logging_tool", `{}`)
			if got := c.heard(); len(got) != test.logs || got[0].Method() != protocol.NoteMessage {
				t.Errorf("%v: level %q: %d messages, want %d", rev, test.level, len(got), test.logs)
			}
		}
		for _, params := range []string{`{"level":"loud"}`, `{"level":3}`, `{}`} {
			c.fails(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":`+params+`}`, protocol.CodeInvalidParams)
		}
	}
	link := scripted(nil)
	link.caps = `{"tools":{}}`
	c := connect(t, serve(t, link, nil), protocol.V20250618)
	c.fails(`{"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}}`, protocol.CodeMethodNotFound)
}

func TestWhatTheClientCannotKnowIsNotPassedOn(t *testing.T) {
	t.Parallel()
	link := scripted(nil)
	c := connect(t, serve(t, link, nil), protocol.V20251125)
	for _, method := range []string{"server/discover", "subscriptions/listen", "tasks/get", "tasks/result", "tasks/list", "tasks/update", "tasks/cancel"} {
		before := len(link.requests(method))
		c.fails(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"taskId":"x"}}`, protocol.CodeMethodNotFound)
		if len(link.requests(method)) != before {
			t.Errorf("%s reached the server", method)
		}
	}
	for _, method := range []string{"notifications/roots/list_changed", "notifications/cancelled", "notifications/vendor"} {
		c.tell(`{"jsonrpc":"2.0","method":"` + method + `","params":{"requestId":1}}`)
	}
}

func TestCloseEndsSessions(t *testing.T) {
	peertest.NoLeak(t)
	s := serve(t, modern(t).Requests(), nil)
	c := connect(t, s, protocol.V20251125)
	c.must(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://watched-resource"}}`)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.conn.Call(t.Context(), parse(t, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), nil); !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("a call after Close: %v", err)
	}
	if _, err := dragoman.Local(s).Dial(t.Context(), nil); !errors.Is(err, dragoman.ErrClosed) {
		t.Errorf("a session after Close: %v", err)
	}
}
