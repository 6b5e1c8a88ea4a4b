package stdio

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// running reports whether a process exists and has not ended.
func running(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	var st processStat
	return err == nil && st.parse(text) && !st.dead
}

// readPID reads the number of a process from what p writes.
func readPID(t testing.TB, p *child) int {
	t.Helper()
	pid, err := strconv.Atoi(readLine(t, p))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// zombies returns how many processes wait to be reaped by us.
func zombies() (n int) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, err := os.ReadFile(file)
		var st processStat
		if err == nil && st.parse(text) && st.dead && st.parent == os.Getpid() {
			n++
		}
	}
	return n
}

func openFiles(t testing.TB) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}

func TestStopLeavesNobody(t *testing.T) {
	for _, test := range []struct{ name, script string }{
		{"in the group", `sleep 1000 & echo $!; read x`},
		{"in the group and ignoring SIGTERM", `sh -c 'trap "" TERM; echo $$; while :; do sleep 1000; done' & read x`},
		{"in a session of its own", `setsid sh -c 'echo $$; exec sleep 1000' & read x`},
		{"in a group of its own", `set -m; sh -c 'echo $$; exec sleep 1000' & read x`},
		{"orphaned in a session of its own", `(setsid sh -c 'echo $$; exec sleep 1000' &) ; read x`},
		{"orphaned in a session of its own without an environment", `(env -i setsid sh -c 'echo $$; exec sleep 1000' &) ; read x`},
		{"in the group without an environment", `env -i sh -c 'echo $$; exec sleep 1000' & read x`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			c := script(test.script)
			c.Grace = 20 * time.Millisecond
			p := launch(t, c)
			pid := readPID(t, p)
			if !running(pid) {
				t.Fatal("it does not run")
			}
			p.stop()
			if running(pid) {
				t.Error("it still runs")
			}
		})
		t.Run(test.name+", after the server died", func(t *testing.T) {
			t.Parallel()
			p := launch(t, script(test.script))
			pid := readPID(t, p)
			if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(p.out()); err != nil {
				t.Error(err)
			}
			await(t, p)
			if running(pid) {
				t.Error("it still runs")
			}
		})
	}
}

// Without Guard nobody can find a process that left the group and has no environment. It must
// at least not hold anybody up.
func TestC07_ReadersEndAlthoughAStrangerHoldsThePipes(t *testing.T) {
	guard.wanted.Store(false)
	defer guard.wanted.Store(true)
	c := script(`env -i setsid sh -c 'echo $$; exec sleep 1000' & read x; exit 3`)
	p := launch(t, c)
	pid := readPID(t, p)
	defer func() { _ = syscall.Kill(pid, syscall.SIGKILL) }()
	fmt.Fprintln(p.in(), "end")
	if _, err := io.ReadAll(p.out()); err != nil {
		t.Error(err)
	}
	await(t, p)
	if e := p.exit(); e.Status != 3 {
		t.Error(e)
	}
}

// The kernel sends the parent-death signal when the thread that started the
// child ends, and threads end with goroutines that are locked to them.
func TestChildOutlivesTheThreadThatAskedForIt(t *testing.T) {
	started := make(chan *child)
	var thread int
	go func() {
		runtime.LockOSThread() // and no unlock: the thread ends
		thread = syscall.Gettid()
		p, err := script(`while read x; do echo $x; done`).start()
		if err != nil {
			t.Error(err)
		}
		started <- p
	}()
	p := <-started
	if p == nil {
		t.FailNow()
	}
	t.Cleanup(p.stop)
	if thread != os.Getpid() { // the first thread never ends
		eventually(t, "the thread ends", func() bool {
			_, err := os.Stat(fmt.Sprintf("/proc/self/task/%d", thread))
			return err != nil
		})
	}
	fmt.Fprintln(p.in(), "hello")
	if got := readLine(t, p); got != "hello" {
		t.Errorf("read %q", got)
	}
}

// With a session of its own no process of a server can join the group of the gateway, where it could
// change the priority of all.
func TestC12_ServerRunsInAGroupAndSessionOfItsOwn(t *testing.T) {
	for name, c := range map[string]*Command{"direct": script(`echo ready; read x`), "launched": confined(script(`echo ready; read x`))} {
		p := launch(t, c)
		readLine(t, p)
		pgid, err := syscall.Getpgid(p.pid)
		if err != nil || pgid != p.pid || pgid == syscall.Getpgrp() {
			t.Errorf("%s: its group is %d, %v", name, pgid, err)
		}
		session, _, errno := syscall.Syscall(syscall.SYS_GETSID, uintptr(p.pid), 0, 0)
		if errno != 0 || int(session) != p.pid {
			t.Errorf("%s: its session is %d, %v", name, session, errno)
		}
	}
}

func TestS36_C12_ServerInheritsNothingButItsStreams(t *testing.T) {
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// A file as a parent may leave it to us.
	if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_SETFD, 0); errno != 0 {
		t.Fatal(errno)
	}
	keepInheritedFiles()
	// ls itself opens the directory as 3.
	if got := strings.Fields(output(t, &Command{Path: "ls", Args: []string{"/proc/self/fd"}})); len(got) != 4 {
		t.Errorf("the server has the files %v", got)
	}
}

