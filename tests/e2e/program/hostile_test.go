package program

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/oauth"
)

// marker is a browser that notes what it is started with, in a directory of its own.
func marker(t *testing.T) (dir string) {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil || runtime.GOOS == "windows" {
		t.Skip("no sh to be the browser")
	}
	dir = t.TempDir()
	program := filepath.Join(dir, "browser")
	script := fmt.Sprintf("#!%s\nprintf '%%s\\n' \"$#\" \"$@\" > '%s/opened'.$$\n", sh, dir)
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	setenv(t, oauth.BrowserVariable, program)
	setenv(t, oauth.DirVariable, filepath.Join(t.TempDir(), "auth"))
	t.Chdir(dir) // where a shell would leave its files
	return dir
}

// trap is an address at which nobody may call.
func trap(t *testing.T) (port string, calls *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	calls = &atomic.Int32{}
	var done sync.WaitGroup
	done.Go(func() { // ends with the listener
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			calls.Add(1)
			_ = c.Close()
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		done.Wait()
	})
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, calls
}

// evil is a server that says what it likes about who issues its tokens.
type evil struct {
	URL                           string
	challenge, resource, metadata map[string]any // members that are not as they should be
	posts                         atomic.Int32
}

// start starts it, until the end of the test.
func (e *evil) start(t *testing.T) *evil {
	server := httptest.NewUnstartedServer(nil)
	e.URL = "http://" + server.Listener.Addr().String()
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var doc map[string]any
		var set map[string]any
		switch r.URL.Path {
		case "/mcp":
			announced := e.URL + "/resource"
			if at := e.challenge["resource_metadata"]; at != nil {
				announced = fmt.Sprint(at)
			}
			w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer resource_metadata="%s"`, announced))
			w.WriteHeader(http.StatusUnauthorized)
			return
		case "/resource":
			doc, set = map[string]any{"resource": e.URL + "/mcp", "authorization_servers": []string{e.URL}}, e.resource
		case "/.well-known/oauth-authorization-server":
			doc, set = map[string]any{"issuer": e.URL, "authorization_endpoint": e.URL + "/authorize", "token_endpoint": e.URL + "/token", "registration_endpoint": e.URL + "/register"}, e.metadata
		case "/register":
			doc = map[string]any{"client_id": "we"}
			w.WriteHeader(http.StatusCreated)
		default:
			e.posts.Add(1)
			http.NotFound(w, r)
			return
		}
		for name, value := range set {
			doc[name] = value
		}
		_ = json.NewEncoder(w).Encode(doc)
	})
	server.Start()
	t.Cleanup(server.Close)
	return e
}

// A server's metadata starts no program, makes nobody call inside, and is said to be what it is.
func TestS29_HostileMetadataStartsNothing(t *testing.T) {
	dir := marker(t)
	port, calls := trap(t)
	for _, test := range []struct {
		name                          string
		challenge, resource, metadata map[string]any
		want                          string
	}{
		{name: "javascript", metadata: map[string]any{"authorization_endpoint": "javascript:alert(1)"}, want: "authorization_endpoint"},
		{name: "a file", metadata: map[string]any{"authorization_endpoint": "file:///etc/passwd"}, want: "authorization_endpoint"},
		{name: "a flag", metadata: map[string]any{"authorization_endpoint": "--upload-pack=x"}, want: "authorization_endpoint"},
		{name: "a command", metadata: map[string]any{"authorization_endpoint": "http://a/$(touch m)"}, want: "authorization_endpoint"},
		{name: "a line", metadata: map[string]any{"authorization_endpoint": "https://ok.example/\n;touch m"}, want: "authorization_endpoint"},
		{name: "cloud metadata", challenge: map[string]any{"resource_metadata": "http://169.254.169.254/"}, want: "resource_metadata"},
		{name: "another port", challenge: map[string]any{"resource_metadata": "http://127.0.0.1:" + port + "/"}, want: "resource_metadata"},
		{name: "a mapped address", resource: map[string]any{"authorization_servers": []string{"http://[::ffff:127.0.0.1]:" + port}}, want: "authorization server"},
		{name: "a number", metadata: map[string]any{"token_endpoint": "http://0x7f000001:" + port + "/"}, want: "token_endpoint"},
		{name: "an inner server", metadata: map[string]any{"registration_endpoint": "http://10.0.0.1:" + port + "/"}, want: "registration_endpoint"},
		{name: "another issuer", metadata: map[string]any{"issuer": "https://ok.example"}, want: "its issuer is"},
		{name: "another resource", resource: map[string]any{"resource": "https://ok.example/mcp"}, want: "is not the server"},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := (&evil{challenge: test.challenge, resource: test.resource, metadata: test.metadata}).start(t)
			out, errs, status := runMain(t, "", "login", e.URL+"/mcp")
			if status != 3 || out != "" || !strings.Contains(errs, test.want) || strings.Count(errs, "\n") > 2 || len(errs) > 800 {
				t.Errorf("status %d: %s%s", status, out, errs)
			}
			if e.posts.Load() != 0 {
				t.Error("something else was asked of it")
			}
		})
	}
	if calls.Load() != 0 {
		t.Errorf("%d calls inside", calls.Load())
	}
	nothingStarted(t, dir)
}

// nothingStarted reports what a program has left.
func nothingStarted(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 1 {
		t.Errorf("there are %q, %v", files, err)
	}
}

// connect says the same to its client, and starts nothing either.
func TestConnectToAHostileServerAnswersByAnError(t *testing.T) {
	dir := marker(t)
	e := (&evil{metadata: map[string]any{"authorization_endpoint": "--upload-pack=x"}}).start(t)
	p := startMain(t, "connect", e.URL+"/mcp")
	if got := p.say(peertest.Hello(t).String()); !strings.Contains(got, `"error"`) || !strings.Contains(got, "authorization_endpoint") {
		t.Errorf("the answer is %s", got)
	}
	nothingStarted(t, dir)
}

// A page may have characters that mean something to a shell: no shell sees them.
func TestThePageIsOneArgumentOfTheBrowser(t *testing.T) {
	dir := marker(t)
	const page = "https://ok.example/;touch$IFS'm';$(m)&a=%0atouch%20m"
	e := (&evil{metadata: map[string]any{"authorization_endpoint": page}}).start(t)
	if _, errs, status := runMain(t, "", "login", "--auth-timeout", "1", e.URL+"/mcp"); status != 3 || !strings.Contains(errs, "in time") {
		t.Errorf("status %d: %s", status, errs)
	}
	opened, err := filepath.Glob(filepath.Join(dir, "opened*"))
	if err != nil || len(opened) != 1 {
		t.Fatalf("%q, %v", opened, err)
	}
	text, err := os.ReadFile(opened[0])
	if lines := strings.Split(strings.TrimSpace(string(text)), "\n"); err != nil || len(lines) != 2 || lines[0] != "1" || !strings.HasPrefix(lines[1], "https://ok.example/;touch$IFS") {
		t.Errorf("it is started with %s (%v)", text, err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*")); len(files) != 2 {
		t.Errorf("there are %q", files)
	}
}
