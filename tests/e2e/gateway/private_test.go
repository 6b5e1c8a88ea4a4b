//go:build unix

package gateway

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// TestS56_NoSecretAndNoTrickReachesTheLog has secrets in a configuration, and clients that
// write to the log what they like.
func TestS56_NoSecretAndNoTrickReachesTheLog(t *testing.T) {
	t.Parallel() // with a gateway of its own
	const secret, filed, hidden = "hush-hush-0123456789", "filed-secret-0123456789", "our-own-0123456789"
	file := t.TempDir() + "/secret"
	writeFile(t, file, filed+"\n")
	m := newHostile(t, fault.Modern)
	g := gatewaytest.Serve(t, &gatewaytest.Options{
		Config: object{
			"log": object{"level": "debug", "format": "json"},
			"servers": object{
				server:  object{"url": m.URL, "headers": object{"Authorization": "Bearer ${API_TOKEN}", "X-Api-Key": "${file:" + file + "}"}},
				"other": with(child(t, fault.Modern, newJournal(t), "TOKEN=${API_TOKEN}"), object{"args": []string{"--token=${API_TOKEN}"}}),
			},
		},
		Launch: gatewaytest.Launch{Env: []string{"API_TOKEN=" + secret, "GATEWAY_SECRET=" + hidden}},
	})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	c := enter(ctx, t, g, server, gatewaytest.HTTP, protocol.Modern)
	for _, text := range []string{"${API_TOKEN}", "${GATEWAY_SECRET}", "${env:GATEWAY_SECRET}", "$${HOME}", "${file:/etc/passwd}", "{{.Env}}"} {
		echoes(ctx, t, c, text)
	}
	tricks := []string{"x\n{\"level\":\"error\",\"msg\":\"forged\"}", "\x1b[2Jcleared", "x\r\nlevel=ERROR msg=forged", "\u202eforged", "${API_TOKEN}"}
	for _, trick := range tricks {
		if _, err := c.Tool(ctx, trick, object{}); err == nil {
			t.Errorf("there is a tool %q", trick)
		}
		h, body := modernText(t, protocol.MethodListTools, 1, nil)
		h.Set(protocol.HeaderSession, strings.NewReplacer("\n", "", "\r", "", "\x1b", "").Replace(trick))
		h.Set("User-Agent", "${API_TOKEN} [2J")
		_ = posted(ctx, t, g, h, body)
	}
	_, status := g.Control("/status")
	_, public := g.Get("/status")
	for where, text := range map[string]string{"the log": g.Stderr(), "the status": status, "the public status": public} {
		for _, word := range []string{secret, filed, hidden} {
			if strings.Contains(text, word) {
				t.Errorf("%s holds %q", where, word)
			}
		}
	}
	for line := range strings.Lines(g.Stderr()) {
		if strings.HasPrefix(line, `{"level":"error","msg":"forged"`) || strings.HasPrefix(line, "level=ERROR msg=forged") || strings.Contains(line, "\x1b") {
			t.Errorf("the log has the line %q", line)
		}
	}
}

// TestS56_VariableThatIsNotSetIsNamed starts with a variable that is not there.
func TestS56_VariableThatIsNotSetIsNamed(t *testing.T) {
	t.Parallel() // with a gateway of its own
	file := t.TempDir() + "/dragoman.json"
	gatewaytest.WriteConfig(t, file, object{"servers": object{server: object{"url": "http://127.0.0.1:1/mcp", "headers": object{"Authorization": "Bearer ${NOT_SET_AT_ALL}", "X": "${IS_SET}"}}}})
	p := gatewaytest.Start(t, gatewaytest.Launch{Env: []string{"IS_SET=hush-hush-0123456789"}}, "config", "check", file)
	if status := p.Wait(gatewaytest.Patience); status == 0 {
		t.Error("it is taken for right")
	}
	if said := p.Stderr(); !strings.Contains(said, "NOT_SET_AT_ALL") || strings.Contains(said, "hush-hush") {
		t.Errorf("it says %s", said)
	}
}

