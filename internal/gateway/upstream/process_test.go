//go:build unix

package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dragoman-mcp/dragoman"
	"github.com/dragoman-mcp/dragoman/internal/gateway/config"
	"github.com/dragoman-mcp/dragoman/internal/testkit/fault"
	"github.com/dragoman-mcp/dragoman/internal/testkit/peertest"
	"github.com/dragoman-mcp/dragoman/protocol"
)

// supervise manages processes, none of which may be left at the end.
func supervise(t *testing.T, j fault.Journal, servers ...*config.Server) *Manager {
	t.Helper()
	m := manage(t, nil, nil)
	t.Cleanup(func() {
		if err := m.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		for _, pid := range j.PIDs() {
			if alive(pid) {
				t.Errorf("process %d is left", pid)
			}
		}
	})
	m.Apply(servers)
	return m
}

func alive(pid int) bool { return !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

// pidOf returns the process that answers.
func pidOf(t *testing.T, resp *dragoman.Message, err error) int {
	t.Helper()
	if err == nil && resp.IsError() {
		err = resp.RPCError()
	}
	if err != nil {
		t.Fatalf("whoami: %v", err)
	}
	var result struct{ Content []struct{ Text string } }
	var who fault.Process
	if resp.Decode(&result) != nil || len(result.Content) == 0 || json.Unmarshal([]byte(result.Content[0].Text), &who) != nil || who.PID == 0 {
		t.Fatalf("whoami: %s", resp)
	}
	return who.PID
}

func TestS32_CrashInACallFailsItAndTheNextOneWorks(t *testing.T) {
	for _, mode := range []string{fault.Legacy, fault.Modern} {
		t.Run(mode, func(t *testing.T) {
			j := journal(t)
			conf := child(t, mode, j)
			conf.Isolation = "shared"
			u := supervise(t, j, conf).Upstream("s")
			awaits(t, u, Ready)
			first := pid(t, u)
			var busy sync.WaitGroup
			for n := range 5 {
				busy.Go(func() {
					resp, err := call(t.Context(), u.Service().Requests(), "count", fmt.Sprintf(`{"key":"k%d","ms":60000}`, n))
					if e := protocolError(resp, err); e == nil || e.Code != protocol.CodeLost || !strings.Contains(string(e.Data), protocol.OutcomeUnknown) {
						t.Errorf("call %d: %v %v", n, resp, err)
					}
				})
			}
			eventually(t, "all calls are in flight", func() bool { return len(j.Of(fault.Ran, "")) >= 5 })
			if code := outcome(call(t.Context(), u.Service().Requests(), "crash", `{}`)); code != protocol.CodeLost {
				t.Errorf("crash: got %d, want %d", code, protocol.CodeLost)
			}
			busy.Wait()
			if again := pid(t, u); again == first {
				t.Error("the process that crashed answers")
			}
			if dups := j.Duplicates(); len(dups) > 0 {
				t.Errorf("carried out twice: %v", dups)
			}
			if s := u.Status(); s.LastStderr != "" || !strings.Contains(s.LastError, "crash") {
				t.Errorf("status: %+v", s)
			}
		})
	}
}

func pid(t *testing.T, u *Upstream) int {
	t.Helper()
	resp, err := call(t.Context(), u.Service().Requests(), "whoami", `{}`)
	return pidOf(t, resp, err)
}

func TestS34_CrashLoopIsLeftAloneAndSaysWhy(t *testing.T) {
	j := journal(t)
	dead := child(t, fault.Dead, j)
	dead.Name = "dead"
	dead.Retry = config.Retry{Min: 10 * time.Millisecond, Max: time.Hour}
	missing := &config.Server{Name: "missing", Command: "there-is-no-such-program", Retry: dead.Retry}
	mute := child(t, fault.Unresponsive, j)
	mute.Name, mute.ConnectTimeout = "mute", 500*time.Millisecond
	good := child(t, fault.Legacy, j)
	good.Name = "good"
	m := supervise(t, j, dead, missing, mute, good)
	awaits(t, m.Upstream("good"), Ready)
	for name, want := range map[string]string{"dead": "status 1", "missing": "there-is-no-such-program", "mute": "does not answer"} {
		u := m.Upstream(name)
		eventually(t, name+" says why", func() bool { return strings.Contains(u.Status().LastError, want) })
		awaits(t, u, BackingOff)
	}
	u := m.Upstream("dead")
	eventually(t, "the breaker is open", func() bool {
		s := u.Status()
		return s.NextAttempt != nil && time.Until(*s.NextAttempt) > time.Minute
	})
	began := time.Now()
	resp, err := call(t.Context(), u.Service().Requests(), "echo", `{"text":"x"}`)
	r := refused(t, protocol.CodeUnavailable, resp, err)
	if took := time.Since(began); took > 50*time.Millisecond {
		t.Errorf("the answer took %v", took)
	}
	if r.Stderr != fault.LastStderrLine {
		t.Errorf("the refusal has %q as the last line on stderr, want %q", r.Stderr, fault.LastStderrLine)
	}
	n := len(j.Of(fault.Started, ""))
	if lines := u.Logs(); !slices.ContainsFunc(lines, func(l LogLine) bool { return l.From == FromStderr && l.Text == fault.LastStderrLine }) {
		t.Errorf("the log lacks the last word: %v", lines)
	}
	echo(t, m.Upstream("good").Service().Requests())
	if more := len(j.Of(fault.Started, "")); more > n+4 {
		t.Errorf("there were %d starts more", more-n)
	}
}

func TestPain1_NoProcessIsLeftBehind(t *testing.T) {
	peertest.NoLeak(t)
	j := journal(t)
	stubborn := child(t, fault.Legacy, j, fault.IgnoreTermVariable+"=1", fault.IgnoreEOFVariable+"=1")
	stubborn.Name = "stubborn"
	normal := child(t, fault.Legacy, j)
	normal.Name = "normal"
	m := supervise(t, j, stubborn, normal)
	for _, u := range m.Upstreams() {
		awaits(t, u, Ready)
		for n := range 3 {
			resp, err := call(dragoman.WithCaller(t.Context(), &dragoman.Caller{Address: fmt.Sprint(n)}), u.Service().Requests(), "grandchild", `{}`)
			if outcome(resp, err) != 0 {
				t.Fatal(resp, err)
			}
		}
	}
	var all []string
	for _, e := range j.Of(fault.Descended, "") {
		all = append(all, e.Key)
	}
	if len(all) != 6 {
		t.Fatalf("there are %d grandchildren, want 6", len(all))
	}
	if err := m.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, key := range all {
		var pid int
		if _, err := fmt.Sscan(key, &pid); err != nil {
			t.Fatal(err)
		}
		eventually(t, "grandchild "+key+" is gone", func() bool { return !alive(pid) })
	}
}

func TestD13_D21_Pain11_ProcessThatIsKilledIsStartedAgain(t *testing.T) {
	j := journal(t)
	u := supervise(t, j, child(t, fault.Legacy, j)).Upstream("s")
	awaits(t, u, Ready)
	c := join(t, u, "alice")
	resp, err := c.call("whoami", `{}`)
	mine := pidOf(t, resp, err)
	for _, pid := range j.PIDs() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	resp, err = c.call("whoami", `{}`)
	if outcome(resp, err) == protocol.CodeLost { // it was sent before the end was noticed
		resp, err = c.call("whoami", `{}`)
	}
	if pidOf(t, resp, err) == mine {
		t.Error("a process that was killed answers")
	}
	awaits(t, u, Ready)
	echo(t, u.Service().Requests())
}

func TestProcessModels(t *testing.T) {
	for _, c := range []struct {
		isolation string
		processes int // of two callers with two sessions each and two requests in each
	}{
		{"shared", 1}, {"client", 2}, {"session", 4}, {"request", 8},
	} {
		t.Run(c.isolation, func(t *testing.T) {
			j := journal(t)
			conf := child(t, fault.Legacy, j)
			conf.Isolation = c.isolation
			u := supervise(t, j, conf).Upstream("s")
			awaits(t, u, Ready)
			pids := make(map[int]bool)
			for _, who := range []string{"alice", "bob"} {
				for range 2 {
					session := join(t, u, who)
					for range 2 {
						resp, err := session.call("whoami", `{}`)
						pids[pidOf(t, resp, err)] = true
					}
				}
			}
			if len(pids) != c.processes {
				t.Errorf("%d processes served them, want %d", len(pids), c.processes)
			}
		})
	}
}

func TestC14_PoolKeepsProcessesReady(t *testing.T) {
	j := journal(t)
	conf := child(t, fault.Legacy, j)
	conf.Pool = 2
	u := supervise(t, j, conf).Upstream("s")
	eventually(t, "three processes run", func() bool { return len(j.PIDs()) == 3 })
	awaits(t, u, Ready)
	before := j.PIDs()
	c := join(t, u, "alice")
	resp, err := c.call("whoami", `{}`)
	if pid := pidOf(t, resp, err); !slices.Contains(before, pid) {
		t.Errorf("process %d was started for the client, although %v were ready", pid, before)
	}
	eventually(t, "the one that was taken is replaced", func() bool { return len(j.PIDs()) == 4 })
}

func TestS48_OnlyWhatHasChangedIsReplaced(t *testing.T) {
	j := journal(t)
	a, b, c := child(t, fault.Legacy, j), child(t, fault.Legacy, j), child(t, fault.Legacy, j)
	a.Name, b.Name, c.Name = "a", "b", "c"
	a.Isolation, b.Isolation, c.Isolation = "shared", "shared", "shared"
	m := supervise(t, j, a, b, c)
	pids := make(map[string]int)
	for _, u := range m.Upstreams() {
		awaits(t, u, Ready)
		pids[u.Name()] = pid(t, u)
	}
	oldB, oldC := m.Upstream("b"), m.Upstream("c")
	running := make(chan int)
	go func() {
		running <- outcome(call(t.Context(), oldC.Service().Requests(), "count", `{"key":"last","ms":500}`))
	}()
	eventually(t, "the call runs", func() bool { return len(j.Of(fault.Ran, "last")) == 1 })

	a2, b2 := *a, *b
	a2.Tools.Exclude, a2.Prompts.Include, a2.Resources.Exclude = []string{"echo"}, []string{"a"}, []string{"b"}
	b2.Env = fault.Env(fault.Legacy, j, "MORE=1")
	got, gone := m.Apply([]*config.Server{&b2, &a2, {Name: "d", Command: "x", Disabled: true}})
	want := Changes{Added: []string{"d"}, Kept: []string{"a"}, Replaced: []string{"b"}, Removed: []string{"c"}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("changes: %+v, want %+v", got, want)
	}
	if !slices.Equal(gone, []*Upstream{oldB, oldC}) {
		t.Errorf("Apply returns %v for Retire", gone)
	}
	if pid := pid(t, oldC); pid != pids["c"] {
		t.Errorf("before c is retired, %d answers in its place", pid)
	}
	var retiring sync.WaitGroup
	for _, u := range []*Upstream{oldB, oldC} {
		retiring.Go(func() { // ends with the call
			if !u.Retire(t.Context()) {
				t.Errorf("what was in progress on %s was cut", u.Name())
			}
		})
	}
	defer retiring.Wait()
	eventually(t, "c takes no new work", func() bool { return oldC.shut() != nil })
	resp, err := call(t.Context(), oldC.Service().Requests(), "echo", `{"text":"x"}`)
	refused(t, protocol.CodeDraining, resp, err)
	if code := <-running; code != 0 {
		t.Errorf("the call that ran on the removed server got %d", code)
	}
	if pid := pid(t, m.Upstream("a")); pid != pids["a"] {
		t.Error("a server whose filters alone have changed was started again")
	}
	if !slices.Equal(m.Upstream("a").Config().Tools.Exclude, []string{"echo"}) {
		t.Error("the new filters are not known")
	}
	if pid := pid(t, m.Upstream("b")); pid == pids["b"] {
		t.Error("a server whose environment has changed was kept")
	}
	retiring.Wait()
	if now, late := pid(t, m.Upstream("b")), pid(t, oldB); now != late {
		t.Errorf("what comes too late for the old b is answered by %d, want %d", late, now)
	}
	for _, name := range []string{"b", "c"} {
		eventually(t, "the old "+name+" is gone", func() bool { return !alive(pids[name]) })
	}
	if m.Upstream("c") != nil || len(m.Upstreams()) != 3 || m.Upstreams()[0].Name() != "b" {
		t.Errorf("upstreams: %v", m.Upstreams())
	}
	resp, err = call(t.Context(), m.Upstream("d").Service().Requests(), "echo", `{}`)
	refused(t, protocol.CodeUnavailable, resp, err)
	if got := m.Upstream("d").State(); got != Disabled {
		t.Errorf("the state is %q, want %q", got, Disabled)
	}
}

func TestRestartGivesANewProcess(t *testing.T) {
	j := journal(t)
	conf := child(t, fault.Modern, j)
	u := supervise(t, j, conf).Upstream("s")
	awaits(t, u, Ready)
	first := pid(t, u)
	if err := u.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if pid(t, u) == first || alive(first) {
		t.Error("the old process is still there")
	}
	if s := u.Status(); s.State != Ready || s.LastError != "" {
		t.Errorf("status: %+v", s)
	}
}

func TestS47_ShutdownLetsRunningCallsEnd(t *testing.T) {
	j := journal(t)
	u := supervise(t, j, child(t, fault.Modern, j)).Upstream("s")
	awaits(t, u, Ready)
	running := make(chan int, 3)
	for n := range 3 {
		go func() {
			running <- outcome(call(t.Context(), u.Service().Requests(), "count", fmt.Sprintf(`{"key":"k%d","ms":300}`, n)))
		}()
	}
	eventually(t, "the calls run", func() bool { return len(j.Of(fault.Ran, "")) == 3 })
	if err := u.manager.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if code := <-running; code != 0 {
			t.Errorf("a call that ran got %d", code)
		}
	}
}

