package program

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/cli/term"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/transport/streamable"
)

// scripted is the command line of a server that is a shell script, which finds the
// program of the built-in server as $0 and a path as $1.
func scripted(t *testing.T, script, path string) []string {
	t.Helper()
	all := builtIn(t)
	self := all[len(all)-2]
	return append(all[:len(all)-2], "sh", "-c", script, self, path)
}

func TestTextOnStandardOutputIsToldAtOnce(t *testing.T) {
	t.Parallel()
	p := startMain(t, "run", "--listen", "127.0.0.1:0", "--connect-timeout", "3", "--", "sh", "-c", `echo "Server listening, Bearer abcdefghijklmnop"; cat >/dev/null`)
	said := p.await(`what is no message: "Server listening, Bearer [redacted]"`)
	if strings.Contains(said, "did not come up") || !strings.Contains(said, "have the server log to standard error") {
		t.Errorf("it is told too late, or not what to do:\n%s", said)
	}
	if status := p.wait(); status != term.ExitUnreachable || !strings.Contains(p.said(), `it wrote to its standard output what is no message ("Server listening`) || !strings.Contains(p.said(), "did not come up: it does not answer within 3s; allow more time by --connect-timeout") {
		t.Errorf("status %d", status)
	}
	if strings.Contains(p.said(), "abcdefghijklmnop") {
		t.Error("a secret is repeated")
	}
}

func TestA32_TextOnStandardOutputIsToldWithoutSecrets(t *testing.T) {
	t.Parallel()
	setenv(t, markVariable, t.Name())
	const script = `echo "API_KEY=$API_KEY, with $DB_PASSWORD, port $PORT"; echo "again: $DB_PASSWORD token: t9t9"; exec "$0" everything`
	secrets := []string{"-e", "API_KEY=k3y", "-e", "DB_PASSWORD=pw7", "-e", "PORT=80"}
	p := startMain(t, append(append([]string{"run", "--debug", "--listen", "127.0.0.1:0"}, secrets...), scripted(t, script, "")...)...)
	p.place("http://")
	p.stop(os.Interrupt)
	_, stderr, status := runMain(t, "", append(append([]string{"tools"}, secrets...), scripted(t, script, "")...)...)
	for name, said := range map[string]string{"run": p.logged(), "tools": stderr} {
		if status != 0 || !strings.Contains(said, "API_KEY=[redacted], with [redacted], port 80") {
			t.Errorf("%s: status %d, it says\n%s", name, status, said)
		}
		for _, secret := range []string{"k3y", "pw7", "t9t9"} {
			if strings.Contains(said, secret) {
				t.Errorf("%s repeats %s:\n%s", name, secret, said)
			}
		}
	}
}

func TestServerThatBeginsWithABannerWorks(t *testing.T) {
	t.Parallel()
	for _, era := range []string{"legacy", "modern"} {
		p := startMain(t, append([]string{"run", "--listen", "127.0.0.1:0"}, scripted(t, `echo "* Server *"; echo; echo ready; exec "$0" everything --era "$1"`, era)...)...)
		peertest.CheckEcho(t, &streamable.Client{URL: p.place("http://")}, protocol.Legacy)
		peertest.CheckEcho(t, &streamable.Client{URL: p.place("http://")}, protocol.Modern)
		if said := p.said(); strings.Count(said, "what is no message") != 1 || !strings.Contains(said, `: the server wrote to its standard output what is no message: "* Server *"; it is skipped`) {
			t.Errorf("%s: it is not told once:\n%s", era, said)
		}
		if status := p.stop(syscall.SIGTERM); status != 0 {
			t.Errorf("it ends with status %d", status)
		}
	}
}

func TestServerThatSaysNothingIsWaitedForAloud(t *testing.T) {
	t.Parallel()
	p := startMain(t, "run", "--listen", "127.0.0.1:0", "--", "sh", "-c", "echo getting ready >&2; cat >/dev/null")
	said := p.await("no answer yet after 2s; waiting for up to 1m0s (--connect-timeout)")
	if !strings.Contains(said, "[sh] getting ready\n") || strings.Contains(said, "warning") {
		t.Errorf("it says:\n%s", said)
	}
	if status := p.stop(os.Interrupt); status != 0 {
		t.Errorf("it ends with status %d", status)
	}
}

func TestServerThatInstallsIsGivenItsTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "npx"), []byte("#!/bin/sh\ncat >/dev/null\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	p := startMain(t, "run", "--listen", "127.0.0.1:0", "--", filepath.Join(dir, "npx"), "-y", "@some/weather@1")
	said := p.await("weather: no answer yet, it may still be installing; waiting for up to 5m0s (--connect-timeout)")
	if strings.Count(said, "process started") != 1 {
		t.Errorf("it is started more than once:\n%s", said)
	}
	p.stop(os.Interrupt)
}

func TestServeTellsOfTextOnStandardOutput(t *testing.T) {
	t.Parallel()
	f := newFile(t, "listen: [{address: 127.0.0.1:0}]\nservers:\n  chatty: {command: sh, args: [-c, 'echo hello there; cat >/dev/null']}\n")
	p := startMain(t, "serve", f.path)
	p.await(`what is no message: "hello there"; it is skipped`)
	out, stderr, status := runMain(t, "", "status", f.path, "--json")
	if status != 0 || !strings.Contains(out, `"lastError": "it wrote to its standard output what is no message (\"hello there\"): have it log to standard error"`) {
		t.Errorf("status %d: %s%s", status, out, stderr)
	}
	p.stop(os.Interrupt)
}

func TestVariablesOfInstallersReachTheServerAndItsFailureNamesTheOthers(t *testing.T) {
	t.Parallel()
	setenv(t, "HTTPS_PROXY", "http://127.0.0.1:9")
	setenv(t, "NODE_EXTRA_CA_CERTS", "/etc/company.pem")
	setenv(t, "npm_config_registry", "https://npm.example.com")
	setenv(t, "npm_config__auth", "hush-hush")
	setenv(t, "EXAMPLE_API_KEY", "hush-hush")
	script := `echo "$HTTPS_PROXY $NODE_EXTRA_CA_CERTS $npm_config_registry" >&2
if [ -z "$EXAMPLE_API_KEY" ]; then echo "Error: EXAMPLE_API_KEY is required" >&2; echo "    at main (x.js:1:2)" >&2; echo >&2; echo "Node.js v20.20.2" >&2; exit 1; fi; exit 2`
	_, stderr, status := runMain(t, "", "run", "--listen", "127.0.0.1:0", "--", "sh", "-c", script)
	for _, want := range []string{
		"[sh] http://127.0.0.1:9 /etc/company.pem https://npm.example.com\n",
		`dragoman: the server did not come up: server "sh" exited with status 1: stderr: Error: EXAMPLE_API_KEY is required; ` +
			"not passed on to it: EXAMPLE_API_KEY, npm_config__auth; to pass on: -e EXAMPLE_API_KEY -e npm_config__auth\n",
	} {
		if status != term.ExitUnreachable || !strings.Contains(stderr, want) {
			t.Errorf("status %d, standard error lacks %q:\n%s", status, want, stderr)
		}
	}
	if strings.Contains(stderr, "hush-hush") {
		t.Errorf("a secret is shown:\n%s", stderr)
	}
	if _, stderr, _ = runMain(t, "", "run", "--listen", "127.0.0.1:0", "-e", "EXAMPLE_API_KEY", "--", "sh", "-c", script); !strings.Contains(stderr, "exited with status 2") {
		t.Errorf("the variable is not passed on:\n%s", stderr)
	}
}

