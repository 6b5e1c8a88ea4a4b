package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
)

// write makes a file in a new directory.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// load reads a file that must be right.
func load(t *testing.T, paths ...string) (*config.File, *config.Report) {
	t.Helper()
	f, report := config.Load(testOptions, paths...)
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	return f, report
}

// notRoot reports whether a problem is that whoever runs the tests cannot change the user.
func notRoot(p config.Problem) bool {
	return strings.Contains(p.Message, "only root can start a server")
}

func TestOurOwnFormatSaysEverything(t *testing.T) {
	path := write(t, "dragoman.yaml", `
$schema: ./dragoman.schema.json
listen:
  - 127.0.0.1:8080
  - {address: "0.0.0.0:8443", tls: {cert: c.pem, key: k.pem, clientCA: ca.pem, clientAuth: optional, minVersion: 1.3}, origins: ["https://a"], hosts: [a], proxies: 10.0.0.0/8, insecure: no-tls}
auth: {tokens: "${API_TOKEN}", url: https://gw.example.com, jwt: https://login.example.com, users: [root], scopes: mcp}
state: var
log: debug
limits: {message: 32MiB, sessions: 10, sessionsPerCaller: 4, calls: 5, callsPerCaller: 6, idleSession: 1m30s, rate: 50/s, burst: 7, ratePerCaller: 1000 / h, burstPerCaller: 8, memory: 1MiB}
groups:
  all: [a, b]
  some: {servers: [a], path: /some, naming: plain}
servers:
  a:
    command: ./bin/server
    args: [--port, 8080, "$${literal}", -x, true]
    env: {PORT: 8080, ON: true, T: "${API_TOKEN}"}
    inherit: [LANG]
    framing: lines
    isolation: client
    pool: "${POOL:-2}"
    sessions: 8
    sessionsPerClient: 4
    idleSession: none
    suspended: 12
    rate: 100/m
    burst: 3
    lazy: "${LAZY:-true}"
    timeout: none
    connectTimeout: 20s
    idleStop: 10m
    retry: {min: 100ms, max: 5s, attempts: 4}
    restart: {max: 3, window: 30s}
    health: {interval: none, threshold: 2}
    limits: {memory: 512MiB, files: 256, cpu: 1m}
    user: nobody
    passEnv: {X-Token: TOKEN}
    tools: {include: ["a*"], exclude: [ab], rename: {ac: x}, describe: {ac: Text}, timeout: {ac: 90s}, limits: {"a*": {rate: 5/s, burst: 6, calls: 2}, ac: 10/h}, prefix: ""}
  b:
    url: https://example.com/mcp
    transport: streamable_http
    era: modern
    headers: {A: b}
    passHeaders: {X-User: X-Caller}
    idleSession: 90s
    disabled: true
`)
	f, report := load(t, path)
	dir := filepath.Dir(path)
	a, b := f.Servers["a"], f.Servers["b"]
	for _, test := range []struct{ name, got, want string }{
		{"warnings", fmt.Sprint(slices.DeleteFunc(report.Warnings, notRoot)), "[]"},
		{"names", fmt.Sprint(f.Names), "[a b]"},
		{"files", fmt.Sprint(f.Files), "[" + path + "]"},
		{"listen", fmt.Sprint(f.Listen), fmt.Sprintf("[{127.0.0.1:8080 {    } [] [] []  []} {0.0.0.0:8443 {%s %s %s optional 1.3} [https://a] [a] [10.0.0.0/8]  [no-tls]}]", filepath.Join(dir, "c.pem"), filepath.Join(dir, "k.pem"), filepath.Join(dir, "ca.pem"))},
		{"auth", line(f.Auth.Tokens, f.Auth.JWT[0].Issuer, f.Auth.Users, f.Auth.Scopes, f.Auth.Wanted()), "[canary-token] https://login.example.com [root] [mcp] true"},
		{"state", f.State, filepath.Join(dir, "var")},
		{"log", f.Log.Level, "debug"},
		{"limits", fmt.Sprint(f.Limits), "{33554432 10 4 1m30s 5 6 50/s 7 1000/h 8 1048576 no limit no limit}"},
		{"group", fmt.Sprint(*f.Groups["all"], *f.Groups["some"]), "{[a b]  } {[a] /some plain}"},
		{"command", a.Command, filepath.Join(dir, "bin/server")},
		{"args", fmt.Sprintf("%q", a.Args), `["--port" "8080" "${literal}" "-x" "true"]`},
		{"env", fmt.Sprint(a.Env), "map[ON:true PORT:8080 T:canary-token]"},
		{"a", line(a.Inherit, a.Framing, a.Isolation, a.Pool, a.Lazy, a.User, a.PassEnv), "[LANG] lines client 2 true nobody map[X-Token:TOKEN]"},
		{"sessions", line(a.Sessions, a.SessionsPerClient, a.IdleSession, a.Suspended, b.Sessions, b.IdleSession), "8 4 -1ns 12 0 1m30s"},
		{"times", fmt.Sprint(a.Timeout, a.ConnectTimeout, a.IdleStop, a.Retry, a.Restart, a.Health), "-1ns 20s 10m0s {100ms 5s 4} {3 30s} {-1ns 2}"},
		{"limits of a", fmt.Sprint(a.Limits), "{536870912 256 1m0s 0}"},
		{"tools", fmt.Sprint(a.Tools.Include, a.Tools.Exclude, a.Tools.Rename, a.Tools.Describe, a.Tools.Timeout, a.Tools.Limits, a.Rate, a.Burst, *a.Tools.Prefix == ""), "[a*] [ab] map[ac:x] map[ac:Text] map[ac:1m30s] map[a*:{5/s 6 2} ac:{10/h 0 0}] 100/m 3 true"},
		{"b", line(b.URL, b.Transport, b.Era, b.Headers, b.PassHeaders, b.Disabled, b.Tools.Prefix == nil), "https://example.com/mcp http modern map[A:b] map[X-User:X-Caller] true true"},
	} {
		if test.got != test.want {
			t.Errorf("%s: %s, want %s", test.name, test.got, test.want)
		}
	}
}

