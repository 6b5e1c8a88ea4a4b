package builtin_test

import (
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestHandshake(t *testing.T) {
	newest, oldest := protocol.LatestLegacy, protocol.V20241105
	tests := []struct {
		name   string
		served []protocol.Revision // nil is all
		asked  string
		want   protocol.Revision
	}{
		{"E03 a served revision is echoed", nil, oldest.String(), oldest},
		{"E03 an unknown revision is answered with the newest", nil, "1999-01-01", newest},
		{"E03 a modern revision is answered with the newest that has a handshake", nil, protocol.Latest.String(), newest},
		{"E03 a server of one revision answers with that", []protocol.Revision{protocol.V20250326}, newest.String(), protocol.V20250326},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := dial(t, builtin.New(&builtin.Options{Revisions: test.served, Name: "n", Version: "v"}), newest, nil)
			got := d.want("initialize", object{"protocolVersion": test.asked, "capabilities": object{}, "clientInfo": object{"name": "t", "version": "1"}})
			if got["protocolVersion"] != test.want.String() {
				t.Errorf("protocolVersion is %v, want %s", got["protocolVersion"], test.want)
			}
			info := got["serverInfo"].(object)
			if info["name"] != "n" || info["version"] != "v" {
				t.Errorf("serverInfo is %v", info)
			}
			if _, titled := info["title"]; titled != test.want.HasTitles() {
				t.Errorf("serverInfo is %v", info)
			}
			if _, ok := got["capabilities"].(object)["completions"]; ok != test.want.HasCompletions() {
				t.Errorf("capabilities are %v", got["capabilities"])
			}
		})
	}
}

func TestOrderOfTheHandshake(t *testing.T) {
	s := builtin.New(nil)
	t.Run("E03 ping needs no initialize", func(t *testing.T) {
		d := dial(t, s, protocol.LatestLegacy, nil)
		wantJSON(t, "ping", d.want("ping", nil), `{}`)
	})
	t.Run("D03 calls before initialize are refused", func(t *testing.T) {
		d := dial(t, s, protocol.LatestLegacy, nil)
		e := d.wantError(protocol.CodeInvalidRequest, protocol.MethodListTools, nil)
		if !strings.Contains(e.Message, "initialize first") {
			t.Errorf("the message is %q", e.Message)
		}
	})
	t.Run("a probe of the other era without a claim is an unknown method", func(t *testing.T) {
		d := dial(t, s, protocol.LatestLegacy, nil)
		d.wantError(protocol.CodeMethodNotFound, protocol.MethodDiscover, nil)
	})
	t.Run("a second initialize is refused and changes nothing", func(t *testing.T) {
		d := open(t, s, protocol.V20250326, object{"sampling": object{}})
		d.want(protocol.MethodSetLevel, object{"level": "error"})
		d.wantError(protocol.CodeInvalidRequest, "initialize", object{"protocolVersion": protocol.V20251125.String(), "capabilities": canAll})
		if got, want := d.toolText("session", nil), "revision=2025-03-26 era=legacy can: sampling"; got != want {
			t.Errorf("the session is %q, want %q", got, want)
		}
		d.tool("test_tool_with_logging", nil)
		if got := methods(d.received()); got != "" {
			t.Errorf("heard %q below the level that was set", got)
		}
	})
	t.Run("initialize without a revision is refused", func(t *testing.T) {
		d := dial(t, s, protocol.LatestLegacy, nil)
		d.wantError(protocol.CodeInvalidParams, "initialize", object{})
		d.wantError(protocol.CodeInvalidParams, "initialize", object{"protocolVersion": 1})
	})
}

