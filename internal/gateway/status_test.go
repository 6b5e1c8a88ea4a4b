package gateway_test

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway"
	"github.com/dragoman-mcp/dragoman/internal/gateway/upstream"
	"github.com/dragoman-mcp/dragoman/internal/observe/audit"
	"github.com/dragoman-mcp/dragoman/protocol"
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

// jsonNames adds the names that the fields of a type have in JSON, each with where it is.
func jsonNames(of reflect.Type, at string, names map[string]string) {
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		jsonNames(of.Elem(), at, names)
	case reflect.Struct:
		if of == reflect.TypeFor[time.Time]() {
			return
		}
		for f := range of.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if name == "" {
				name = f.Name
			}
			names[at+f.Name] = name
			jsonNames(f.Type, at+f.Name+".", names)
		}
	}
}

func TestEveryNameInTheStatusIsSpelledAlike(t *testing.T) {
	names := make(map[string]string)
	for _, of := range []reflect.Type{reflect.TypeFor[gateway.Status](), reflect.TypeFor[gateway.Reloaded](), reflect.TypeFor[gateway.Failed](), reflect.TypeFor[upstream.LogLine](), reflect.TypeFor[audit.Status]()} {
		jsonNames(of, of.Name()+".", names)
	}
	camel := regexp.MustCompile(`^[a-z][a-z0-9]*([A-Z][a-z0-9]+)*$`)
	for at, name := range names {
		if !camel.MatchString(name) {
			t.Errorf("%s is %q in JSON", at, name)
		}
	}
	if names["Status.Reload.Changes.Added"] == "" || names["Status.Webhook.Sent"] == "" || names["Status.Servers.LastErrorAt"] == "" {
		t.Errorf("not all fields were looked at: %v", names)
	}
	g := begin(t, "servers: {files: {url: "+startBuiltin(t, protocol.Latest)+"}}\n")
	g.reload("servers: {files: {url: " + startBuiltin(t, protocol.Latest) + "}, mail: {url: " + startBuiltin(t, protocol.Latest) + "}}\n")
	text, err := json.Marshal(g.Status())
	if err != nil || !strings.Contains(string(text), `"changes":{"added":["mail"],"replaced":["files"]}`) {
		t.Errorf("%v, the status is %s", err, text)
	}
}

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
	g := begin(t, "servers: {files: {url: "+startBuiltin(t, protocol.Latest)+"}, mail: {url: http://127.0.0.1:1/url-mark, headers: {Authorization: header-mark}}}\ngroups: {office: [files]}\n")
	status, header, body := look(t, g.url+"/", browser)
	if status != http.StatusOK || !strings.HasPrefix(header.Get("Content-Type"), "text/html") || !strings.HasPrefix(header.Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-") {
		t.Errorf("%d %v", status, header)
	}
	for _, want := range []string{"<h1>test 1</h1>", g.url + "/mcp<", g.url + "/sse<", "ws" + strings.TrimPrefix(g.url, "http") + "/ws<", g.url + "/call<", `href="` + g.url + "/servers/files/mcp\"", g.url + "/servers/mail/mcp<", g.url + "/groups/office/mcp<", ">Copy</button>", "claude mcp add --transport http test " + g.url + "/mcp"} {
		if !strings.Contains(body, want) {
			t.Errorf("no %q in\n%s", want, body)
		}
	}
	for _, mark := range []string{"src=", "url-mark", "header-mark", "127.0.0.1:1/"} {
		if strings.Contains(body, mark) {
			t.Errorf("%q is in\n%s", mark, body)
		}
	}
	if status, _, _ := look(t, g.url+"/nothing", browser); status != http.StatusNotFound {
		t.Errorf("another page: %d", status)
	}
}

// A browser that opens an MCP endpoint gets a page; a client of any transport does not.
func TestBrowserAtAnEndpointLearnsWhatToPasteWhere(t *testing.T) {
	g := begin(t, "servers: {files: {url: "+startBuiltin(t, protocol.LatestLegacy)+"}}\n")
	for path, name := range map[string]string{"/mcp": "test", "/servers/files/mcp": "files", "/servers/files/mcp/": "files"} {
		status, header, body := look(t, g.url+path, browser)
		url := g.url + strings.TrimSuffix(path, "/")
		if status != http.StatusOK || !strings.Contains(header.Get("Content-Security-Policy"), "script-src 'sha256-") {
			t.Errorf("%s: %d %v", path, status, header)
		}
		for _, want := range []string{url + "<", "claude mcp add --transport http " + name + " " + url, html.EscapeString(`"args": [`), "dragoman tools " + url} {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %q in\n%s", path, want, body)
			}
		}
	}
	for path, accept := range map[string]string{"/mcp": "text/event-stream", "/servers/files/mcp": "application/json", "/servers/none/mcp": browser, "/nothing/mcp": browser} {
		if _, _, body := look(t, g.url+path, accept); strings.Contains(body, "<html") {
			t.Errorf("%s by a client that accepts %s: %s", path, accept, body)
		}
	}
}

