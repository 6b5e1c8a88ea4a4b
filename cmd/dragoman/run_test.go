package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestRunServesEveryHTTPTransportAndStopsOnASignal(t *testing.T) {
	for _, signal := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		t.Run(signal.String(), func(t *testing.T) {
			url, say, stop := startRun(t)
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
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, url+path, strings.NewReader(init))
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Accept", "application/json, text/event-stream")
				resp, err := http.DefaultClient.Do(req)
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `"serverInfo"`) {
					t.Errorf("POST %s: %d %s", path, resp.StatusCode, body)
				}
			}
			if got := say(`{"jsonrpc":"2.0","id":1,"method":"ping"}`); got != `{"jsonrpc":"2.0","id":1,"result":{}}` {
				t.Errorf("on standard input and output: %s", got)
			}
			http.DefaultClient.CloseIdleConnections()
			if status := stop(signal); status != 0 {
				t.Errorf("it ends with status %d", status)
			}
		})
	}
}

// startRun starts `dragoman run` on a free port, and returns its URL, what says
// a line to it and returns the answer, and what stops it.
func startRun(t *testing.T) (url string, say func(string) string, stop func(os.Signal) int) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "run", "--listen", "127.0.0.1:0")
	cmd.Env = append(os.Environ(), mainVariable+"=1", "GORACE=atexit_sleep_ms=0")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(stdout)
	say = func(line string) string {
		if _, err := io.WriteString(stdin, line+"\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := answers.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(answer)
	}
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if url = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(line); url == "" {
		t.Fatalf("it says %q (%v)", line, err)
	}
	return url, say, func(signal os.Signal) int {
		_ = cmd.Process.Signal(signal)
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
}
