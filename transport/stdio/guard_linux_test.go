package stdio

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hostScripts are servers that would outlive the program that started them. Each
// writes the numbers of two processes.
var hostScripts = []string{
	`trap '' TERM; echo $$; sleep 1000 & echo $!; while :; do sleep 1000; done`,
	`echo $$; setsid sh -c 'trap "" TERM HUP; echo $$; while :; do sleep 1000; done' & exec sleep 1000`,
	`echo $$; (setsid sh -c 'echo $$; exec sleep 1000' &) ; exec sleep 1000`,
	`echo $$; env -i sh -c 'echo $$; exec sleep 1000' & exec sleep 1000`,
}

// host is a program with servers. It writes the numbers of their processes, those
// of its guards as "guard N", and "ready". It ends as its argument says.
func host() {
	check := func(err error) {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	how := os.Args[1]
	if how == "first process" {
		// Without a /proc of its own it would look at somebody else's processes.
		check(syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""))
		check(syscall.Mount("proc", "/proc", "proc", 0, ""))
	}
	if how == "no guard" {
		guard.wanted.Store(false)
		p, err := script(`exec sleep 1000`).start()
		check(err)
		fmt.Println(p.cmd.Process.Pid)
		select {} // until it is killed
	}
	if how == "launched" {
		c := confined(script(`exec sleep 1000`))
		if c.Dir = "/"; os.Getuid() == 0 {
			c.User = "12345"
		}
		p, err := c.start()
		check(err)
		check(guard.process.Process.Kill()) // the kernel alone has to see to it
		awaitExit(guard.process.Process.Pid)
		fmt.Println(p.cmd.Process.Pid)
		select {} // until it is killed
	}
	var children []*child
	for i, text := range hostScripts {
		c := script(text)
		c.Grace = 10 * time.Millisecond
		p, err := c.start()
		check(err)
		children = append(children, p)
		lines := bufio.NewScanner(p.out())
		for range 2 {
			if lines.Scan() {
				fmt.Println(lines.Text())
			}
		}
		if i == 0 || i == len(hostScripts)-1 {
			fmt.Println("guard", guard.process.Process.Pid)
		}
		if i == 0 && how == "lose the guard" {
			check(guard.process.Process.Kill())
			// Until it has been reaped it holds its pipe or not, but is dead.
			awaitExit(guard.process.Process.Pid)
		}
	}
	fmt.Println("ready")
	switch how {
	case "stop", "first process":
		for _, p := range children {
			p.stop()
		}
		fmt.Println("zombies", zombies())
	case "exit":
	default:
		select {} // until it is killed
	}
}

func TestS35_NoServerOutlivesItsHost(t *testing.T) {
	for _, test := range []struct {
		name, how string
		signal    syscall.Signal // to the host, when it is ready
		toGuard   []syscall.Signal
	}{
		{"killed", "wait", syscall.SIGKILL, nil},
		{"ended by a signal", "wait", syscall.SIGTERM, nil},
		{"killed after its guard was", "lose the guard", syscall.SIGKILL, nil},
		{"killed, with a guard that was told to end", "wait", syscall.SIGKILL, []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}},
		{"exits without stopping them", "exit", 0, nil},
		{"exits in good order", "stop", 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("/proc/self/exe", test.how)
			cmd.Env = append(os.Environ(), helperVar+"=host", "GORACE=atexit_sleep_ms=0")
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			defer cmd.Process.Kill()
			pids, guards := readHost(t, out)
			current := guards[len(guards)-1]
			if test.signal != 0 {
				checkGuard(t, current)
				for _, sig := range test.toGuard {
					_ = syscall.Kill(current, sig)
				}
				for _, pid := range append(pids, current) {
					if !running(pid) {
						t.Errorf("process %d does not run", pid)
					}
				}
				_ = cmd.Process.Signal(test.signal)
			}
			closed := make(chan struct{})
			go func() {
				_, _ = io.Copy(io.Discard, out) // whoever holds it is not gone
				close(closed)
			}()
			select {
			case <-closed:
			case <-time.After(3 * time.Second):
				t.Error("somebody holds the host's stdout")
			}
			for _, pid := range append(pids, guards...) {
				eventually(t, 2*time.Second, fmt.Sprintf("process %d is gone", pid), func() bool { return !running(pid) })
			}
			_ = cmd.Wait()
		})
	}
}