func TestLaterFilesTakeThePlaceOfEarlierOnes(t *testing.T) {
	first := write(t, "dragoman.yaml", "listen: 127.0.0.1:1\nlog: {level: debug, format: json}\nservers:\n  a: {command: one, args: [x]}\n  b: {command: b}\ngroups: {g: [a, c]}\n")
	second := write(t, "mcp.json", `{"mcpServers": {"a": {"url": "https://example.com"}, "c": {"command": "c"}}, "log": "warn"}`)
	f, report := load(t, first, second)
	if got := fmt.Sprint(f.Names, f.Servers["a"].URL, f.Servers["a"].Command, f.Log, f.Listen[0].Address); got != "[a b c]https://example.com{warn json 0s}127.0.0.1:1" {
		t.Error(got)
	}
	if len(report.Warnings) != 1 || !strings.Contains(report.Warnings[0].Message, `"a" takes the place of the one in `+first+", line 4") || report.Warnings[0].File != second {
		t.Errorf("%v", report.Warnings)
	}
}

// A server that is replaced need not have been right, and what it had is forgotten.
func TestReplacedServerLeavesNothingBehind(t *testing.T) {
	first := write(t, "a.yaml", "servers:\n  a: {command: one, transport: stdio}\n")
	second := write(t, "b.yaml", "servers:\n  a: {url: \"https://example.com\"}\n")
	f, _ := load(t, first, second)
	if s := f.Servers["a"]; s.Location() != "https://example.com" || s.ResolvedTransport() != config.Auto {
		t.Errorf("%s %s", s.ResolvedTransport(), s.Location())
	}
}

func TestFileThatCannotBeReadIsReported(t *testing.T) {
	dir := t.TempDir()
	big := write(t, "big.yaml", "# "+strings.Repeat("x", config.MaxFile))
	for path, want := range map[string]string{
		filepath.Join(dir, "none.yaml"): "no such file", dir: "it is a directory", big: "it is larger than 4194304 bytes",
	} {
		f, report := config.Load(nil, path)
		if f == nil || report.Err() == nil || !strings.Contains(report.Error(), path+": error: cannot be read: "+want) {
			t.Errorf("%s: %v", path, report)
		}
	}
}