func TestServersOfOneEra(t *testing.T) {
	modern := builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.Latest}})
	legacy := builtin.New(&builtin.Options{Revisions: []protocol.Revision{protocol.V20250618, protocol.V20251125}})
	initialize := object{"protocolVersion": protocol.LatestLegacy.String(), "capabilities": object{}}

	t.Run("a modern server names its revisions to initialize", func(t *testing.T) {
		d := dial(t, modern, protocol.LatestLegacy, nil)
		e := d.wantError(protocol.CodeUnsupported, "initialize", initialize)
		wantJSON(t, "data", e.Data, `{"supported":["2026-07-28"],"requested":"2025-11-25"}`)
	})
	t.Run("a modern server wants an envelope", func(t *testing.T) {
		dial(t, modern, protocol.LatestLegacy, nil).wantError(protocol.CodeInvalidParams, protocol.MethodListTools, nil)
	})
	t.Run("a legacy server takes no notice of envelopes", func(t *testing.T) {
		d := dial(t, legacy, protocol.Latest, nil)
		d.wantError(protocol.CodeMethodNotFound, protocol.MethodDiscover, nil)
		d.wantError(protocol.CodeInvalidRequest, protocol.MethodListTools, nil)
		got := d.want("initialize", initialize)
		if _, ok := got["resultType"]; ok {
			t.Errorf("initialize is answered with %v", got)
		}
		if got := d.want(protocol.MethodListTools, nil); got["resultType"] != nil {
			t.Errorf("tools/list has resultType %v", got["resultType"])
		}
	})
	t.Run("the modern endpoint of a legacy server names its revisions", func(t *testing.T) {
		d := dial(t, legacy, protocol.Latest, nil)
		resp, err := legacy.Requests().Call(t.Context(), d.request(protocol.MethodDiscover, nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		if e := resp.RPCError(); e == nil || e.Code != protocol.CodeUnsupported {
			t.Fatalf("got %s", resp)
		} else {
			wantJSON(t, "data", e.Data, `{"supported":["2025-11-25","2025-06-18"],"requested":"2026-07-28"}`)
		}
	})
}

func TestBothErasInOneConversation(t *testing.T) {
	d := open(t, builtin.New(nil), protocol.V20250618, object{"roots": object{}})
	d.rev, d.caps = protocol.Latest, object{"sampling": object{}}
	if got, want := d.toolText("session", nil), "revision=2026-07-28 era=modern can: sampling"; got != want {
		t.Errorf("a modern call sees %q, want %q", got, want)
	}
	d.wantError(protocol.CodeMethodNotFound, "initialize", nil)
	d.rev = protocol.V20250618
	if got, want := d.toolText("session", nil), "revision=2025-06-18 era=legacy can: roots"; got != want {
		t.Errorf("a legacy call sees %q, want %q", got, want)
	}
}

func TestIdsComeBack(t *testing.T) {
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		d := open(t, builtin.New(nil), rev, nil)
		for _, id := range []string{`1`, `"1"`, `0`, `-5`, `""`, `"a\u0062c"`, `12345678901234567890`} {
			t.Run("A04 E04 id "+id, func(t *testing.T) {
				want, ok := dragoman.ParseID([]byte(id))
				if !ok {
					t.Fatal("no id")
				}
				req := d.in(t).request(protocol.MethodCallTool, object{"name": "echo", "arguments": object{"text": "x"}}).WithID(want)
				resp, err := d.conn.Call(t.Context(), req, nil)
				if err != nil || resp.IsError() || resp.ID() != want {
					t.Fatalf("got %v, %v", resp, err)
				}
				fail, err := d.conn.Call(t.Context(), d.request("no/such", nil).WithID(want), nil)
				if err != nil || !fail.IsError() || fail.ID() != want {
					t.Fatalf("got %v, %v", fail, err)
				}
			})
		}
	})
}

// The test E09 describes: the three requests that every client begins with.
func TestSmoke(t *testing.T) {
	eachRevision(t, func(t *testing.T, rev protocol.Revision) {
		t.Run("E09 handshake, list, call", func(t *testing.T) {
			d := open(t, builtin.New(nil), rev, nil)
			if tools := d.want(protocol.MethodListTools, nil)["tools"].([]any); len(tools) < 30 {
				t.Errorf("there are %d tools", len(tools))
			}
			if got := d.toolText("echo", object{"text": "hello"}); got != "hello" {
				t.Errorf("echo says %q", got)
			}
		})
	})
}
