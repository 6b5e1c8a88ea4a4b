//go:build unix

package gateway

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/fault"
	"github.com/dragoman-mcp/dragoman/protocol"
	"github.com/dragoman-mcp/dragoman/tests/kit"
)

// TestPain1_ProcessesEndWithTheirSessions opens sessions whose servers have children
// of their own. When a client leaves, all of its are gone.
func TestPain1_ProcessesEndWithTheirSessions(t *testing.T) {
	t.Parallel() // it mostly waits
	for _, front := range []string{"run", "serve"} {
		t.Run(front, func(t *testing.T) {
			t.Parallel()
			j := newJournal(t)
			g := start(t, front, child(t, fault.Legacy, j))
			ctx := kit.Hurry(t, kit.Patience)
			for _, way := range ways(protocol.Legacy) {
				c := enter(ctx, t, g, server, way, protocol.Legacy)
				says(ctx, t, c, "grandchild", nil)
				p := who(ctx, t, c)
				descended := j.Of(fault.Descended, "")
				last := descended[len(descended)-1]
				var grandchild int
				if _, err := fmt.Sscan(last.Key, &grandchild); err != nil {
					t.Fatal(err)
				}
				if !kit.Alive(p.PID) || !kit.Alive(grandchild) {
					t.Fatalf("processes %d and %d are not there", p.PID, grandchild)
				}
				if err := c.Conn.Close(); err != nil {
					t.Fatal(err)
				}
				if err := kit.Until(kit.Patience, func() error { return kit.Gone(p.PID, grandchild) }); err != nil {
					t.Errorf("over %s: %v", way, err)
				}
			}
		})
	}
}

// TestS35_NoProcessOutlivesTheGateway ends the gateway, in order or by force, while
// its servers do not want to end.
func TestS35_NoProcessOutlivesTheGateway(t *testing.T) {
	for name, switches := range map[string][]string{
		"normal": nil, "ignores SIGTERM": {fault.IgnoreTermVariable}, "ignores the end of its input": {fault.IgnoreEOFVariable},
		"ignores both": {fault.IgnoreTermVariable, fault.IgnoreEOFVariable},
	} {
		for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
			for _, front := range []string{"run", "serve"} {
				t.Run(fmt.Sprintf("%s, %s, %v", front, name, signal), func(t *testing.T) {
					t.Parallel() // it mostly waits
					j := newJournal(t)
					g := start(t, front, child(t, fault.Legacy, j, switches...))
					ctx := kit.Hurry(t, kit.Patience)
					c := enter(ctx, t, g, server, kit.HTTP, protocol.Legacy)
					if len(switches) == 2 {
						says(ctx, t, c, "grandchild", nil)
					}
					echoes(ctx, t, c, "hello")
					children, _ := kit.Children(g.PID())
					g.Leave()
					from := time.Now()
					g.Signal(signal)
					limit := 5 * time.Second
					if signal == syscall.SIGTERM {
						limit = 6 * time.Second
						if len(switches) == 0 {
							limit = 2 * time.Second
						}
						if status := g.Wait(kit.Slow(limit)); status != 0 {
							t.Errorf("it ends with status %d", status)
						}
						if err := g.Unwell(); err != nil {
							t.Error(err)
						}
					}
					if err := kit.Until(kit.Slow(limit), func() error { return kit.Gone(append(processes(j), children...)...) }); err != nil {
						t.Errorf("after %v: %v", time.Since(from), err)
					}
				})
			}
		}
	}
}

