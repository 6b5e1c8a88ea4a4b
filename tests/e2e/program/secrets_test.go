package program

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/md5"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/authtest"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// A life is all that can be done with a sign-in, with everything that was said on the way,
// by what said it.
type life struct {
	t      *testing.T
	server *authtest.Server
	dir    string // of windows
	files  string // a directory for files
	seen   map[string]string
}

func (l *life) note(what, text string) { l.seen[what] += text + "\n" }

// file makes a file and returns its name.
func (l *life) file(name, text string) string {
	l.t.Helper()
	name = filepath.Join(l.files, name)
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		l.t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
	return name
}

// run runs a command to its end.
func (l *life) run(want int, args ...string) {
	l.t.Helper()
	out, errs, status := runMain(l.t, "", args...)
	l.note(strings.Join(args[:2], " "), out+errs)
	if status != want {
		l.t.Errorf("%q: status %d: %s%s", args, status, out, errs)
	}
}

// connect has a client initialize, and call a tool if that works.
func (l *life) connect(works bool, args ...string) {
	l.t.Helper()
	p := startMain(l.t, append([]string{"connect", "--debug"}, args...)...)
	answer := p.say(peertest.Hello(l.t).String())
	l.note("connect's answer", answer)
	if works != strings.Contains(answer, "serverInfo") {
		l.t.Errorf("connect %q: %s", args, answer)
	}
	if works {
		p.tell(l.t, protocol.NoteInitialized)
		l.note("connect's answer", p.say(peertest.Echo(l.t, protocol.Legacy).String()))
	}
	l.note("arguments", arguments(p.cmd.Process.Pid))
	_ = p.stdin.Close()
	p.wait()
	l.note("connect", p.said())
}

// arguments returns those of a process and of its children, where the system shows them.
func arguments(pid int) (all string) {
	list, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, file := range list {
		text, _ := os.ReadFile(file)
		for child := range strings.FieldsSeq(string(text)) {
			command, _ := os.ReadFile(filepath.Join("/proc", child, "cmdline"))
			all += string(command) + "\n"
		}
	}
	command, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return all + string(command)
}

// users signs in by a browser, refreshes, gets a further scope and signs out.
func (l *life) users() {
	l.run(0, "login", "--debug", l.server.URL)
	l.connect(true, l.server.URL)
	l.server.Expire()
	l.connect(true, l.server.URL)
	l.connect(true, l.server.URL+"?need=write")
	l.server.Expire()
	l.server.Break(true)
	l.connect(false, l.server.URL)
	l.server.Break(false)
	l.run(0, "auth", "status")
	l.run(0, "auth", "status", "--json")
	if out, errs, _ := runMain(l.t, "", "auth", "token", "--debug", l.server.URL); l.leaks(out) == "" {
		l.t.Errorf("a token that is asked for is not found: %s%s", out, errs)
	}
	l.run(0, "logout", "--debug", l.server.URL)
}

// programs sign in by a secret, by one that is wrong, and by a key.
func (l *life) programs() {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		l.t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		l.t.Fatal(err)
	}
	as := []string{l.server.URL, "--client-credentials", "--client-id"}
	l.connect(true, append(as, "client", "--client-secret-file", l.file("secret", clientSecret+"\n"))...)
	l.run(3, append([]string{"login", "--debug", "--client-secret-file", l.file("wrong", "canary-wrong-secret")}, append(as, "client")...)...)
	l.connect(true, append(as, "signer", "--client-key-file", l.file("key.pem", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text}))))...)
}

