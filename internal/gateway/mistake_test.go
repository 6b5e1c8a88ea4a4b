package gateway_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/access/auth"
	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// Who runs a gateway sees why its clients are refused, and what they should do.
func TestMistakesOfClientsAreSeenInTheLog(t *testing.T) {
	secret, hash := auth.NewSecret()
	tokens := filepath.Join(t.TempDir(), "tokens.json")
	if err := auth.AddToken(t.Context(), tokens, &auth.Token{Name: "ada", Hash: hash}); err != nil {
		t.Fatal(err)
	}
	const ping = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	for name, row := range map[string]struct {
		method, path, body string
		header             []string
		status             int
		reason             string // a part of it
	}{
		"no server":         {"POST", "/servers/b/mcp", ping, nil, 404, "there is no server of that name"},
		"no endpoint":       {"POST", "/mcpp", ping, nil, 404, "/mcp, /sse, /messages, /ws and /call"},
		"no session":        {"POST", "/mcp", ping, []string{"Mcp-Session-Id", "gone"}, 404, "initialize"},
		"no tool":           {"POST", "/call/nothing", `{}`, nil, 404, "nothing"},
		"no token":          {"POST", "/mcp", ping, []string{"Authorization", ""}, 401, "send Authorization: Bearer TOKEN"},
		"not JSON":          {"POST", "/mcp", `{`, nil, 400, "Parse error"},
		"an encoded slash":  {"POST", "/servers%2fa/mcp", ping, nil, 400, "encoded slash"},
		"a wrong type":      {"POST", "/mcp", ping, []string{"Content-Type", "text/plain"}, 415, "application/json"},
		"a wrong method":    {"PUT", "/mcp", ping, nil, 405, "use "},
		"a wrong answer":    {"POST", "/mcp", ping, []string{"Accept", "text/html"}, 406, "Accept must list"},
		"a body too large":  {"POST", "/mcp", `{"x":"` + strings.Repeat("x", 70<<10) + `"}`, nil, 413, "larger than the limit"},
		"a wrong old kind":  {"POST", "/messages", ping, []string{"Content-Type", "text/plain"}, 415, "application/json"},
		"no old session":    {"POST", "/messages?sessionId=gone", ping, nil, 404, "GET the event stream"},
		"not a socket":      {"POST", "/ws", ping, nil, 405, "use GET"},
		"no token, a query": {"GET", "/mcp?token=" + secret, "", []string{"Authorization", ""}, 401, "send Authorization"},
	} {
		t.Run(name, func(t *testing.T) {
			log := &lockedBuffer{}
			g := &running{t: t, path: filepath.Join(t.TempDir(), "dragoman.yaml")}
			g.write(fmt.Sprintf("auth: {tokenFile: %q}\nlimits: {message: 64KiB}\nservers:\n  a: {url: %q}\n", tokens, startBuiltin(t, protocol.LatestLegacy)))
			g.start(&gateway.Options{Name: "test", Version: "1", Logger: slog.New(slog.NewTextHandler(log, nil))})
			g.ready()
			for range 3 {
				req, err := http.NewRequestWithContext(within(t), row.method, g.url+row.path, strings.NewReader(row.body))
				if err != nil {
					t.Fatal(err)
				}
				header := append([]string{"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Authorization", "Bearer " + secret}, row.header...)
				for i := 0; i < len(header); i += 2 {
					req.Header.Set(header[i], header[i+1])
					if header[i+1] == "" {
						req.Header.Del(header[i])
					}
				}
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				_ = resp.Body.Close()
				if resp.StatusCode != row.status {
					t.Fatalf("status %d, want %d", resp.StatusCode, row.status)
				}
			}
			var lines []string
			for line := range strings.Lines(log.String()) {
				if strings.Contains(line, `msg="request refused"`) {
					lines = append(lines, line)
				}
			}
			if len(lines) == 0 || len(lines) > 3 {
				t.Fatalf("logged:\n%s", log)
			}
			for _, part := range []string{"level=INFO", fmt.Sprintf("status=%d", row.status), "method=" + row.method, "client=127.0.0.1", row.reason} {
				if !strings.Contains(lines[0], part) {
					t.Errorf("%q is not in %s", part, lines[0])
				}
			}
			if strings.Contains(log.String(), secret) {
				t.Errorf("the token is in the log:\n%s", log)
			}
		})
	}
}