func TestSizeOfAFileIsBounded(t *testing.T) {
	many := strings.Repeat("[1],", config.MaxNodes/2+1)
	deep := strings.Repeat("[", config.MaxDepth+2) + strings.Repeat("]", config.MaxDepth+2)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for i := 'b'; i < 'j'; i++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c,", i-1), 9), ","))
	}
	toml := "a = [" + strings.Repeat("[],", config.MaxNodes+1) + "]"
	for name, test := range map[string]struct{ text, want string }{
		"many.json": {`{"x": [` + many + `]}`, "more than 100000 values"},
		"many.yaml": {"x: [" + many + "]", "more than 100000 values"},
		"many.toml": {toml, "more than 100000 values"},
		"deep.json": {`{"x": ` + deep + `}`, "nested more than 64 levels deep"},
		"deep.yaml": {"x: " + deep, "nested more than 64 levels deep"},
		"bomb.yaml": {bomb, "more than 100000 values"},
	} {
		_, report := config.Load(nil, write(t, name, test.text))
		if report.Err() == nil || !strings.Contains(report.Error(), test.want) {
			t.Errorf("%s: %.300v, want %s", name, report, test.want)
		}
	}
}

func TestManyProblemsAreCountedAndNoErrorIsLost(t *testing.T) {
	var b strings.Builder
	for i := range config.MaxProblems + 20 {
		fmt.Fprintf(&b, "k%d: 1\n", i)
	}
	_, report := config.Load(nil, write(t, "a.yaml", b.String()))
	if len(report.Errors) != config.MaxProblems || report.Omitted != 20 || !strings.HasSuffix(report.Error(), "\nand 20 more") {
		t.Errorf("%d errors, %d omitted", len(report.Errors), report.Omitted)
	}
	b.Reset()
	b.WriteString("mcpServers:\n")
	for i := range config.MaxProblems + 5 {
		fmt.Fprintf(&b, "  s%d: {command: x, k%d: 1}\n", i, i)
	}
	b.WriteString("  bad: {}\n")
	if _, report = config.Load(nil, write(t, "a.yaml", b.String())); len(report.Errors) != 1 {
		t.Errorf("%d errors", len(report.Errors))
	}
}

func TestFindTakesOursBeforeOthers(t *testing.T) {
	dir := t.TempDir()
	if path, ok := config.Find(dir); ok {
		t.Errorf("found %s", path)
	}
	if err := os.Mkdir(filepath.Join(dir, "dragoman.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mcp.json", ".mcp.json", "dragoman.json", "dragoman.yml"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if path, _ := config.Find(dir); path != filepath.Join(dir, name) {
			t.Errorf("found %s, want %s", path, name)
		}
	}
}

func TestLimitsOfSessionsThatAreNeverReachedAreNamed(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"sessions: 8, sessionsPerClient: 8, pool: 8", ""},
		{"sessions: 8", ""}, // less than the default for one client
		{"sessions: 8, sessionsPerClient: 9", "servers.a.sessionsPerClient: 9 is more than all sessions, of which there may be 8"},
		{"sessionsPerClient: 1025", "servers.a.sessionsPerClient: 1025 is more than all sessions, of which there may be 1024"},
		{"sessions: 8, pool: 9", "servers.a.pool: 9 is more than all sessions, of which there may be 8"},
	} {
		_, report := load(t, write(t, "a.yaml", "servers: {a: {command: x, "+test.text+"}}"))
		var got string
		if len(report.Warnings) == 1 {
			got = report.Warnings[0].Message
		}
		if got != test.want || len(report.Warnings) > 1 {
			t.Errorf("%s: %v, want %s", test.text, report, test.want)
		}
	}
}

