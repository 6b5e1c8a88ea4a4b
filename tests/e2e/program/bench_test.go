package program

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
)

func TestBenchMeasuresServersOverPipesAndHTTP(t *testing.T) {
	t.Parallel()
	at := startMain(t, "run", "--listen", "127.0.0.1:0").place("http://")
	for name, args := range map[string][]string{
		"pings over a pipe":        {"-e", mainVariable + "=1", "--", self(t), "everything"},
		"a tool over HTTP":         {"--tool", "echo", "--args", `{"text":"hello"}`, at},
		"a rate, two conversation": {"--rate", "1000", "--connections", "2", at},
	} {
		t.Run(name, func(t *testing.T) {
			out, said, status := runMain(t, "", append([]string{"bench", "-n", "50", "-c", "4", "--warm-up", "10ms", "-o", "json"}, args...)...)
			var r struct {
				Servers []struct {
					Server             string
					What               string `json:"request"`
					Calls              int
					Errors             map[string]int
					Corrected          bool
					Rate               float64
					P50, P90, P99, Max float64
					Sent               int64 `json:"bytesSent"`
					Received           int64 `json:"bytesReceived"`
				}
			}
			if err := json.Unmarshal([]byte(out), &r); status != 0 || err != nil || len(r.Servers) != 1 {
				t.Fatalf("status %d, %v\n%s\n%s", status, err, out, said)
			}
			m := r.Servers[0]
			if m.Calls != 50 || m.Errors != nil || m.P50 <= 0 || m.P50 > m.P90 || m.P90 > m.P99 || m.P99 > m.Max || m.Rate <= 0 || m.Corrected != strings.Contains(name, "rate") || m.Server != "dragoman-everything" {
				t.Errorf("%+v", m)
			}
			if strings.Contains(name, "tool") && (m.What != "echo" || m.Sent != int64(50*len(`{"arguments":{"text":"hello"},"name":"echo"}`)) || m.Received == 0) {
				t.Errorf("%+v", m)
			}
		})
	}
	out, said, status := runMain(t, "", "bench", at, "-d", "200ms", "--warm-up", "0s", "--compare", at)
	if status != 0 || strings.Count(out, "  latency  p50 ") != 2 || !strings.Contains(out, "\nratio ") || !strings.Contains(said, "10/10") {
		t.Errorf("compare: status %d\n%s\n%s", status, out, said)
	}
	for _, test := range []struct {
		status int
		want   string
		args   []string
	}{
		{term.ExitBelowThreshold, "calls a second are less than", []string{"--min-rate", "1e12"}},
		{term.ExitBelowThreshold, "p99", []string{"--max-p99", "1ns"}},
		{term.ExitBelowThreshold, "ratio", []string{"--compare", at, "--min-ratio", "1e6"}},
		{0, "", []string{"--compare", at, "--min-ratio", "1e-6", "--max-p99", "1h", "--min-rate", "1e-6"}},
		{term.ExitError, "the tool fails", []string{"--tool", "test_error_handling"}},
		{term.ExitError, "nonesuch", []string{"--tool", "nonesuch"}},
		{term.ExitUsage, "needs --compare", []string{"--min-ratio", "1"}},
		{term.ExitUsage, "needs --tool", []string{"--args", "{}"}},
		{term.ExitUsage, "not JSON", []string{"--tool", "echo", "--args", "{"}},
		{term.ExitUsage, "choose one", []string{"-d", "1s"}},
		{term.ExitUsage, "at most", []string{"-c", "1001"}},
		{term.ExitUsage, "--compare names a second", []string{"x"}},
		{term.ExitUnreachable, "", []string{"--compare", "http://127.0.0.1:1/mcp"}},
	} {
		out, said, status := runMain(t, "", append([]string{"bench", at, "-n", "20", "--warm-up", "0s"}, test.args...)...)
		if status != test.status || !strings.Contains(said, test.want) {
			t.Errorf("%q: status %d, want %d\n%s\n%s", test.args, status, test.status, out, said)
		}
	}
}

func TestBenchKeepsCredentialsFromAnotherOrigin(t *testing.T) {
	first := startMain(t, "run", "--listen", "127.0.0.1:0").place("http://")
	var got atomic.Value
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.Header.Get("Authorization"))
		http.Error(w, "no", http.StatusInternalServerError)
	}))
	defer other.Close()
	bench := func(args ...string) any {
		got.Store("never asked")
		runMain(t, "", append([]string{"bench", first, "-n", "1", "--warm-up", "0s", "-H", "Authorization: Bearer canary", "--compare", other.URL}, args...)...)
		return got.Load()
	}
	if sent := bench(); sent != "" {
		t.Errorf("it gets %q", sent)
	}
	if sent := bench("--compare-credentials"); sent != "Bearer canary" {
		t.Errorf("with the flag it gets %q", sent)
	}
}