func TestServerDiesWithItsHostWithoutAGuard(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "no guard")
	cmd.Env = append(os.Environ(), helperVar+"=host", "GORACE=atexit_sleep_ms=0")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || !running(pid) {
		t.Fatalf("the host says %q", line)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	eventually(t, 2*time.Second, "the server is gone", func() bool { return !running(pid) })
}

// As the first process of a container the host becomes the parent of all orphans.
func TestFirstProcessOfAContainerReapsOrphans(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "first process")
	cmd.Env = append(os.Environ(), helperVar+"=host", "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	text, err := cmd.Output()
	if errors.Is(err, os.ErrPermission) || strings.Contains(string(text), syscall.EPERM.Error()) {
		t.Skip("only the superuser can make something like a container")
	}
	if err != nil || !strings.HasSuffix(string(text), "\nzombies 0\n") {
		t.Errorf("the host ended with %v and wrote:\n%s", err, text)
	}
}

// readHost reads what a host writes until it is ready.
func readHost(t *testing.T, out io.Reader) (pids, guards []int) {
	t.Helper()
	for r := bufio.NewReader(out); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		line = strings.TrimSpace(line)
		if line == "ready" {
			break
		}
		word, isGuard := strings.CutPrefix(line, "guard ")
		pid, err := strconv.Atoi(word)
		switch {
		case err != nil:
			t.Fatalf("the host says: %s", line)
		case isGuard:
			guards = append(guards, pid)
		default:
			pids = append(pids, pid)
		}
	}
	if len(pids) != 2*len(hostScripts) || len(guards) != 2 {
		t.Fatalf("the host has %d processes and %d guards", len(pids), len(guards))
	}
	return pids, guards
}

// checkGuard waits until the guard is on duty and looks at what it holds.
func checkGuard(t *testing.T, pid int) {
	t.Helper()
	eventually(t, 5*time.Second, "the guard ignores SIGTERM", func() bool {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, rest, _ := strings.Cut(string(text), "SigIgn:\t")
		word, _, _ := strings.Cut(rest, "\n")
		mask, _ := strconv.ParseUint(word, 16, 64)
		return mask&(1<<(syscall.SIGTERM-1)) != 0
	})
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("the guard has no files: %v", err)
	}
	for _, file := range files {
		target, _ := os.Readlink(file)
		expected := target == "/dev/null" || strings.HasPrefix(target, "pipe:") && filepath.Base(file) == "0" ||
			strings.HasPrefix(target, "anon_inode:") || strings.HasPrefix(target, "/sys/fs/cgroup/") // the runtime's own
		if !expected {
			t.Errorf("the guard holds %s as %s", target, filepath.Base(file))
		}
	}
	if dir, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); dir != "/" {
		t.Errorf("the guard is in %s", dir)
	}
}

func TestOneGuardForAll(t *testing.T) {
	var pids []int
	for range 3 {
		p := launch(t, script(`read x`))
		guard.mu.Lock()
		pids = append(pids, guard.process.Process.Pid)
		if pgid := guard.watched[p.group.tag]; pgid != p.cmd.Process.Pid {
			t.Errorf("the guard watches group %d, want %d", pgid, p.cmd.Process.Pid)
		}
		guard.mu.Unlock()
		p.stop()
		guard.mu.Lock()
		if _, ok := guard.watched[p.group.tag]; ok {
			t.Error("the guard still watches a server that was stopped")
		}
		guard.mu.Unlock()
	}
	if slices.Min(pids) != slices.Max(pids) {
		t.Errorf("there were the guards %v", pids)
	}
}

func TestGuardIsNotStartedUnasked(t *testing.T) {
	var g guardClient
	if err := g.watch("77", 1); err != nil || g.process != nil {
		t.Errorf("there is a guard although nobody called Guard: %v", err)
	}
	g.forget("77")
}

func TestGuardOrders(t *testing.T) {
	left := readGroups(strings.NewReader("+ aa 0\n+ bb 0\n+ bb 12\n+ cc 0\n+ cc 13\n- cc\n- dd\nnonsense\n+ ee"))
	slices.SortFunc(left, func(a, b *processGroup) int { return strings.Compare(a.tag, b.tag) })
	var got []string
	for _, f := range left {
		got = append(got, fmt.Sprint(f.tag, " ", f.pgid))
	}
	if strings.Join(got, ", ") != "aa 0, bb 12" {
		t.Errorf("left are %v", got)
	}
}