func TestWhereAServerIsShowsNoSecret(t *testing.T) {
	path := write(t, "a.yaml", `
servers:
  a: {command: npx, args: [mcp-remote, "https://x/mcp?key=canary-1", --token, canary-2, --api-key=canary-3, --header, "Authorization: canary-4", "${API_TOKEN}"]}
  b: {url: "https://example.com/${API_TOKEN}/mcp?x=canary-5"}
`)
	f, _ := load(t, path)
	if got := f.Servers["a"].Location(); got != `npx mcp-remote https://x/mcp?key=*** --token *** --api-key=*** --header *** ${API_TOKEN}` {
		t.Error(got)
	}
	if got := f.Servers["b"].Location(); got != "https://example.com/${API_TOKEN}/mcp?…" {
		t.Error(got)
	}
	byHand := &config.Server{URL: "https://user:canary@example.com/mcp"}
	if got := byHand.Location(); got != "https://example.com" {
		t.Error(got)
	}
}

func TestFilesThatAreReadAreNamed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"secret": "s\n", "vars": "A=b\n", "dragoman.yaml": "servers: {a: {command: x, env: {T: \"${file:secret}\"}, envFile: vars}}"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, _ := load(t, filepath.Join(dir, "dragoman.yaml"))
	want := []string{filepath.Join(dir, "dragoman.yaml"), filepath.Join(dir, "secret"), filepath.Join(dir, "vars")}
	if !slices.Equal(f.Files, want) {
		t.Errorf("%q, want %q", f.Files, want)
	}
	if got := fmt.Sprint(f.Servers["a"].Env); got != "map[A:b T:s]" {
		t.Error(got)
	}
}

func TestUnitsOfHostsDiffer(t *testing.T) {
	for name, want := range map[string]time.Duration{"x.json": 60 * time.Millisecond, "cline_mcp_settings.json": time.Minute} {
		f, report := load(t, write(t, name, `{"mcpServers": {"a": {"command": "x", "timeout": 60}}}`))
		if got := f.Servers["a"].Timeout; got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
		if warned := len(report.Warnings) == 1; warned != (want < time.Second) {
			t.Errorf("%s: %v", name, report)
		}
	}
}

func line(values ...any) string { return strings.TrimSuffix(fmt.Sprintln(values...), "\n") }

func TestServerWithAnErrorIsLeftOutAndItsEarlierSelfTakesItsPlace(t *testing.T) {
	before, report := config.Load(nil, write(t, "a.yaml", "servers:\n  a: {command: a}\n  b: {command: b}\n  c: {command: c}\n"))
	if report.Err() != nil || report.Refused() != nil || before.Broken != nil {
		t.Fatalf("broken are %v: %v", before.Broken, report)
	}
	after, report := config.Load(nil, write(t, "b.yaml", "servers:\n  d: {comand: d}\n  c: {command: cc}\n  b: {comand: b}\n  a: {command: a}\n"))
	if report.Err() == nil || report.Refused() != nil || !slices.Equal(after.Broken, []string{"d", "b"}) || !slices.Equal(after.Names, []string{"c", "a"}) {
		t.Fatalf("broken are %v of %v: %v", after.Broken, after.Names, report)
	}
	if text := report.Of("b"); !strings.Contains(text, ":4:") || strings.Contains(text, "servers.d") {
		t.Errorf("the errors of b are %s", text)
	}
	if got := after.Restore(before); !slices.Equal(got, []string{"b"}) || !slices.Equal(after.Names, []string{"c", "b", "a"}) {
		t.Errorf("restored are %v of %v", got, after.Names)
	}
	if after.Servers["b"] != before.Servers["b"] || after.Servers["c"].Command != "cc" {
		t.Error("what was restored is not what was there before")
	}
}

func TestErrorThatIsNoServersIsNotLostBehindThoseOfServers(t *testing.T) {
	text := "servers:\n"
	for i := range config.MaxProblems + 20 {
		text += fmt.Sprintf("  s%d: {comand: x}\n", i)
	}
	f, report := config.Load(nil, write(t, "many.yaml", text+"listen: nowhere\n"))
	if report.Refused() == nil || len(report.Errors) != config.MaxProblems || report.Omitted == 0 {
		t.Errorf("%d errors, %d omitted, refused: %v", len(report.Errors), report.Omitted, report.Refused() != nil)
	}
	if len(f.Broken) != config.MaxProblems+20 {
		t.Errorf("%d servers are broken", len(f.Broken))
	}
}
