package streamable_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/protocol"
)

// What a server speaks, by its answers. There is a handshake only if the
// answer to server/discover leaves it open, and no session is ever deleted.
func TestClientProbe(t *testing.T) {
	opens := func(w http.ResponseWriter, k *took) bool { return shakes(w, k, "2025-06-18") }
	endpoint := func(w http.ResponseWriter, _ *took) bool {
		sendEvents(w, "event: endpoint\ndata: /messages?id=1")
		return true
	}
	text := func(status int, text string) does {
		return func(w http.ResponseWriter, _ *took) bool { http.Error(w, text, status); return true }
	}
	hangsUp := func(http.ResponseWriter, *took) bool { panic(http.ErrAbortHandler) }
	for _, c := range []struct {
		name                      string
		discover, initialize, get does // nil: not asked for
		want                      string
		err                       string
	}{
		{"modern", answersWith(`{"supportedVersions":["2026-07-28","2025-11-25"]}`), nil, nil, "modern [2026-07-28] false", ""},
		{"legacy by its own word", answersWith(`{"supportedVersions":["2025-11-25","2025-06-18"]}`), nil, nil, "legacy [2025-11-25 2025-06-18] false", ""},
		{"refuses the revision", failsWith(400, "$", `{"code":-32022,"message":"x","data":{"supported":["2025-11-25"]}}`), nil, nil, "legacy [2025-11-25] false", ""},
		{"speaks only what we do not", failsWith(400, "$", `{"code":-32022,"message":"x","data":{"supported":["2030-01-01"]}}`), nil, nil, "", "no revision"},
		{"modern, but does not like us", failsWith(400, "$", `{"code":-32020,"message":"x"}`), nil, nil, "modern [2026-07-28] false", ""},

		{"wants a session, as the TypeScript SDK", failsWith(400, "null", `{"code":-32000,"message":"Bad Request: Server not initialized"}`), nil, nil, "legacy [] false", ""},
		{"wants a session, as the Python SDK", failsWith(400, `"server-error"`, `{"code":-32600,"message":"Bad Request: Missing session ID"}`), nil, nil, "legacy [] false", ""},
		{"does not know the session", failsWith(404, "null", `{"code":-32001,"message":"Session not found"}`), nil, nil, "legacy [] false", ""},
		{"has no sessions, as the TypeScript SDK", failsWith(200, "$", `{"code":-32601,"message":"Method not found"}`), nil, nil, "legacy [] false", ""},
		{"has no sessions, as the Python SDK", failsWith(200, "$", `{"code":-32602,"message":"Invalid request parameters","data":""}`), nil, nil, "legacy [] false", ""},
		{"does not know the method, by 404", failsWith(404, "$", `{"code":-32601,"message":"x"}`), nil, nil, "legacy [] false", ""},
		{"does not know the method, as the Go SDK", text(400, `JSON RPC not handled: "server/discover" unsupported`), nil, nil, "legacy [] false", ""},

		{"400 in plain text", text(400, "Invalid session ID"), opens, nil, "legacy [2025-06-18] false", ""},
		{"404", says(404), opens, nil, "legacy [2025-06-18] false", ""},
		{"422", text(422, "expect initialize request"), opens, nil, "legacy [2025-06-18] false", ""},
		{"a result that is none", answersWith(`{}`), opens, nil, "legacy [2025-06-18] false", ""},
		{"an error of its own", failsWith(200, "$", `{"code":0,"message":"x"}`), opens, nil, "legacy [2025-06-18] false", ""},
		{"modern after all", says(400), failsWith(400, "$", `{"code":-32022,"message":"x","data":{"supported":["2026-07-28"]}}`), nil, "modern [2026-07-28] false", ""},
		{"B15 HTTP+SSE", says(404), says(405), endpoint, "legacy [2024-11-05] true", ""},
		{"nothing", says(404), says(404), says(404), "", "404 Not Found"},

		{"a gateway whose server is away", failsWith(200, "$", `{"code":-31001,"message":"x"}`), failsWith(200, "$", `{"code":-31001,"message":"away"}`), nil, "", "away"},
		{"a failure", failsWith(200, "$", `{"code":-32603,"message":"x"}`), failsWith(200, "$", `{"code":-32603,"message":"broken"}`), nil, "", "broken"},
		{"500", says(500), opens, nil, "legacy [2025-06-18] false", ""},
		{"500 in JSON-RPC", failsWith(500, "$", `{"code":-32603,"message":"x"}`), opens, nil, "legacy [2025-06-18] false", ""},
		{"500 for everything", says(500), text(500, "broken"), nil, "", "broken"},
		{"501", text(501, "Unsupported method"), opens, nil, "legacy [2025-06-18] false", ""},
		{"202", says(202), opens, nil, "legacy [2025-06-18] false", ""},
		{"200 with text", text(200, "It works!"), opens, nil, "legacy [2025-06-18] false", ""},
		{"200 with nothing", says(200), opens, nil, "legacy [2025-06-18] false", ""},
		{"200 with text for everything", text(200, "It works!"), text(200, "It works!"), nil, "", "answer is"},
		{"a connection that is closed", hangsUp, opens, nil, "legacy [2025-06-18] false", ""},
		{"a connection that is closed again", hangsUp, hangsUp, nil, "", "EOF"},
		{"modern after a failure", says(500), failsWith(400, "$", `{"code":-32022,"message":"x","data":{"supported":["2026-07-28"]}}`), nil, "modern [2026-07-28] false", ""},
		{"refuses the revision and names none", failsWith(400, "$", `{"code":-32022,"message":"x"}`), opens, nil, "legacy [2025-06-18] false", ""},
		{"502 leaves it open", says(502), nil, nil, "", "502"},
		{"504 leaves it open", says(504), nil, nil, "", "504"},
		{"401 leaves it open", says(401), nil, nil, "", "401"},
		{"403 leaves it open", says(403), nil, nil, "", "403"},
		{"429 leaves it open", failsWith(429, "$", `{"code":-32000,"message":"slow down"}`), nil, nil, "", "slow down"},
		{"503 leaves it open", says(503), nil, nil, "", "503"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, client := serveScript(t, func(w http.ResponseWriter, k *took) {
				do := map[string]does{"server/discover": c.discover, "initialize": c.initialize, "GET": c.get}[k.what()]
				if do == nil || !do(w, k) {
					t.Errorf("unexpected %s", k.what())
				}
			})
			for range 2 {
				v, err := client.Probe(t.Context())
				got := fmt.Sprint(v.Era, " ", v.Revisions, " ", v.SSE)
				if c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) || c.err == "" && (err != nil || got != c.want) {
					t.Errorf("got %s, %v", got, err)
				}
			}
			if _, probes := s.taken(protocol.MethodDiscover); c.err == "" && len(probes) != 1 {
				t.Errorf("%d probes", len(probes))
			}
		})
	}
}
