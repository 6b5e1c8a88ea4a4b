package program

import (
	"crypto/md5"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/gateway/builtin"
	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/oauth"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// windowsVariable names a directory in which each window of browse leaves a file. In one
// that holds a file "wait" it goes nowhere until that is gone.
const windowsVariable = "DRAGOMAN_TEST_WINDOWS"

// browse is a user who has a page opened and signs in.
func browse(page string) {
	dir := os.Getenv(windowsVariable)
	if dir != "" {
		_ = os.WriteFile(filepath.Join(dir, fmt.Sprint("window", os.Getpid())), []byte(page), 0o600)
	}
	for {
		_, err := os.Stat(filepath.Join(dir, "wait"))
		if dir == "" || err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for range 500 { // who listens may change
		if resp, err := http.Get(page); err == nil {
			_ = resp.Body.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// windows returns the pages that were opened.
func windows(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "window*"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// protected is the built-in server, for those who sign in.
func protected(t *testing.T, opts *authtest.Options) (server *authtest.Server, dir string) {
	t.Helper()
	inner := builtin.New(nil)
	endpoint := &streamable.Server{Sessions: inner, Requests: inner.Requests()}
	t.Cleanup(func() {
		_ = endpoint.Close()
		inner.Close()
	})
	if opts == nil {
		opts = &authtest.Options{}
	}
	opts.Resource = endpoint
	dir = t.TempDir()
	setenv(t, windowsVariable, dir)
	setenv(t, oauth.DirVariable, filepath.Join(t.TempDir(), "auth"))
	return authtest.New(t, opts), dir
}

// useServer has a process of connect initialize and call a tool.
func useServer(t *testing.T, p *process) {
	t.Helper()
	if got := p.say(peertest.Hello(t).String()); !strings.Contains(got, "serverInfo") {
		t.Errorf("initialize: %s", got)
		return
	}
	p.tell(t, protocol.NoteInitialized)
	if got := p.say(peertest.Echo(t, protocol.Legacy).String()); !strings.Contains(got, "hello there") {
		t.Errorf("echo: %s", got)
	}
}

// twenty starts as many processes at once, and uses each.
func twenty(t *testing.T, args ...string) {
	t.Helper()
	var all sync.WaitGroup
	for range 20 {
		p := startMain(t, args...)
		all.Go(func() { useServer(t, p) })
	}
	all.Wait()
}

func TestConnectSignsInOnceHoweverManyProcessesWait(t *testing.T) {
	t.Parallel()
	server, dir := protected(t, nil)
	twenty(t, "connect", server.URL)
	if n := len(windows(t, dir)); n != 1 || server.Count("authorize") != 1 || server.Count("code") != 1 {
		t.Errorf("%d windows, %d sign-ins, %d codes", n, server.Count("authorize"), server.Count("code"))
	}
	server.Expire()
	twenty(t, "connect", server.URL)
	if server.Count("refresh") != 1 || server.Count("reuse") != 0 || server.Count("authorize") != 1 {
		t.Errorf("then %d refreshes, %d reuses, %d sign-ins", server.Count("refresh"), server.Count("reuse"), server.Count("authorize"))
	}
}

func TestASignInOutlivesTheProcessThatBeganIt(t *testing.T) {
	t.Parallel()
	server, dir := protected(t, nil)
	wait := filepath.Join(dir, "wait")
	if err := os.WriteFile(wait, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	first := startMain(t, "connect", server.URL)
	if _, err := io.WriteString(first.stdin, peertest.Hello(t).String()+"\n"); err != nil {
		t.Fatal(err)
	}
	first.await("in the browser")
	for { // until it has noted that
		files, _ := filepath.Glob(filepath.Join(getenv(t, oauth.DirVariable), "*.pending"))
		if len(files) == 1 {
			if text, _ := os.ReadFile(files[0]); strings.Contains(string(text), `"shown":true`) {
				break
			}
		}
		time.Sleep(time.Millisecond)
	}
	second := startMain(t, "connect", server.URL)
	done := make(chan struct{})
	go func() {
		defer close(done)
		useServer(t, second)
	}()
	_ = first.cmd.Process.Kill()
	<-first.ended
	second.await("the sign-in that another process began is waited for here")
	if err := os.Remove(wait); err != nil {
		t.Fatal(err)
	}
	<-done
	if n := len(windows(t, dir)); n != 1 || server.Count("code") != 1 {
		t.Errorf("%d windows, %d codes", n, server.Count("code"))
	}
}

func TestLoginIsForAllCommandsUntilLogout(t *testing.T) {
	t.Parallel()
	server, _ := protected(t, &authtest.Options{Needs: "read"})
	if out, _, status := runMain(t, "", "auth", "status"); status != 0 || !strings.Contains(out, "nobody is signed in") {
		t.Errorf("status %d: %s", status, out)
	}
	if _, errs, status := runMain(t, "", "auth", "token", server.URL); status != 3 || !strings.Contains(errs, "dragoman login") {
		t.Errorf("a token before: status %d: %s", status, errs)
	}
	out, errs, status := runMain(t, "", "login", server.URL)
	if status != 0 || !strings.Contains(out, "signed in to localhost, for read (token for ") {
		t.Fatalf("login: status %d: %s%s", status, out, errs)
	}
	token, _, status := runMain(t, "", "auth", "token", server.URL)
	if status != 0 || !strings.HasPrefix(token, "access-") {
		t.Errorf("the token is %q", token)
	}
	out, _, _ = runMain(t, "", "auth", "status")
	if !strings.Contains(out, server.URL+"  yes") || strings.Contains(out, "access-") || strings.Contains(out, "refresh-") {
		t.Errorf("status: %s", out)
	}
	useServer(t, startMain(t, "connect", "--no-browser", server.URL))
	if out, _, status := runMain(t, "", "logout", server.URL); status != 0 || !strings.Contains(out, "signed out of") || server.Count("revoke") != 2 {
		t.Errorf("logout: status %d, %d revocations: %s", status, server.Count("revoke"), out)
	}
	if server.Count("authorize") != 1 {
		t.Errorf("%d sign-ins", server.Count("authorize"))
	}
}

func TestAuthStatusShowsTheSignInsBesideOneThatIsDamaged(t *testing.T) {
	t.Parallel()
	server, _ := protected(t, nil)
	dir := getenv(t, oauth.DirVariable)
	if _, errs, status := runMain(t, "", "login", server.URL); status != 0 {
		t.Fatal(errs)
	}
	damaged := filepath.Join(dir, "damaged.json")
	if err := os.WriteFile(damaged, []byte(`{"server":`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"auth", "status"}, {"auth", "status", "--json"}} {
		out, errs, status := runMain(t, "", args...)
		if status != 0 || !strings.Contains(out, server.URL) || !strings.Contains(errs, "warning: a sign-in cannot be read: "+damaged+": it is damaged; delete that file") {
			t.Errorf("%q: status %d: %s%s", args, status, out, errs)
		}
	}
	whole, err := filepath.Glob(filepath.Join(dir, "*.json"))
	for _, name := range whole {
		if err == nil && name != damaged {
			err = os.Remove(name)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, errs, status := runMain(t, "", "auth", "status"); status != 1 || strings.Contains(out, "nobody is signed in") || !strings.Contains(errs, damaged) {
		t.Errorf("alone: status %d: %s%s", status, out, errs)
	}
}

func TestWithoutABrowserTheUserIsToldWhereToSignIn(t *testing.T) {
	t.Parallel()
	server, dir := protected(t, &authtest.Options{NoDevice: true})
	p := startMain(t, "connect", "--no-browser", server.URL)
	done := make(chan struct{})
	go func() {
		defer close(done)
		useServer(t, p)
	}()
	_, page, _ := strings.Cut(p.await(": open http"), ": open http")
	page, _, _ = strings.Cut("http"+page, "\n")
	resp, err := http.Get(page)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, _ := io.ReadAll(resp.Body); !strings.Contains(string(text), "You are signed in") {
		t.Errorf("the page says %s", text)
	}
	<-done
	if len(windows(t, dir)) != 0 {
		t.Error("a browser is opened")
	}
}

// codeOf returns the code that a process says is to be entered.
func codeOf(p *process) string {
	_, code, _ := strings.Cut(p.await(" and enter "), " and enter ")
	code, _, _ = strings.Cut(code, "\n")
	return code
}

// A page that comes back to this machine is of no use to somebody elsewhere, so where there is
// no browser it is a code, if there are codes.
func TestWithoutABrowserTheUserIsToldACodeForAnyMachine(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"told so": {"--no-browser"}, "there is none": nil} {
		t.Run(name, func(t *testing.T) {
			if args == nil {
				if runtime.GOOS != "linux" {
					t.Skip("there is always one")
				}
				for _, name := range []string{oauth.BrowserVariable, "DISPLAY", "WAYLAND_DISPLAY"} {
					setenv(t, name, "")
				}
			}
			server, dir := protected(t, nil)
			p := startMain(t, append([]string{"connect", server.URL}, args...)...)
			done := make(chan struct{})
			go func() {
				defer close(done)
				useServer(t, p)
			}()
			server.Approve(codeOf(p))
			<-done
			if len(windows(t, dir)) != 0 || server.Count("authorize") != 0 {
				t.Errorf("%d windows, %d sign-ins by page", len(windows(t, dir)), server.Count("authorize"))
			}
		})
	}
}

func TestACallbackPortMeansAPageOfThisMachine(t *testing.T) {
	t.Parallel()
	server, _ := protected(t, nil)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_ = l.Close() // it is free now
	p := startMain(t, "login", "--no-browser", "--callback-port", port, server.URL)
	_, page, _ := strings.Cut(p.await(": open http"), ": open http")
	page, _, _ = strings.Cut("http"+page, "\n")
	resp, err := http.Get(page)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if out, _ := p.stdout.ReadString('\n'); !strings.Contains(out, "signed in to") {
		t.Errorf("it says %q", out)
	}
	if status := p.wait(); status != 0 || server.Count("device") != 0 || server.Count("code") != 1 {
		t.Errorf("status %d, %d codes for devices, %d sign-ins by page", status, server.Count("device"), server.Count("code"))
	}
}

// The command that serve tells a caller to run opens a browser where the code is entered that
// serve waits for.
func TestServePrintsACodeAndLoginOpensItsPage(t *testing.T) {
	t.Parallel()
	server, dir := protected(t, &authtest.Options{CodeInURL: true})
	file := filepath.Join(t.TempDir(), "dragoman.yaml")
	if err := os.WriteFile(file, []byte(fmt.Sprintf("servers:\n  closed: {url: %q}\n", server.URL)), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startMain(t, "serve", "--listen", "127.0.0.1:0", file)
	at := strings.TrimSuffix(p.place("http://"), "/mcp") + "/servers/closed/mcp"
	code, body := codeOf(p), peertest.Echo(t, protocol.Modern).String()
	if got := postModern(t, at, body); !strings.Contains(got, "dragoman login closed -f "+file) || strings.Contains(got, code) {
		t.Errorf("the caller is told %s", got)
	}
	if _, errs, status := runMain(t, "", "login", "closed", "-f", file); status != 0 || !strings.Contains(errs, "in the browser and enter "+code) {
		t.Fatalf("login: status %d: %s", status, errs)
	}
	if n := len(windows(t, dir)); n != 1 || server.Count("device") != 1 {
		t.Errorf("%d windows, %d codes", n, server.Count("device"))
	}
	for deadline := time.Now().Add(soon); ; {
		got := postModern(t, at, body)
		if strings.Contains(got, "hello there") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after the sign-in: %s", got)
		}
	}
}

// A server that wants a sign-in holds up nobody: neither its own callers nor the others.
func TestServeAnswersAtOnceWhereASignInIsNeeded(t *testing.T) {
	t.Parallel()
	server, _ := protected(t, &authtest.Options{NoDevice: true})
	file := filepath.Join(t.TempDir(), "dragoman.yaml")
	text := fmt.Sprintf("servers:\n  closed: {url: %q}\n  open: {command: %q, args: [everything], env: {%s: '1'}}\n", server.URL, os.Args[0], mainVariable)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startMain(t, "serve", "--listen", "127.0.0.1:0", file)
	base := strings.TrimSuffix(p.place("http://"), "/mcp")
	p.await("sign in to closed: open http")
	body := peertest.Echo(t, protocol.Modern).String()
	if got := postModern(t, base+"/servers/open/mcp", body); !strings.Contains(got, "hello there") {
		t.Errorf("the open one: %s", got)
	}
	got := postModern(t, base+"/servers/closed/mcp", body)
	if !strings.Contains(got, "-31007") || !strings.Contains(got, "dragoman login closed -f "+file) {
		t.Errorf("the closed one: %s", got)
	}
	if resp, err := http.Get(base + "/status"); err == nil {
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if !strings.Contains(string(text), "sign-in needed") {
			t.Errorf("the status is %s", text)
		}
	}
	if out, errs, status := runMain(t, "", "login", "closed", "-f", file); status != 0 {
		t.Fatalf("login: status %d: %s%s", status, out, errs)
	}
	for deadline := time.Now().Add(soon); ; { // the server is tried again within ten seconds
		if got = postModern(t, base+"/servers/closed/mcp", body); strings.Contains(got, "hello there") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after the sign-in: %s", got)
		}
	}
}

// postModern makes a tool call of the modern era.
func postModern(t *testing.T, at, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, at, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", protocol.HeaderVersion: protocol.Latest.String(),
		"Mcp-Method": protocol.MethodCallTool, "Mcp-Name": "echo",
	} {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	return string(text)
}

func TestTheCommandLineOfMcpRemoteSignsIn(t *testing.T) {
	t.Parallel()
	server, dir := protected(t, &authtest.Options{NoRegistration: true})
	info := filepath.Join(t.TempDir(), "client.json")
	if err := os.WriteFile(info, []byte(`{"client_id":"client","client_secret":"secret"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	useServer(t, startMain(t, "connect", server.URL, "0", "--host", "localhost", "--callback-path", "/oauth/callback", "--static-oauth-client-info", "@"+info,
		"--static-oauth-client-metadata", `{"scope":"read write"}`, "--authorize-param", "prompt=consent", "--auth-timeout", "60", "--allow-http", "--enable-proxy"))
	opened := windows(t, dir)
	if len(opened) != 1 {
		t.Fatalf("%d windows", len(opened))
	}
	page, err := os.ReadFile(opened[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"redirect_uri=http%3A%2F%2Flocalhost%3A", "%2Foauth%2Fcallback", "client_id=client&", "prompt=consent", "scope=read+write"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page lacks %s: %s", want, page)
		}
	}
	for _, args := range [][]string{
		{"--static-oauth-client-info", "secret"}, {"--static-oauth-client-info", "@" + info + "x"}, {"--authorize-param", "x"}, {"--use-id-token"}, {"--auth-timeout", "soon"},
		{"--device-code", "--client-credentials"}, {"--host", "example.com"}, {"--client-secret-file", "/nowhere"},
	} {
		_, errs, status := runMain(t, "", append([]string{"connect", server.URL}, args...)...)
		if status != term.ExitOther && status != term.ExitUsage || strings.Contains(errs, "ready") || strings.Contains(errs, "secret\"") {
			t.Errorf("%q: status %d, %s", args, status, errs)
		}
	}
}

func TestLoginWithoutASignInSaysWhatToDo(t *testing.T) {
	t.Parallel()
	open := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(open.Close)
	if _, errs, status := runMain(t, "", "login", open.URL); status != 3 || !strings.Contains(errs, "offers no sign-in\n") ||
		!strings.Contains(errs, "dragoman tools "+open.URL) {
		t.Errorf("a server without one: status %d: %s", status, errs)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	if _, errs, status := runMain(t, "", "login", gone.URL); status != 4 || !strings.Contains(errs, "connection refused") {
		t.Errorf("a server that is not there: status %d: %s", status, errs)
	}
}

func TestASignInOfMcpRemoteIsTakenOver(t *testing.T) {
	t.Parallel()
	server, dir := protected(t, nil)
	home := t.TempDir()
	setenv(t, "MCP_REMOTE_CONFIG_DIR", home)
	if _, errs, status := runMain(t, "", "login", "--from-mcp-remote", server.URL); status != 3 || !strings.Contains(errs, "mcp-remote has no sign-in") {
		t.Errorf("without one: status %d, %s", status, errs)
	}
	access, refresh, client := server.Issue()
	name := filepath.Join(home, "mcp-remote-v1", fmt.Sprintf("%x", md5.Sum([]byte(server.URL)))) //nolint:gosec // as mcp-remote does
	if err := os.Mkdir(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"_tokens.json":      fmt.Sprintf(`{"access_token":%q,"refresh_token":%q,"token_type":"Bearer","expires_at":1000}`, access, refresh),
		"_client_info.json": fmt.Sprintf(`{"client_id":%q,"redirect_uris":["http://localhost:3334/oauth/callback"]}`, client),
	} {
		if err := os.WriteFile(name+file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, errs, status := runMain(t, "", "login", "--from-mcp-remote", server.URL); status != 0 || !strings.Contains(out, "signed in to") {
		t.Fatalf("status %d, %s%s", status, out, errs)
	}
	useServer(t, startMain(t, "connect", server.URL))
	if n := len(windows(t, dir)); n != 0 || server.Count("refresh") != 1 {
		t.Errorf("%d windows, %d refreshes", n, server.Count("refresh"))
	}
}

// The client that somebody has signed in with is known from then on.
func TestAClientIsNamedOnce(t *testing.T) {
	t.Parallel()
	server, dir := protected(t, &authtest.Options{NoRegistration: true})
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs, status := runMain(t, "", "login", server.URL); status != 3 || !strings.Contains(errs, "lets no client register by itself") {
		t.Errorf("without a client: status %d, %s", status, errs)
	}
	if _, errs, status := runMain(t, "", "login", "--client-id", "client", "--client-secret-file", secret, server.URL); status != 0 {
		t.Fatalf("login: status %d, %s", status, errs)
	}
	server.Expire()
	useServer(t, startMain(t, "connect", server.URL))
	if len(windows(t, dir)) != 1 || server.Count("refresh") != 1 {
		t.Errorf("%d windows, %d refreshes", len(windows(t, dir)), server.Count("refresh"))
	}
	if out, _, status := runMain(t, "", "logout", server.URL); status != 0 || !strings.Contains(out, "signed out") {
		t.Errorf("logout: status %d, %s", status, out)
	}
}

func TestInAPipeAndForAShellNobodyIsAskedToSignIn(t *testing.T) {
	server, dir := protected(t, nil)
	for _, args := range [][]string{{"tools", server.URL}, {"__complete", "tools", server.URL, ""}} {
		_, said, status := runMain(t, "", args...)
		if opened := windows(t, dir); len(opened) > 0 {
			t.Errorf("%q opens %q", args, opened)
		}
		if args[0] == "tools" && (status != term.ExitAuthorization || !strings.Contains(said, "run: dragoman login "+server.URL+"\n")) {
			t.Errorf("%q: status %d\n%s", args, status, said)
		}
	}
	// login knows no name of a server that was named by its URL.
	if _, said, status := runMain(t, "", "tools", server.URL+"?k=1"); status != term.ExitAuthorization || !strings.Contains(said, "run: dragoman login URL\n") {
		t.Errorf("status %d\n%s", status, said)
	}
	file := filepath.Join(t.TempDir(), "servers.yaml")
	writeAt(t, file, "servers: {closed: {url: '"+server.URL+"?k=1'}}")
	if _, said, status := runMain(t, "", "tools", file+"#closed"); status != term.ExitAuthorization || !strings.Contains(said, "run: dragoman login closed -f "+file+"\n") {
		t.Errorf("status %d\n%s", status, said)
	}
}
