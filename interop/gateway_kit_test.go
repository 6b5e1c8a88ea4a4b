package interop_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// gatewayName is what a gateway calls itself where it is several servers as one.
const gatewayName = "dragoman"

// configured is how the server stands in the file of a gateway.
func (s *crossServer) configured() object {
	c := object{}
	if s.pinned {
		c["era"] = s.era.String()
	}
	if s.url != "" {
		c["url"] = s.url
		return c
	}
	env := object{}
	for _, v := range s.env {
		name, value, _ := strings.Cut(v, "=")
		env[name] = value
	}
	c["command"], c["args"], c["env"], c["inherit"] = s.command[0], s.command[1:], env, []string{"GORACE"}
	return c
}

// gatewayFile writes the file of a gateway.
func gatewayFile(t *testing.T, name string, content object) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	text, err := json.Marshal(content)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// gatewayCommand is the program with a file, in surroundings of its own.
func gatewayCommand(t *testing.T, flags ...string) *exec.Cmd {
	t.Helper()
	own, err := os.MkdirTemp("", "g") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(own) })
	cmd := exec.Command(dragomanProgram.in(t), append([]string{"serve"}, flags...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + own, "XDG_RUNTIME_DIR=" + own, "GORACE=" + quickExit}
	return cmd
}

// serveFile starts a gateway for a file, waits until its servers are ready, and
// returns its URL.
func serveFile(t *testing.T, file string) string {
	t.Helper()
	url := serve(t, gatewayCommand(t, file, "--listen", "127.0.0.1:0"), gatewayURL)
	awaitReady(t, url)
	return url
}

// gatewayURL matches where a gateway listens.
const gatewayURL = `http://127\.0\.0\.1:\d+`

// awaitReady waits until all servers of a gateway are ready.
func awaitReady(t *testing.T, url string) {
	t.Helper()
	web := connections(t)
	for end := time.Now().Add(3 * patience); ; time.Sleep(10 * time.Millisecond) { // interpreters start slowly on a busy machine
		away := readiness(t, web, url)
		if away == "" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("not all servers are ready:\n%s", away)
		}
	}
}

// readiness says which servers are not ready.
func readiness(t *testing.T, web *http.Client, url string) (away string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/status", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var status struct {
		Servers []struct{ Name, State string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&status); err != nil {
		t.Fatal(err)
	}
	for _, s := range status.Servers {
		if s.State != "ready" {
			away += fmt.Sprintf("%s is %s\n", s.Name, s.State)
		}
	}
	return away
}
