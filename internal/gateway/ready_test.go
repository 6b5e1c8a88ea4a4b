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
	answer := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-answer:
			http.Error(w, "down", http.StatusBadGateway)
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(slow.Close)
	config := func(readyz, more string) string {
		return fmt.Sprintf("readyz: %s\nservers:\n  slow: {url: %q}\n%s", readyz, slow.URL, more)
	}
	other := fmt.Sprintf("  other: {url: %q}\n", upstream(t, protocol.Latest))
	until := func(g *running, status int, body string) {
		t.Helper()
		for limit := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
			gotStatus, got := g.get(gateway.ReadyPath)
			if gotStatus == status && got == body {
				return
			}
			if strings.Contains(got, "slow") || time.Now().After(limit) {
				t.Fatalf("%d %q; want %d %q", gotStatus, got, status, body)
			}
		}
	}
	alone := begin(t, config("any", ""))
	until(alone, http.StatusServiceUnavailable, "starting: 0 of 1 servers are ready\n")
	until(begin(t, config("any", other)), http.StatusOK, "ready\n")
	all := begin(t, config("all", other))
	until(all, http.StatusServiceUnavailable, "1 of 2 servers are not ready\n")
	close(answer)
	until(alone, http.StatusOK, "ready\n") // its only server has failed
	until(all, http.StatusServiceUnavailable, "1 of 2 servers are not ready\n")
}
