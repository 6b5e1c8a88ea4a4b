package program

import (
	"bufio"
	"context"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/ws"
)

func TestRunServesEveryHTTPTransportAndStopsOnASignal(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			p := startMain(t, "run", "--listen", "127.0.0.1:0")
			url := strings.TrimSuffix(p.place("http://"), "/mcp")
			for path, part := range map[string]string{"/healthz": "ok", "/sse": "event: endpoint"} {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				req, _ := http.NewRequestWithContext(ctx, http.MethodGet, url+path, nil)
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewScanner(resp.Body)
				found := false
				for !found && lines.Scan() {
					found = strings.Contains(lines.Text(), part)
				}
				if !found {
					t.Errorf("GET %s has no %q", path, part)
				}
				cancel()
				_ = resp.Body.Close()
			}
			const init = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
			for _, path := range []string{"/mcp", "/messages"} {
				if body := post(t, url+path, init); !strings.Contains(body, `"serverInfo"`) {
					t.Errorf("POST %s: %s", path, body)
				}
			}
			if body := post(t, url+"/call/echo", `{"text":"hello"}`); !strings.Contains(body, `"hello"`) {
				t.Errorf("POST /call/echo: %s", body)
			}
			peertest.CheckEcho(t, &ws.Client{URL: url + "/ws"}, protocol.Modern)
			if got := p.say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
				t.Errorf("on standard input and output: %s", got)
			}
			http.DefaultClient.CloseIdleConnections()
			if status := p.stop(signal); status != 0 {
				t.Errorf("it ends with status %d", status)
			}
		})
	}
}
