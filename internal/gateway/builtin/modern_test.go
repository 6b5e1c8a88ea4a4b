package builtin_test

import (
	"testing"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/protocol"
)

const (
	version = protocol.MetaProtocolVersion
	can     = protocol.MetaClientCapabilities
	who     = protocol.MetaClientInfo
	level   = protocol.MetaLogLevel
)

func TestEnvelope(t *testing.T) {
	latest := protocol.Latest.String()
	tests := []struct {
		name   string
		params object
		code   int // 0 is success
	}{
		{"all there", object{"_meta": object{version: latest, can: object{}, who: object{"name": "n", "version": "1"}}}, 0},
		{"clientInfo is optional", object{"_meta": object{version: latest, can: object{}}}, 0},
		{"no params", nil, protocol.CodeInvalidParams},
		{"no _meta", object{}, protocol.CodeInvalidParams},
		{"no version", object{"_meta": object{can: object{}}}, protocol.CodeInvalidParams},
		{"version is no string", object{"_meta": object{version: 1, can: object{}}}, protocol.CodeInvalidParams},
		{"version is null", object{"_meta": object{version: nil, can: object{}}}, protocol.CodeInvalidParams},
		{"no capabilities", object{"_meta": object{version: latest}}, protocol.CodeInvalidParams},
		{"capabilities are no object", object{"_meta": object{version: latest, can: []string{"roots"}}}, protocol.CodeInvalidParams},
		{"a capability is no object", object{"_meta": object{version: latest, can: object{"elicitation": true}}}, protocol.CodeInvalidParams},
		{"clientInfo is no object", object{"_meta": object{version: latest, can: object{}, who: "me"}}, protocol.CodeInvalidParams},
		{"clientInfo lacks the version", object{"_meta": object{version: latest, can: object{}, who: object{"name": "n"}}}, protocol.CodeInvalidParams},
		{"unknown log level", object{"_meta": object{version: latest, can: object{}, level: "loud"}}, protocol.CodeInvalidParams},
		{"unknown version", object{"_meta": object{version: "2999-01-01", can: object{}}}, protocol.CodeUnsupported},
		{"legacy version", object{"_meta": object{version: protocol.LatestLegacy.String(), can: object{}}}, protocol.CodeUnsupported},
	}
	requests := builtin.New(nil).Requests()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var params any
			if test.params != nil {
				params = test.params
			}
			req, err := dragoman.NewRequest(dragoman.StringID("e"), protocol.MethodDiscover, params)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := requests.Call(t.Context(), req, nil)
			if err != nil {
				t.Fatal(err)
			}
			if resp.ID() != req.ID() {
				t.Errorf("the response has id %s", resp.ID())
			}
			got := 0
			if e := resp.RPCError(); e != nil {
				got = e.Code
			}
			if got != test.code {
				t.Errorf("got %s, want code %d", resp, test.code)
			}
		})
	}
}

func TestUnsupportedVersionNamesThoseServed(t *testing.T) {
	d := dial(t, builtin.New(nil), protocol.Latest, nil)
	e := d.wantError(protocol.CodeUnsupported, protocol.MethodListTools, object{"_meta": object{version: "v999"}})
	wantJSON(t, "data", e.Data,
		`{"requested":"v999","supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]}`)
}

func TestDiscover(t *testing.T) {
	d := open(t, builtin.New(&builtin.Options{Name: "n", Version: "v"}), protocol.Latest, nil)
	got := d.want(protocol.MethodDiscover, nil)
	wantJSON(t, "supportedVersions", got["supportedVersions"], `["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`)
	wantJSON(t, "capabilities", got["capabilities"], `{"tools":{"listChanged":true},"prompts":{"listChanged":true},
		"resources":{"listChanged":true,"subscribe":true},"logging":{},"completions":{}}`)
	if info := got["_meta"].(object)[protocol.MetaServerInfo].(object); info["name"] != "n" || info["version"] != "v" {
		t.Errorf("serverInfo is %v", info)
	}
	if got["serverInfo"] != nil {
		t.Error("serverInfo stands outside of _meta")
	}
}

func TestEveryModernResultIsDecorated(t *testing.T) {
	tests := []struct {
		method string
		params object
		cached bool
	}{
		{protocol.MethodDiscover, nil, true},
		{protocol.MethodListTools, nil, true},
		{protocol.MethodListPrompts, nil, true},
		{protocol.MethodListResources, nil, true},
		{protocol.MethodListTemplates, nil, true},
		{protocol.MethodReadResource, object{"uri": "test://static-text"}, true},
		{protocol.MethodCallTool, object{"name": "test_simple_text"}, false},
		{protocol.MethodGetPrompt, object{"name": "test_simple_prompt"}, false},
		{protocol.MethodComplete, object{
			"ref":      object{"type": "ref/prompt", "name": "test_prompt_with_arguments"},
			"argument": object{"name": "arg1", "value": ""},
		}, false},
	}
	s := builtin.New(nil)
	for _, test := range tests {
		t.Run(test.method, func(t *testing.T) {
			got := open(t, s, protocol.Latest, nil).want(test.method, test.params)
			if got["resultType"] != protocol.ResultComplete {
				t.Errorf("resultType is %v", got["resultType"])
			}
			if meta, ok := got["_meta"].(object); !ok || meta[protocol.MetaServerInfo] == nil {
				t.Errorf("_meta is %v", got["_meta"])
			}
			ttl, hasTTL := got["ttlMs"].(float64)
			scope := got["cacheScope"]
			if hasTTL != test.cached || (scope == "public") != test.cached || ttl < 0 {
				t.Errorf("ttlMs is %v and cacheScope is %v", got["ttlMs"], scope)
			}
			legacy := open(t, s, protocol.LatestLegacy, nil)
			if test.method == protocol.MethodDiscover {
				return
			}
			for _, name := range []string{"resultType", "ttlMs", "cacheScope", "_meta"} {
				if v, ok := legacy.want(test.method, test.params)[name]; ok {
					t.Errorf("the legacy result has %s %v", name, v)
				}
			}
		})
	}
}

func TestMethodsOfTheOtherEra(t *testing.T) {
	s := builtin.New(nil)
	modern := open(t, s, protocol.Latest, nil)
	for _, method := range []string{"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/result", "no/such"} {
		t.Run("modern "+method, func(t *testing.T) { modern.in(t).wantError(protocol.CodeMethodNotFound, method, nil) })
	}
	legacy := open(t, s, protocol.LatestLegacy, nil)
	for _, method := range []string{"server/discover", "subscriptions/listen", "no/such"} {
		t.Run("legacy "+method, func(t *testing.T) { legacy.in(t).wantError(protocol.CodeMethodNotFound, method, nil) })
	}
}
