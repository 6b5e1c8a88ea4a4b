package stdio

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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
	`echo $$; (env -i setsid sh -c '(setsid sh -c "echo \$\$; exec sleep 1000" &)' &) ; exec sleep 1000`,
}

// host is a program with servers. It writes the numbers of their processes, those
// of their keepers as "keeper N", and "ready". It ends as its argument says.
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
		fmt.Println(p.pid)
		select {} // until it is killed
	}
	var children []*child
	for _, text := range hostScripts {
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
		fmt.Println("keeper", p.cmd.Process.Pid)
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
		toKeepers []syscall.Signal
	}{
		{"killed", "wait", syscall.SIGKILL, nil},
		{"ended by a signal", "wait", syscall.SIGTERM, nil},
		{"killed, with keepers that were told to end", "wait", syscall.SIGKILL, []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP}},
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
			pids, keepers := readHost(t, out)
			if test.signal != 0 {
				for _, pid := range keepers {
					checkKeeper(t, pid)
					for _, sig := range test.toKeepers {
						_ = syscall.Kill(pid, sig)
					}
				}
				for _, pid := range append(pids, keepers...) {
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
			for _, pid := range append(pids, keepers...) {
				eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool { return !running(pid) })
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
	eventually(t, "the server is gone", func() bool { return !running(pid) })
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
func readHost(t *testing.T, out io.Reader) (pids, keepers []int) {
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
		word, isKeeper := strings.CutPrefix(line, "keeper ")
		pid, err := strconv.Atoi(word)
		switch {
		case err != nil:
			t.Fatalf("the host says: %s", line)
		case isKeeper:
			keepers = append(keepers, pid)
		default:
			pids = append(pids, pid)
		}
	}
	if len(pids) != 2*len(hostScripts) || len(keepers) != len(hostScripts) {
		t.Fatalf("the host has %d processes and %d keepers", len(pids), len(keepers))
	}
	return pids, keepers
}

// checkKeeper looks at what a keeper holds.
func checkKeeper(t *testing.T, pid int) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil || len(files) == 0 {
		t.Fatalf("the keeper has no files: %v", err)
	}
	for _, file := range files {
		target, _ := os.Readlink(file)
		fd, _ := strconv.Atoi(filepath.Base(file))
		expected := target == "/dev/null" || strings.HasPrefix(target, "pipe:") && (fd == launchSpecFile || fd == launchStatusFile) ||
			strings.HasPrefix(target, "anon_inode:") || strings.HasPrefix(target, "/sys/fs/cgroup/") // the runtime's own
		if !expected {
			t.Errorf("the keeper holds %s as %d", target, fd)
		}
	}
	if dir, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); dir != "/" {
		t.Errorf("the keeper is in %s", dir)
	}
}

// A keeper that somebody has killed takes its server along, and what is known to be the server's.
func TestServerEndsWithItsKeeper(t *testing.T) {
	const text = `setsid sh -c 'echo $$; exec sleep 1000' & exec sleep 1000`
	launched := confined(script(text))
	if launched.Dir = "/"; os.Getuid() == 0 {
		launched.User = "12345"
	}
	for name, c := range map[string]*Command{"direct": script(text), "launched": launched} {
		t.Run(name, func(t *testing.T) {
			p := launch(t, c)
			pid := readPID(t, p)
			if err := syscall.Kill(p.cmd.Process.Pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			await(t, p)
			for _, left := range []int{pid, p.pid} {
				eventually(t, fmt.Sprintf("process %d is gone", left), func() bool { return !running(left) })
			}
			if e := p.exit(); e.Signal != "killed" {
				t.Errorf("it ended so: %v", e)
			}
		})
	}
}

func TestKeeperEndsAsItsServerHasEnded(t *testing.T) {
	for text, want := range map[string]ExitError{
		`exit 0`:         {},
		`exit 77`:        {Status: 77},
		`kill -TERM $$`:  {Status: -1, Signal: "terminated"},
		`kill -ABRT $$`:  {Status: -1, Signal: "aborted"},
		`kill -SEGV $$`:  {Status: -1, Signal: "segmentation fault"},
		`kill -KILL $$`:  {Status: -1, Signal: "killed"},
		`kill -RTMIN $$`: {Status: -1, Signal: "signal 34"},
		`kill -PIPE $$`:  {Status: -1, Signal: "broken pipe"},
		`kill -16 $$`:    {Status: -1, Signal: "stack fault"},
	} {
		p := launch(t, script(text))
		await(t, p)
		if e := p.exit(); e.Status != want.Status || e.Signal != want.Signal {
			t.Errorf("%s: %+v, want %+v", text, e, want)
		}
	}
}

// Orphans are reaped while the server runs.
func TestKeeperLeavesNoZombies(t *testing.T) {
	p := launch(t, script(`for i in 1 2 3 4 5; do (sleep 0.01 & echo $!); done; read x`))
	lines := bufio.NewScanner(p.out())
	for range 5 {
		if !lines.Scan() {
			t.Fatal("it ended")
		}
		pid, err := strconv.Atoi(lines.Text())
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, fmt.Sprintf("process %d is gone", pid), func() bool {
			return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
		})
	}
}
