package gateway_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// look gets a page as a browser does, or with another Accept.
func look(t *testing.T, url, accept string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(within(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(body)
}

const browser = "text/html,application/xhtml+xml,*/*;q=0.8"

func TestAPersonIsToldWhatIsHere(t *testing.T) {
	g := begin(t, "servers: {files: {url: "+upstream(t, protocol.Latest)+"}, mail: {url: http://127.0.0.1:1/url-mark, headers: {Authorization: header-mark}}}\ngroups: {office: [files]}\n")
	status, header, body := look(t, g.url+"/", browser)
	if status != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), "text/html") || !strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") {
		t.Errorf("%d %v", status, header)
	}
	for _, want := range []string{"<h1>test 1</h1>", g.url + "/mcp<", g.url + "/sse<", "ws" + strings.TrimPrefix(g.url, "http") + "/ws<", g.url + "/call<", g.url + "/servers/files<", g.url + "/servers/mail<", g.url + "/groups/office<"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	for _, mark := range []string{"<script", "url-mark", "header-mark", "127.0.0.1:1/"} {
		if strings.Contains(body, mark) {
			t.Errorf("%q is in\n%s", mark, body)
		}
	}
	for _, accept := range []string{"application/json", "*/*", ""} {
		if status, _, body := look(t, g.url+"/", accept); status != http.StatusNotFound {
			t.Errorf("a program that accepts %q gets %d %s", accept, status, body)
		}
	}
	if status, _, _ := look(t, g.url+"/nothing", browser); status != http.StatusNotFound {
		t.Errorf("another page: %d", status)
	}
}

func TestAPersonIsNotToldOfServersThatAreProtected(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokens, []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := begin(t, "auth: {tokenFile: "+tokens+"}\nservers: {hidden-mark: {url: "+upstream(t, protocol.Latest)+"}}\n")
	status, _, body := look(t, g.url+"/", browser)
	if status != http.StatusOK || strings.Contains(body, "hidden-mark") || !strings.Contains(body, "have to prove who they are") {
		t.Errorf("%d\n%s", status, body)
	}
	if status, _, _ := look(t, g.url+gateway.StatusPath, browser); status != http.StatusUnauthorized {
		t.Errorf("the status: %d", status)
	}
}

// A server that cannot be configured is one of the owner's, and says why it is not there.
func TestServersWithErrorsAreStopped(t *testing.T) {
	g := begin(t, "servers:\n  bad: {comand: x}\n  good: {url: "+upstream(t, protocol.Latest)+"}\n")
	s := g.Status()
	if len(s.Servers) != 2 || s.Servers[0].Name != "bad" || s.Servers[0].State != "stopped" || !strings.Contains(s.Servers[0].LastError, `did you mean "command"`) || s.Servers[1].Name != "good" {
		t.Errorf("the servers are %+v", s.Servers)
	}
	if s.PID != os.Getpid() || s.Memory == 0 || s.Began.IsZero() {
		t.Errorf("the gateway is %+v", s)
	}
	if _, body := g.get(gateway.StatusPath); strings.Contains(body, "bad") {
		t.Errorf("everybody is shown\n%s", body)
	}
	control := serveHTTP(t, g.Control())
	if code, body := send(t, http.DefaultClient, http.MethodPost, control+"/servers/bad/restart"); code != http.StatusConflict || !strings.Contains(body, "did you mean") {
		t.Errorf("a restart: %d %s", code, body)
	}
	g.reload("servers:\n  bad: {url: " + upstream(t, protocol.Latest) + "}\n  good: {url: " + upstream(t, protocol.Latest) + "}\n")
	if s := g.Status(); len(s.Servers) != 2 || s.Servers[0].State == "stopped" || s.Servers[0].Broken {
		t.Errorf("when it is mended, the servers are %+v", s.Servers)
	}
}