func TestUserThatCannotBeHadIsAnError(t *testing.T) {
	conf := child(t, fault.Legacy, "")
	conf.User, conf.Retry.Max = "there-is-no-such-user", time.Hour
	u := supervise(t, "", conf).Upstream("s")
	eventually(t, "it says why", func() bool { return strings.Contains(u.Status().LastError, "there-is-no-such-user") })
}

// A program that was not there when the file was read is found when it is started.
func TestS36_ProgramThatComesLaterIsCheckedWhenItIsStarted(t *testing.T) {
	dir := t.TempDir()
	late, mark := filepath.Join(dir, "late"), filepath.Join(dir, "ran")
	file := filepath.Join(dir, "dragoman.yaml")
	text := fmt.Sprintf("commands: [/usr/bin/*]\nservers: {s: {command: %q}}\n", late)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, report := config.Load(nil, file)
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(late, []byte("#!/bin/sh\ntouch "+mark+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	u := supervise(t, "", f.Servers["s"]).Upstream("s")
	eventually(t, "it says why", func() bool { return strings.Contains(u.Status().LastError, "not on the list") })
	if _, err := os.Stat(mark); err == nil {
		t.Error("it was run")
	}
}

func TestConfigurationThatCannotBeUsedStopsOneServerAlone(t *testing.T) {
	j := journal(t)
	bad := &config.Server{Name: "bad", URL: "gopher://somewhere"}
	m := supervise(t, j, bad, child(t, fault.Legacy, j))
	if s := m.Upstream("bad").Status(); s.State != Stopped || s.LastError == "" {
		t.Errorf("status: %+v", s)
	}
	resp, err := call(t.Context(), m.Upstream("bad").Service().Requests(), "echo", `{}`)
	refused(t, protocol.CodeUnavailable, resp, err)
	awaits(t, m.Upstream("s"), Ready)
}
