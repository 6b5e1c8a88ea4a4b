package protocol_test

import (
	"slices"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

var requests = []string{
	protocol.MethodInitialize, protocol.MethodPing, protocol.MethodDiscover, protocol.MethodListTools, protocol.MethodCallTool, protocol.MethodListResources,
	protocol.MethodListTemplates, protocol.MethodReadResource, protocol.MethodSubscribe, protocol.MethodUnsubscribe, protocol.MethodListPrompts,
	protocol.MethodGetPrompt, protocol.MethodComplete, protocol.MethodSetLevel, protocol.MethodListen, protocol.MethodGetTask, protocol.MethodTaskResult,
	protocol.MethodListTasks, protocol.MethodUpdateTask, protocol.MethodCancelTask, protocol.MethodListRoots, protocol.MethodCreateMessage,
	protocol.MethodElicit, protocol.NoteProgress, "vendor/unknown", "",
}

func TestMethodFacts(t *testing.T) {
	facts := []struct {
		name string
		ask  func(string) bool
		yes  []string
	}{
		{"Repeatable", protocol.Repeatable, []string{
			"initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe",
			"server/discover", "ping", "tools/list", "resources/list", "resources/templates/list", "resources/read",
			"prompts/list", "prompts/get", "completion/complete", "tasks/get", "tasks/list",
		}},
		{"MayNeedInput", protocol.MayNeedInput, []string{"tools/call", "prompts/get", "resources/read"}},
		{"NamesItem", protocol.NamesItem, []string{"tools/call", "prompts/get", "resources/read", "completion/complete"}},
		{"Cacheable", protocol.Cacheable, []string{
			"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read",
		}},
	}
	for _, f := range facts {
		for _, method := range requests {
			if got, want := f.ask(method), slices.Contains(f.yes, method); got != want {
				t.Errorf("%s(%q) is %t, want %t", f.name, method, got, want)
			}
		}
	}
}

func TestCancellable(t *testing.T) {
	for text, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`:                                                                                                  false,
		`{"jsonrpc":"2.0","id":1,"method":"ping"}`:                                                                                                                    true,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}`:                                                                                        true,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","task":{"ttl":1}}}`:                                                                       false,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","task":{},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`:             true,
		`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"task":{},"_meta":{"\u0069o.modelcontextprotocol/protocolVersion":"2026-07-28","progressToken":1}}}`: true,
	} {
		if got := protocol.Cancellable(peertest.Parse(t, text)); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}

func TestModernRequestsNameTheirRevision(t *testing.T) {
	for text, want := range map[string]bool{
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`:      true,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28"}}}`:     true,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":{"progressToken":1}}}`:                                           false,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"_meta":null}}`:                                                          false,
		`{"jsonrpc":"2.0","id":1,"method":"m","params":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}`:                false,
		`{"jsonrpc":"2.0","id":1,"method":"m"}`:                                                                                  false,
		`{"jsonrpc":"2.0","method":"m","params":{"_meta":{"x":1,"io.modelcontextprotocol/protocolVersion":"2026-07-28","y":2}}}`: true,
	} {
		if got := protocol.IsModern(peertest.Parse(t, text)); got != want {
			t.Errorf("%s: %t, want %t", text, got, want)
		}
	}
}

func TestLogLevels(t *testing.T) {
	for i, name := range []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"} {
		if got := protocol.LogLevel(name); got != i {
			t.Errorf("%s has severity %d, want %d", name, got, i)
		}
	}
	for _, name := range []string{"", "warn", "Info", "trace"} {
		if got := protocol.LogLevel(name); got != -1 {
			t.Errorf("%q has severity %d", name, got)
		}
	}
}

// The codes of our own must stay outside the range that JSON-RPC reserves.
func TestOwnCodes(t *testing.T) {
	seen := map[int]bool{}
	for _, code := range []int{
		protocol.CodeUnavailable, protocol.CodeTimeout, protocol.CodeLost, protocol.CodeOverloaded, protocol.CodeDraining, protocol.CodeTooLarge, protocol.CodeSignIn,
	} {
		if code >= -32768 && code <= -32000 || seen[code] {
			t.Errorf("code %d is taken", code)
		}
		seen[code] = true
	}
}