// others signs in by a code, and takes over what another program has.
func (l *life) others() {
	p := startMain(l.t, "login", "--debug", "--device-code", l.server.URL)
	_, code, _ := strings.Cut(p.await("and enter "), "and enter ")
	code, _, _ = strings.Cut(code, "\n")
	l.server.Approve(strings.TrimSpace(code))
	done, _ := p.stdout.ReadString('\n')
	if status := p.wait(); status != 0 || !strings.Contains(done, "signed in to") {
		l.t.Errorf("the device: status %d: %s", status, done)
	}
	l.note("login --device-code", done+p.said())
	access, refresh, client := l.server.Issue()
	name := filepath.Join("mcp-remote-v1", fmt.Sprintf("%x", md5.Sum([]byte(l.server.URL)))) //nolint:gosec // as mcp-remote does
	l.file(name+"_tokens.json", fmt.Sprintf(`{"access_token":%q,"refresh_token":%q,"token_type":"Bearer","expires_at":1000}`, access, refresh))
	l.file(name+"_client_info.json", fmt.Sprintf(`{"client_id":%q}`, client))
	setenv(l.t, "MCP_REMOTE_CONFIG_DIR", l.files)
	l.run(0, "login", "--debug", "--from-mcp-remote", l.server.URL)
}

// gateway serves with the sign-in, and then with one that has ended.
func (l *life) gateway() {
	setenv(l.t, "XDG_RUNTIME_DIR", l.t.TempDir())
	file := l.file("dragoman.yaml", fmt.Sprintf("state: %q\nservers:\n  closed: {url: %q}\n", l.t.TempDir(), l.server.URL))
	p := startMain(l.t, "serve", "--debug", "--listen", "127.0.0.1:0", file)
	base := strings.TrimSuffix(p.place("http://"), "/mcp")
	ask := func(want string) {
		body := peertest.Echo(l.t, protocol.Modern).String()
		got := postModern(l.t, base+"/servers/closed/mcp", body)
		l.note("serve's answer", got)
		if !strings.Contains(got, want) {
			l.t.Errorf("serve: %s", got)
		}
		if resp, err := http.Get(base + "/status"); err == nil {
			text, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			l.note("/status", string(text))
		}
		out, errs, _ := runMain(l.t, "", "status", "--json", file)
		l.note("dragoman status", out+errs)
		if !strings.Contains(out, "closed") {
			l.t.Errorf("status: %s%s", out, errs)
		}
	}
	ask("hello there")
	l.server.Revoke()
	ask("-31007")
	_ = p.cmd.Process.Kill()
	p.wait()
	l.note("serve", p.said())
}

// leaks returns which secret is in a text.
func (l *life) leaks(text string) string {
	for what, list := range l.server.Secrets() {
		for _, secret := range list {
			if len(secret) >= 8 && strings.Contains(text, secret) {
				return what + " " + secret
			}
		}
	}
	return ""
}

const clientSecret = "canary-client-secret"

// Whatever is done, no secret is said: not in logs at any level, in answers, in errors, in
// /status, and not in the arguments of a process.
func TestS56_NoSecretIsEverSaid(t *testing.T) {
	t.Parallel()
	server, dir := protected(t, &authtest.Options{Needs: "read", Scopes: []string{"read", "write"}, Secret: clientSecret})
	l := &life{t: t, server: server, dir: dir, files: t.TempDir(), seen: make(map[string]string)}
	l.users()
	l.programs()
	l.others()
	l.gateway()
	for _, window := range windows(t, dir) {
		text, err := os.ReadFile(window)
		if err != nil {
			t.Fatal(err)
		}
		l.note("the browser's argument", string(text))
	}
	secrets := server.Secrets()
	for _, what := range []string{"access_token", "refresh_token", "code", "code_verifier", "client_secret", "basic", "client_assertion", "device_code"} {
		if len(secrets[what]) == 0 {
			t.Errorf("there was no %s in all this", what)
		}
	}
	for what, text := range l.seen {
		if secret := l.leaks(text); secret != "" {
			t.Errorf("%s says the %s:\n%s", what, secret, text)
		}
		if len(strings.TrimSpace(text)) == 0 {
			t.Errorf("%s says nothing at all", what)
		}
	}
}
