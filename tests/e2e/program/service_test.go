package program

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

func TestEveryAddressOfTheMachineIsAcceptedAndWarnedOf(t *testing.T) {
	t.Parallel()
	p := startMain(t, "run", "--listen", "0.0.0.0:0", "--insecure-no-auth", "--insecure-no-tls")
	base := strings.TrimSuffix(p.place("http://127.0.0.1:"), "/mcp")
	p.await("everybody who can reach 0.0.0.0:0 can use what is served")
	p.await("others on the way to 0.0.0.0:0 can read and change everything")
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{name: 200, "localhost": 200, "evil.example.com": 403} {
		if got := peertest.HelloStatus(t, base+"/mcp", host, ""); got != want {
			t.Errorf("Host %s: %d, want %d", host, got, want)
		}
	}
}

func TestBuiltInServerOfOneEraHasTheEndpointsOfThatEra(t *testing.T) {
	t.Parallel()
	for era, call := range map[protocol.Era]int{protocol.Legacy: http.StatusNotFound, protocol.Modern: http.StatusOK} {
		p := startMain(t, "run", "--era", era.String(), "--listen", "127.0.0.1:0")
		base := strings.TrimSuffix(p.place("http://"), "/mcp")
		peertest.CheckEcho(t, &streamable.Client{URL: base + "/mcp"}, era)
		resp, err := http.Get(base + "/call")
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if said := p.said(); strings.Contains(said, "(tool calls)") != (call == http.StatusOK) || strings.Contains(said, "/sse") != (era == protocol.Legacy) {
			t.Errorf("of the %s era it says:\n%s", era, said)
		}
		if resp.StatusCode != call {
			t.Errorf("GET /call of the %s era: %d, want %d", era, resp.StatusCode, call)
		}
		if got := peertest.HelloStatus(t, base+"/mcp", "localhost", ""); (got == http.StatusOK) != (era == protocol.Legacy) {
			t.Errorf("initialize to the %s era: %d", era, got)
		}
	}
}