// TestS36_ServersAreStartedClean looks at what a server gets: its arguments byte for
// byte, no shell, no variables and no files that are not its own.
func TestS36_ServersAreStartedClean(t *testing.T) {
	dir := t.TempDir()
	marker := filepath.Join(dir, "marker")
	args := []string{"a b", "$(touch " + marker + ")", ";id", "-x\n", "`touch " + marker + "`", "", "${HOME", "é"}
	extra, err := os.Create(filepath.Join(dir, "open file"))
	if err != nil {
		t.Fatal(err)
	}
	defer extra.Close()
	config := with(child(t, fault.Legacy, newJournal(t), "OURS=configured"), object{"args": args})
	// In a file, ${ begins a reference.
	escaped := slices.Clone(args)
	for i, a := range escaped {
		escaped[i] = strings.ReplaceAll(a, "${", "$${")
	}
	g := kit.Serve(t, &kit.Options{
		Config: object{"servers": object{server: with(config, object{"args": escaped})}},
		Launch: kit.Launch{Env: []string{"GATEWAY_SECRET=hush", "LD_PRELOAD="}, Files: []*os.File{extra}},
	})
	ctx := kit.Hurry(t, kit.Patience)
	p := who(ctx, t, enter(ctx, t, g, server, kit.HTTP, protocol.Legacy))
	if !slices.Equal(p.Args[1:], args) {
		t.Errorf("its arguments are %q, want %q", p.Args[1:], args)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a shell has run")
	}
	if p.PPID != g.PID() {
		t.Errorf("its parent is %d, not the gateway %d", p.PPID, g.PID())
	}
	if p.Group != 0 && p.Group != p.PID {
		t.Errorf("its process group is %d, not its own %d", p.Group, p.PID)
	}
	if len(p.Files) > 0 {
		t.Errorf("it has files open: %q", p.Files)
	}
	if status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID)); err == nil && !strings.Contains(string(status), "Umask:\t0077\n") {
		t.Errorf("what it writes can be read by others:\n%s", status)
	}
	env := strings.Join(p.Env, "\n")
	if strings.Contains(env, "GATEWAY_SECRET") || !strings.Contains(env, "OURS=configured") {
		t.Errorf("its environment is\n%s", env)
	}
	usual := []string{"PATH", "HOME", "TMPDIR", "LANG", "USER", "LOGNAME", "SHELL", "TERM", "DRAGOMAN_"}
	ours := config["env"].(map[string]string)
	for _, v := range p.Env {
		name, _, _ := strings.Cut(v, "=")
		if _, configured := ours[name]; !configured && !slices.ContainsFunc(usual, func(u string) bool { return strings.HasPrefix(name, u) }) {
			t.Errorf("it has the variable %s", name)
		}
	}
}

// TestS36_ServerThatCannotBeStartedIsNamed has commands that make no sense beside one
// that does.
func TestS36_ServerThatCannotBeStartedIsNamed(t *testing.T) {
	dir := t.TempDir()
	// A program that everyone may replace is passed over.
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "fake-server"), []byte("#!/bin/sh\ntouch "+dir+"/ran\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	servers := object{
		"other":   child(t, fault.Legacy, newJournal(t)),
		"missing": object{"command": "/nonexistent/server"},
		"nowhere": with(child(t, fault.Legacy, ""), object{"cwd": "/nonexistent"}),
		"fake":    object{"command": "fake-server"},
	}
	g := kit.Serve(t, &kit.Options{
		Config: object{"servers": servers},
		Launch: kit.Launch{Env: []string{"PATH=" + dir + ":" + os.Getenv("PATH")}},
	})
	ctx := kit.Hurry(t, kit.Patience)
	echoes(ctx, t, enter(ctx, t, g, "other", kit.HTTP, protocol.Legacy), "the others start")
	for name := range servers {
		if name == "other" {
			continue
		}
		c := enter(ctx, t, g, name, kit.HTTP, protocol.Modern)
		_, err := c.Tool(ctx, "echo", object{"text": "hello"})
		failed(t, err, protocol.CodeUnavailable, protocol.OutcomeNotSent)
		if s := g.Status()[name]; s.State == "ready" || s.LastError == "" {
			t.Errorf("%s is %q because of %q", name, s.State, s.LastError)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "ran")); err == nil {
		t.Error("a program was run that everyone may replace")
	}
}

// TestS36_ConfigurationThatCannotWorkIsRefused has values that cannot be right.
func TestS36_ConfigurationThatCannotWorkIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		config object
		says   string
	}{
		"an empty command":         {object{"command": ""}, "broken"},
		"a directory":              {object{"command": "."}, "broken"},
		"a variable that is unset": {object{"command": "sh", "env": object{"A": "${NOPE_IS_NOT_SET}"}}, "NOPE_IS_NOT_SET"},
		"an unknown key":           {object{"command": "sh", "comand": "x"}, "comand"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "dragoman.json")
			kit.WriteConfig(t, file, object{"servers": object{"broken": c.config}})
			p := kit.Start(t, kit.Launch{}, "serve", file, "--listen", "127.0.0.1:0")
			p.Await(c.says)
			if status := p.Wait(kit.Patience); status == 0 {
				t.Error("it ends as if all were well")
			}
			if err := p.Unwell(); err != nil {
				t.Error(err)
			}
		})
	}
}
