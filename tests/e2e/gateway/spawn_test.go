//go:build unix

package gateway

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/gatewaytest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// TestS36_ServersAreStartedClean looks at what a server gets: its arguments byte for
// byte, no shell, no variables and no files that are not its own. That does not depend
// on what binds it.
func TestS36_ServersAreStartedClean(t *testing.T) {
	t.Parallel() // with a gateway of its own
	for name, bound := range map[string]func(dir string) object{
		"as it is":    func(string) object { return nil },
		"with limits": func(string) object { return object{"limits": object{"files": 200, "memory": "2TiB"}} },
		"in a sandbox": func(dir string) object {
			return object{"sandbox": object{"write": []string{dir}, "read": []string{gatewaytest.FaultServer(t)}, "optional": true}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if runtime.GOOS != "linux" && name != "as it is" {
				t.Skip("there are no limits and no sandboxes")
			}
			startClean(t, bound)
		})
	}
}

func startClean(t *testing.T, bound func(dir string) object) {
	dir := t.TempDir()
	marker := filepath.Join(dir, "marker")
	args := []string{"a b", "$(touch " + marker + ")", ";id", "-x\n", "`touch " + marker + "`", "", "${HOME", "é"}
	extra, err := os.Create(filepath.Join(dir, "open file"))
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	j := newJournal(t)
	config := with(with(child(t, fault.Legacy, j, "OURS=configured"), object{"args": args}), bound(filepath.Dir(string(j))))
	// In a file, ${ begins a reference.
	escaped := slices.Clone(args)
	for i, a := range escaped {
		escaped[i] = strings.ReplaceAll(a, "${", "$${")
	}
	g := gatewaytest.Serve(t, &gatewaytest.Options{
		Config: object{"servers": object{server: with(config, object{"args": escaped})}},
		Launch: gatewaytest.Launch{Env: []string{"GATEWAY_SECRET=hush", "LD_PRELOAD="}, Files: []*os.File{extra}},
	})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	p := who(ctx, t, enter(ctx, t, g, server, gatewaytest.HTTP, protocol.Legacy))
	if !slices.Equal(p.Args[1:], args) {
		t.Errorf("its arguments are %q, want %q", p.Args[1:], args)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a shell has run")
	}
	if keepers, _ := gatewaytest.Children(g.PID()); runtime.GOOS == "linux" && !slices.Contains(keepers, p.PPID) {
		t.Errorf("its parent is %d, which is no child of the gateway", p.PPID)
	}
	if p.Group != 0 && p.Group != p.PID {
		t.Errorf("its process group is %d, not its own %d", p.Group, p.PID)
	}
	if len(p.Files) > 0 {
		t.Errorf("it has files open: %q", p.Files)
	}
	if p.Umask != "" && p.Umask != "0077" {
		t.Errorf("what it writes can be read by others: its umask is %s", p.Umask)
	}
	if line := g.Await("process started"); !strings.Contains(line, "file="+config["command"].(string)) {
		t.Errorf("the log does not name its program: %s", line)
	}
	env := strings.Join(p.Env, "\n")
	if strings.Contains(env, "GATEWAY_SECRET") || !strings.Contains(env, "OURS=configured") {
		t.Errorf("its environment is\n%s", env)
	}
	usual := []string{"PATH", "HOME", "TMPDIR", "LANG", "USER", "LOGNAME", "SHELL", "TERM", "XDG_RUNTIME_DIR", "DRAGOMAN_CHILD"}
	ours := config["env"].(map[string]string)
	for _, v := range p.Env {
		name, _, _ := strings.Cut(v, "=")
		if _, configured := ours[name]; !configured && !slices.Contains(usual, name) {
			t.Errorf("it has the variable %s", name)
		}
	}
}

// TestS36_ServerThatCannotBeStartedIsNamed has commands that do not work beside one
// that does.
func TestS36_ServerThatCannotBeStartedIsNamed(t *testing.T) {
	t.Parallel() // with a gateway of its own
	servers := object{
		"other":   child(t, fault.Legacy, newJournal(t)),
		"missing": object{"command": "/nonexistent/server"},
		"nowhere": with(child(t, fault.Legacy, ""), object{"cwd": "/nonexistent"}),
	}
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": servers}})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	echoes(ctx, t, enter(ctx, t, g, "other", gatewaytest.HTTP, protocol.Legacy), "the others start")
	for name := range servers {
		if name == "other" {
			continue
		}
		c := enter(ctx, t, g, name, gatewaytest.HTTP, protocol.Modern)
		_, err := c.Tool(ctx, "echo", object{"text": "hello"})
		failed(t, err, protocol.CodeUnavailable, protocol.OutcomeNotSent)
		if s := g.Status()[name]; s.State == "ready" || s.LastError == "" {
			t.Errorf("%s is %q because of %q", name, s.State, s.LastError)
		}
	}
}

// fakes makes programs that leave a mark when they run: in a directory that everyone may
// write to, and in a safe one.
func fakes(t *testing.T) (open, safe, mark string) {
	t.Helper()
	dir := t.TempDir()
	open, safe, mark = filepath.Join(dir, "open"), filepath.Join(dir, "safe"), filepath.Join(dir, "ran")
	for _, d := range []string{open, safe} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(d, "fake-server"), []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(open, 0o777); err != nil {
		t.Fatal(err)
	}
	return open, safe, mark
}