func TestC12_Limits(t *testing.T) {
	c := script(`read x; ulimit -n; ulimit -v; ulimit -t; ulimit -H -t`)
	c.Limits = ResourceLimits{Memory: 512 << 20, OpenFiles: 77, CPUTime: 1500 * time.Millisecond}
	p := launch(t, c)
	fmt.Fprintln(p.in(), "now")
	text, err := io.ReadAll(p.out())
	if got := strings.Join(strings.Fields(string(text)), " "); err != nil || got != "77 524288 2 3" {
		t.Errorf("the limits are %s, %v; want 77 524288 2 3; stderr: %s", got, err, p.stderrTail())
	}
}

func TestC12_ProcessorTimeIsLimited(t *testing.T) {
	c := script(`trap '' XCPU; while :; do :; done`)
	c.Limits.CPUTime = time.Second
	p := launch(t, c)
	select {
	case <-p.done():
	case <-time.After(time.Minute): // two seconds of a processor that others want too
		t.Fatal("it still runs")
	}
	if e := p.exit(); e.Signal != "killed" {
		t.Error(e)
	}
}

func TestC12_UserAndGroup(t *testing.T) {
	if os.Getuid() != 0 {
		if _, err := (&Command{Path: "sh", User: "0"}).start(); err == nil {
			t.Error("a server was started as root by somebody else")
		}
		return
	}
	t.Setenv("HOME", "/root")
	for who, want := range map[string]string{"12345": "12345 12345 12345 /root", "12345:54321": "12345 54321 54321 /root"} {
		c := script(`echo $(id -u) $(id -g) $(id -G) $HOME`)
		c.User, c.Dir = who, "/"
		if got := strings.TrimSpace(output(t, c)); got != want {
			t.Errorf("as %s the server is %s, want %s", who, got, want)
		}
	}
	if nobody, err := user.Lookup("nobody"); err == nil {
		c := script(`echo $(id -u) $(id -g) $HOME $USER; setsid sleep 1000 & read x`)
		c.User, c.Dir, c.Grace = "nobody", "/", time.Millisecond
		p := launch(t, c)
		want := strings.Join([]string{nobody.Uid, nobody.Gid, nobody.HomeDir, "nobody"}, " ")
		if got := readLine(t, p); got != want {
			t.Errorf("as nobody the server is %s, want %s", got, want)
		}
		p.stop()
		if left := scanProcesses([]*processGroup{p.group}, true).found; len(left) > 0 {
			t.Errorf("left are %v", left)
		}
	}
}

func TestProcessStat(t *testing.T) {
	for text, want := range map[string]processStat{
		"7 (sh) S 3 5 5 0 -1 4194560 1 2":              {parent: 3},
		"7 (a) b) Z 1 9 9) Z 1 6 5 0 -1 4194560 1 2":   {parent: 1, dead: true},
		"9 (new\nline) R 8 9 9 34816 9 4194304 90 0 0": {parent: 8},
	} {
		var got processStat
		if !got.parse([]byte(text)) || got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
	for _, text := range []string{"", "7 (sh", "7 (sh) S 3", "7 (sh) S x 5 5 0 -1 1"} {
		if new(processStat).parse([]byte(text)) {
			t.Errorf("%q was understood", text)
		}
	}
}

// Hundreds of servers of every kind come and go, and nothing is left of them.
func TestHundredsOfServersLeaveNothing(t *testing.T) {
	kinds := []string{
		`echo ready; while read x; do :; done`,
		`echo ready; exec sleep 1000`,
		`trap '' TERM; echo ready; while :; do sleep 1000; done`,
		`sleep 1000 & echo ready; read x`,
		`setsid sh -c 'echo ready; exec sleep 1000' & read x`,
		`trap '' TERM; (trap '' HUP; setsid sh -c 'echo ready; exec sleep 1000' &); while :; do sleep 1000; done`,
		`setsid sleep 1000 & sleep 1000 & echo ready; exit 3`,
		`exec >&-; echo lost >&2; kill -9 $$`,
	}
	const count, workers = 200, 6
	output(t, script(`exit`)) // also starts the guard
	files, goroutines := openFiles(t), runtime.NumGoroutine()

	var next atomic.Int64
	var mu sync.Mutex
	var groups []*processGroup
	var all sync.WaitGroup
	start := time.Now()
	for range workers {
		all.Go(func() {
			for n := next.Add(1); n <= count; n = next.Add(1) {
				c := script(kinds[int(n)%len(kinds)])
				c.Grace = time.Millisecond
				p, err := c.start()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				groups = append(groups, p.group)
				mu.Unlock()
				if rand.IntN(4) > 0 { // the others are stopped while they start
					_, _ = p.out().Read(make([]byte, 1))
				}
				p.stop()
			}
		})
	}
	all.Wait()
	t.Logf("%d servers in %v", count, time.Since(start).Round(time.Millisecond))

	for _, pid := range scanProcesses(groups, true).found {
		name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		t.Errorf("process %d is left: %q", pid, name)
	}
	eventually(t, "all have been reaped", func() bool { return zombies() == 0 })
	eventually(t, "files and goroutines are as many as before", func() bool {
		return openFiles(t) <= files && runtime.NumGoroutine() <= goroutines
	})
}

func BenchmarkStartAndStop(b *testing.B) {
	c := script(`read x`)
	for b.Loop() {
		p, err := c.start()
		if err != nil {
			b.Fatal(err)
		}
		p.stop()
	}
}