func TestEraOfACommandIsRemembered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	setenv(t, "XDG_CACHE_HOME", filepath.Join(dir, "cache"))
	setenv(t, markVariable, t.Name())
	journal := filepath.Join(dir, "journal")
	asked := func(by string) string {
		if err := os.WriteFile(journal, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		server := scripted(t, `tee -a "$1" | "$0" everything --era legacy`, journal)
		if by == "run" {
			p := startMain(t, append([]string{"run", "--listen", "127.0.0.1:0"}, server...)...)
			peertest.CheckEcho(t, &streamable.Client{URL: p.place("http://")}, protocol.Legacy)
			p.stop(os.Interrupt)
		} else if out, errs, status := runMain(t, "", append([]string{by}, server...)...); status != 0 || !strings.Contains(out, "echo(text:str)") {
			t.Fatalf("%s: status %d, %s%s", by, status, out, errs)
		}
		text, err := os.ReadFile(journal) //nolint:gosec // ours
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if text := asked("run"); !strings.Contains(text, protocol.MethodDiscover) {
		t.Errorf("at first it is not asked for its era:\n%s", text)
	}
	for _, by := range []string{"run", "tools"} {
		if first, _, _ := strings.Cut(asked(by), "\n"); !strings.Contains(first, `"initialize"`) {
			t.Errorf("then %s sends this first: %s", by, first)
		}
	}
	var record string
	_ = filepath.WalkDir(filepath.Join(dir, "cache", "dragoman", "eras"), func(path string, e os.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			text, _ := os.ReadFile(path) //nolint:gosec // ours
			record += string(text)
			err = os.Remove(path)
		}
		return err
	})
	if !strings.Contains(record, `"era":"legacy"`) || strings.Contains(record, "tee") {
		t.Errorf("what is kept is %q", record)
	}
	if text := asked("tools"); !strings.Contains(text, protocol.MethodDiscover) {
		t.Errorf("without the memory it is not asked:\n%s", text)
	}
	if text := asked("run"); strings.Contains(text, protocol.MethodDiscover) {
		t.Errorf("what tools has found out is asked again:\n%s", text)
	}
}

func TestWhatAServerSaysAboutTheProbeIsNotShown(t *testing.T) {
	t.Parallel()
	const script = `echo "listening" >&2
while read -r line; do
	id=$(printf '%s\n' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
	echo "Failed to validate request: 2 validation errors for ClientRequest" >&2
	echo "PingRequest.method" >&2
	echo "  Input should be 'ping' [type=literal_error, input_value='server/discover', input_type=str]" >&2
	echo "asked once" >&2
	echo '{"jsonrpc":"2.0","id":'"$id"',"error":{"code":-32601,"message":"Method not found"}}'
done`
	for _, debug := range []string{"--debug=false", "--debug"} {
		setenv(t, "XDG_CACHE_HOME", t.TempDir())
		p := startMain(t, "run", debug, "--listen", "127.0.0.1:0", "--", "sh", "-c", script)
		p.place("http://")
		said := p.await("[sh] asked once")
		if got := strings.Contains(said, "Failed to validate") && strings.Contains(said, "Input should be"); got != (debug == "--debug") {
			t.Errorf("%s: shown %t:\n%s", debug, got, said)
		}
		if !strings.Contains(said, "[sh] listening\n") {
			t.Errorf("the rest is not shown:\n%s", said)
		}
		p.stop(os.Interrupt)
	}
}

func TestServerIsCalledWhatItCallsItself(t *testing.T) {
	t.Parallel()
	command := builtIn(t, "--era", "modern")
	at := len(command) - 4 // the program
	p := startMain(t, append([]string{"run", "--listen", "127.0.0.1:0"}, append(command[:at:at], append([]string{"env", "UNUSED=1"}, command[at:]...)...)...)...)
	if said := p.await("for the configuration of a client"); !strings.Contains(said, "dragoman: serving dragoman-everything (command, modern era)\n") || !strings.Contains(said, `{"mcpServers":{"dragoman-everything":`) {
		t.Errorf("it says:\n%s", said)
	}
	p.stop(os.Interrupt)
}

func TestConnectFailsAtOnceIfThereIsNoSuchProgram(t *testing.T) {
	t.Parallel()
	p := startMain(t, "connect", "--", "does-not-exist-anywhere") // with an open standard input
	if status := p.wait(); status != term.ExitUnreachable || !strings.Contains(p.said(), `cannot start "does-not-exist-anywhere": executable file not found`) {
		t.Errorf("status %d", status)
	}
	p = startMain(t, "connect", "--cwd", filepath.Join(t.TempDir(), "gone"), "--", "sh")
	if status := p.wait(); status != term.ExitUnreachable || !strings.Contains(p.said(), "gone") {
		t.Errorf("status %d", status)
	}
}

func TestCommandsThatUseAServerTellOfTextOnStandardOutput(t *testing.T) {
	t.Parallel()
	setenv(t, markVariable, t.Name())
	out, stderr, status := runMain(t, "", append([]string{"tools"}, scripted(t, `echo one; echo two; exec "$0" everything`, "")...)...)
	if status != 0 || !strings.Contains(out, "echo") || strings.Count(stderr, "what is no message") != 1 || !strings.Contains(stderr, `"one"`) {
		t.Errorf("status %d: %s%s", status, out, stderr)
	}
}