// TestS36_ServersThatMustNotBeStartedAreLeftOut has programs that somebody else could
// have put there, and some that are not on the list.
func TestS36_ServersThatMustNotBeStartedAreLeftOut(t *testing.T) {
	t.Parallel() // with a gateway of its own
	open, safe, mark := fakes(t)
	other := child(t, fault.Legacy, newJournal(t))
	for name, c := range map[string]struct {
		commands any
		path     string
		refused  map[string]object
		says     string
	}{
		"others may replace it": {nil, open, map[string]object{
			"found":    {"command": "fake-server"},
			"absolute": {"command": open + "/fake-server"},
			"relative": {"command": "./fake-server", "cwd": open},
			"empty":    {"command": ""},
			"dot":      {"command": "."},
			"dots":     {"command": ".."},
		}, "everyone may write to " + open},
		"not on the list": {[]string{other["command"].(string)}, safe, map[string]object{
			"found":    {"command": "fake-server"},
			"absolute": {"command": safe + "/fake-server"},
			"relative": {"command": "./fake-server", "cwd": safe},
			"env":      {"command": "/usr/bin/env", "args": []string{safe + "/fake-server"}},
			"helper":   {"url": "http://127.0.0.1:1/mcp", "auth": object{"command": []string{safe + "/fake-server"}}},
		}, "is not on the list"},
	} {
		t.Run(name, func(t *testing.T) {
			servers, names := object{"other": other}, []string{}
			for name, s := range c.refused {
				servers[name] = s
				names = append(names, name)
			}
			config := object{"servers": servers}
			if c.commands != nil {
				config["commands"] = c.commands
			}
			with := gatewaytest.Launch{Env: []string{"PATH=:.:" + c.path + ":" + os.Getenv("PATH")}}
			g := gatewaytest.Serve(t, &gatewaytest.Options{Config: config, Launch: with})
			line := g.Await("left out because of errors")
			for _, name := range names {
				if !strings.Contains(line, name) || !strings.Contains(g.Stderr(), "servers."+name) {
					t.Errorf("nothing is said of %s: %s", name, line)
				}
			}
			ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
			echoes(ctx, t, enter(ctx, t, g, "other", gatewaytest.HTTP, protocol.Legacy), "the others start")
			check := gatewaytest.Start(t, with, "config", "check", g.File)
			if status := check.Wait(gatewaytest.Patience); status == 0 || !strings.Contains(check.Stderr(), c.says) {
				t.Errorf("config check ends with %d and says:\n%s", status, check.Stderr())
			}
			if _, err := os.Stat(mark); err == nil {
				t.Error("a program was run that must not be")
			}
		})
	}
}

// TestS36_ShorterListEndsWhatRuns reads the file again with a list that a running server is
// not on any more.
func TestS36_ShorterListEndsWhatRuns(t *testing.T) {
	t.Parallel() // with a gateway of its own
	j := newJournal(t)
	servers := object{"a": child(t, fault.Legacy, j), "other": object{"url": "http://127.0.0.1:1/mcp"}}
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": servers}})
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	echoes(ctx, t, enter(ctx, t, g, "a", gatewaytest.HTTP, protocol.Legacy), "it runs")
	g.Leave()
	g.Write(object{"servers": servers, "commands": []string{"/usr/bin/true"}})
	g.Signal(syscall.SIGHUP)
	if line := g.Await("server configuration has errors"); !strings.Contains(line, "is left out") {
		t.Errorf("it continues: %s", line)
	}
	if err := gatewaytest.Until(gatewaytest.Patience, func() error { return gatewaytest.Gone(processes(j)...) }); err != nil {
		t.Error(err)
	}
}

// TestS36_ServerInASandboxCannotReachTheRest has a server that may write its journal and
// nothing else.
func TestS36_ServerInASandboxCannotReachTheRest(t *testing.T) {
	t.Parallel() // with a gateway of its own
	if runtime.GOOS != "linux" {
		t.Skip("there are no sandboxes")
	}
	j := newJournal(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("hush"), 0o644); err != nil {
		t.Fatal(err)
	}
	script := object{
		"command": "/bin/sh", "args": []string{"-c", `cat "$1" >&2; exec 3>"$2.new" && echo wrote >&2; exit 3`, "sh", secret, secret},
		"sandbox": object{"write": []string{filepath.Dir(string(j))}},
	}
	g := gatewaytest.Serve(t, &gatewaytest.Options{Config: object{"servers": object{
		"other": with(child(t, fault.Legacy, j), object{"sandbox": object{"write": []string{filepath.Dir(string(j))}, "network": false}}),
		"nosy":  script,
	}}, Flags: []string{"--debug"}})
	const denied, without = "Permission denied", "its sandbox cannot be had"
	gatewaytest.Eventually(t, func() error {
		if !strings.Contains(g.Stderr(), denied) && !strings.Contains(g.Stderr(), without) {
			return errors.New("the server has not tried yet")
		}
		return nil
	})
	if strings.Contains(g.Stderr(), without) {
		g.Leave()
		t.Skip("the kernel has no Landlock that would do")
	}
	ctx := gatewaytest.Hurry(t, gatewaytest.Patience)
	echoes(ctx, t, enter(ctx, t, g, "other", gatewaytest.HTTP, protocol.Legacy), "it works in there")
	if strings.Contains(g.Stderr(), "hush") || strings.Contains(g.Stderr(), "wrote") {
		t.Error("a server has left its sandbox")
	}
	if _, err := os.Stat(secret + ".new"); err == nil {
		t.Error("a server has left its sandbox")
	}
	if s := g.Status()["nosy"]; s.State == "ready" {
		t.Errorf("it is %+v", s)
	}
}
