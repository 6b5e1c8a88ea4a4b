package gateway_test

import (
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
)

// Who can reach the gateway sees names and states; its owner sees everything.
func TestS58_PublicStatusShowsNamesAndStatesOnly(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip(err)
	}
	const servers = `servers:
  talks: {command: sh, args: [-c, "echo said-mark >&2; exit 1", line-mark]}
  far: {url: "http://127.0.0.1:1/url-mark"}
`
	g := begin(t, servers)
	control := serveHTTP(t, g.Control())
	full := func() string {
		t.Helper()
		status, body := send(t, http.DefaultClient, http.MethodGet, control+"/status")
		if status != http.StatusOK {
			t.Fatalf("the control socket says %d %s", status, body)
		}
		return body
	}
	g.write("servers: {error-mark: 7}\nlisten: nowhere\n")
	if _, err := g.Reload(); err == nil {
		t.Fatal("the file is accepted")
	}
	marks := []string{"said-mark", "line-mark", "url-mark", "error-mark", "lastError", "lastStderr", "where"}
	eventually(t, "the owner is shown everything", func() bool {
		body := full()
		for _, mark := range marks {
			if !strings.Contains(body, mark) {
				return false
			}
		}
		return true
	})
	code, body := g.get(gateway.StatusPath)
	if code != http.StatusOK {
		t.Fatalf("got %d %s", code, body)
	}
	for _, mark := range append(marks, "dragoman.yaml", "nowhere", "transport", "inFlight", "sessions") {
		if strings.Contains(body, mark) {
			t.Errorf("everybody is shown %q:\n%s", mark, body)
		}
	}
	var s gateway.Status
	decode(t, body, &s)
	if len(s.Servers) != 2 || s.Servers[0].Name != "talks" || s.Servers[0].State == "" || s.Servers[0].Since.IsZero() {
		t.Errorf("the servers are %+v", s.Servers)
	}
	if s.Reload == nil || !s.Reload.Failed || s.Reload.At.IsZero() {
		t.Errorf("the last reload is %+v", s.Reload)
	}

	// A server that is left out is the owner's business too.
	g.reload(servers + "  left-mark: {comand: x}\n")
	if body := full(); !strings.Contains(body, "left-mark") {
		t.Errorf("the owner is shown\n%s", body)
	}
	if _, body = g.get(gateway.StatusPath); strings.Contains(body, "left-mark") || !strings.Contains(body, `"failed": false`) {
		t.Errorf("everybody is shown\n%s", body)
	}
}

func TestPublicStatusSaysThatTheStateFailsAndNotWhy(t *testing.T) {
	now := time.Now()
	s := gateway.Status{Later: []string{"state"}, StateFailure: &gateway.StateFailure{Since: now, Last: now, Writes: 7, Error: "disk-mark"}}
	p := s.Public(func(string) bool { return true })
	if f := p.StateFailure; f == nil || *f != (gateway.StateFailure{Since: now}) || p.Later != nil {
		t.Errorf("everybody is told %+v and %v", f, p.Later)
	}
	if s.StateFailure.Error == "" {
		t.Error("the owner is told less")
	}
}