func TestBrowserWithoutATokenLearnsNoNames(t *testing.T) {
	guarded := begin(t, "auth: {tokens: 0123456789abcdef}\nservers: {files: {url: "+startBuiltin(t, protocol.LatestLegacy)+"}}\n")
	var first string
	for _, name := range []string{"files", "xyzzy"} { // of which only one exists
		status, header, body := look(t, guarded.url+"/servers/"+name+"/mcp", browser)
		body = strings.ReplaceAll(body, name, "NAME")
		if status != http.StatusUnauthorized || header.Get("WWW-Authenticate") == "" || !strings.Contains(body, "Clients must authenticate.") || first != "" && body != first {
			t.Errorf("%s without a token: %d %v\n%s", name, status, header, body)
		}
		first = body
	}
}

func TestAPersonInATerminalIsToldTheSame(t *testing.T) {
	g := begin(t, "servers: {files: {url: "+startBuiltin(t, protocol.Latest)+"}}\n")
	for _, accept := range []string{"*/*", "text/plain", "text/*;q=0.5"} {
		status, header, body := look(t, g.url+"/", accept)
		if status != http.StatusOK || header.Get("Content-Type") != "text/plain; charset=utf-8" || header.Get("Vary") == "" {
			t.Errorf("%s: %d %v", accept, status, header)
		}
		for _, want := range []string{"test 1", g.url + "/mcp ", g.url + "/sse ", "/ws ", g.url + "/call ", g.url + "/servers/files\n", g.url + "/status"} {
			if !strings.Contains(body, want) {
				t.Errorf("no %q in\n%s", want, body)
			}
		}
	}
	if status, _ := send(t, http.DefaultClient, http.MethodHead, g.url+"/"); status != http.StatusNotFound {
		t.Errorf("HEAD that accepts nothing by name: %d", status)
	}
}

// Clients that were given the wrong URL would take a page for an answer.
func TestAProgramAtTheWrongPlaceIsToldSo(t *testing.T) {
	g := begin(t, "servers: {files: {url: "+startBuiltin(t, protocol.Latest)+"}}\n")
	for _, accept := range []string{"application/json", "application/json, text/event-stream", "text/event-stream", "text/event-stream, */*", "application/json, text/plain, */*", ""} {
		for _, path := range []string{"/", "/nothing", "/servers/files/"} {
			if status, _, body := look(t, g.url+path, accept); status != http.StatusNotFound || !strings.Contains(body, "the endpoints of a server are /mcp, /sse") {
				t.Errorf("GET %s by a program that accepts %q: %d %s", path, accept, status, body)
			}
		}
	}
	for _, method := range []string{http.MethodPost, http.MethodDelete, http.MethodPut, "upgrade"} {
		req, err := http.NewRequestWithContext(within(t), method, g.url+"/", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "*/*")
		if method == "upgrade" { // a socket, by a client that takes anything
			req.Method = http.MethodGet
			req.Header.Set("Connection", "Upgrade")
			req.Header.Set("Upgrade", "websocket")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s: %s", method, resp.Status)
		}
	}
}

func TestAPersonIsNotToldOfServersThatAreProtected(t *testing.T) {
	tokens := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(tokens, []byte("0123456789abcdef0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := begin(t, "auth: {tokenFile: "+tokens+"}\nservers: {hidden-mark: {url: "+startBuiltin(t, protocol.Latest)+"}}\n")
	for _, accept := range []string{browser, "*/*"} {
		status, _, body := look(t, g.url+"/", accept)
		if status != http.StatusOK || strings.Contains(body, "hidden-mark") || !strings.Contains(body, "Clients must authenticate") {
			t.Errorf("%s: %d\n%s", accept, status, body)
		}
	}
	if status, _, _ := look(t, g.url+"/", "application/json, text/event-stream"); status != http.StatusUnauthorized {
		t.Errorf("a program: %d", status)
	}
	if status, _, _ := look(t, g.url+gateway.StatusPath, browser); status != http.StatusUnauthorized {
		t.Errorf("the status: %d", status)
	}
}

// A server that cannot be configured is one of the owner's, and says why it is not there.
func TestServersWithErrorsAreStopped(t *testing.T) {
	g := begin(t, "servers:\n  bad: {comand: x}\n  good: {url: "+startBuiltin(t, protocol.Latest)+"}\n")
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
	g.reload("servers:\n  bad: {url: " + startBuiltin(t, protocol.Latest) + "}\n  good: {url: " + startBuiltin(t, protocol.Latest) + "}\n")
	if s := g.Status(); len(s.Servers) != 2 || s.Servers[0].State == "stopped" || s.Servers[0].Broken {
		t.Errorf("when it is mended, the servers are %+v", s.Servers)
	}
}
