package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/protocol"
)

func TestReadinessWaitsForServersThatAreStarting(t *testing.T) {
	const (
		starting = "starting: 0 of 1 servers are ready\n"
		lacking  = "1 of 2 servers are not ready\n"
		ready    = "ready\n"
	)
	for _, test := range []struct {
		name, readyz  string
		other         bool   // there is a server that is ready, too
		before, after string // the first answer of the server that is starting, which is a failure
	}{
		{"any, alone", "any", false, starting, ready},
		{"any, beside one that is ready", "any", true, ready, ready},
		{"all", "all", true, lacking, lacking},
	} {
		t.Run(test.name, func(t *testing.T) {
			answer := make(chan struct{})
			slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				select {
				case <-answer:
					http.Error(w, "down", http.StatusBadGateway)
				case <-r.Context().Done():
				}
			}))
			t.Cleanup(slow.Close)
			config := fmt.Sprintf("readyz: %s\nservers:\n  slow: {url: %q}\n", test.readyz, slow.URL)
			if test.other {
				config += fmt.Sprintf("  other: {url: %q}\n", startBuiltin(t, protocol.Latest))
			}
			g := begin(t, config)
			until := func(want string) {
				t.Helper()
				for limit := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
					status, got := g.get(gateway.ReadyPath)
					if got == want && (status == http.StatusOK) == (want == ready) {
						return
					}
					if strings.Contains(got, "slow") || time.Now().After(limit) {
						t.Fatalf("%d %q, want %q", status, got, want)
					}
				}
			}
			until(test.before)
			close(answer)
			until(test.after)
		})
	}
}