// TestS58_NobodyButTheOwnerControlsTheGateway looks for the control of a running gateway
// from where others are.
func TestS58_NobodyButTheOwnerControlsTheGateway(t *testing.T) {
	t.Parallel() // with a gateway of its own
	const token = "a-token-of-some-length-0123456789"
	file := t.TempDir() + "/tokens"
	writeFile(t, file, token+"\n")
	j := newJournal(t)
	g := gatewaytest.Serve(t, &gatewaytest.Options{
		Config: object{
			"auth": object{"tokenFile": file}, "state": "state",
			"servers": object{server: with(child(t, fault.Legacy, j, "SECRET=${API_TOKEN}"), object{"lazy": true})},
		},
		Launch: gatewaytest.Launch{Env: []string{"API_TOKEN=softly-softly-0123456789"}},
	})
	g.Leave() // its probes have no token
	if code, body := g.Control("/status"); code != http.StatusOK {
		t.Fatalf("the owner gets %d %s", code, body)
	}
	started := len(j.Of(fault.Started, ""))
	for _, path := range []string{
		"/reload", "/control", "/control/reload", "/servers/" + server + "/restart", "/servers/" + server + "/logs", "/servers/" + server + "/test", "/servers/" + server + "/start",
		"/servers", "/servers/", "/admin", "/api/servers", "/config", "/test", "/preview", "/mcp-rest/test/connection", "/debug/pprof/", "/debug/pprof/heap", "/debug/vars", "/console", "/logs",
	} {
		for _, method := range []string{"GET", "POST", "PUT", "DELETE"} {
			for _, lines := range []string{"", "Authorization: Bearer " + token + "\r\n", "Authorization: Bearer " + token + "\r\nContent-Type: text/plain\r\n", "Authorization: Bearer " + token + "\r\nOrigin: http://evil.example\r\n"} {
				body := `{"name":"new","command":"touch","args":["` + file + `.made"]}`
				resp, text := exchange(t, g, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: %d\r\nConnection: close\r\n\r\n%s", method, path, lines, len(body), body))
				if resp == nil || resp.StatusCode < 400 || resp.StatusCode >= 500 {
					t.Errorf("%s %s with %q: %v %.200s", method, path, lines, resp, text)
				}
			}
		}
	}
	if now := len(j.Of(fault.Started, "")); now != started {
		t.Errorf("%d processes were started", now-started)
	}
	wantPrivate(t, g)
}

// TestS58_ControlSocketTakesNoCommands asks the control socket for what would start
// something that is not configured.
func TestS58_ControlSocketTakesNoCommands(t *testing.T) {
	t.Parallel() // with a gateway of its own
	j := newJournal(t)
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{server: with(child(t, fault.Legacy, j), object{"lazy": true})}}})
	before := len(j.Of(fault.Started, ""))
	for _, path := range []string{"/servers", "/servers/new", "/servers/new/start", "/test", "/exec", "/debug/pprof/", "/config", "/servers/" + server + "/test"} {
		if code, body := g.Control(path); code != http.StatusNotFound && code != http.StatusMethodNotAllowed {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	if now := len(j.Of(fault.Started, "")); now != before {
		t.Errorf("%d processes were started", now-before)
	}
}

// wantPrivate fails the test unless what a gateway writes is its owner's alone, and its
// arguments hold no secret.
func wantPrivate(t *testing.T, g *gatewaytest.Gateway) {
	t.Helper()
	looked := 0
	for _, dir := range []string{filepath.Join(g.Own(), "dragoman"), filepath.Join(filepath.Dir(g.File), "state")} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info()
			if err != nil {
				return err
			}
			looked++
			if info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return nil
		})
		if err != nil && !os.IsNotExist(err) {
			t.Error(err)
		}
	}
	if looked < 2 { // the directory and the socket
		t.Errorf("only %d files were found", looked)
	}
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range lines {
		text, _ := os.ReadFile(file) // it may be gone
		if strings.Contains(string(text), "softly-softly-0123456789") {
			t.Errorf("a secret is in the arguments of %s: %q", file, text)
		}
	}
}
