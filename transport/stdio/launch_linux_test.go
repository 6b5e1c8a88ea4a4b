package stdio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// confined returns c with a limit that does nothing but have it launched.
func confined(c *Command) *Command {
	c.Limits.OpenFiles = 512
	return c
}

// The server's first process looks at its limits before anything else.
func TestC12_LimitsAreInForceBeforeTheServerRuns(t *testing.T) {
	for range 20 {
		c := &Command{Path: "cat", Args: []string{"/proc/self/limits"}}
		c.Limits = ResourceLimits{Memory: 100 << 20, OpenFiles: 77, Processes: 4321, CPUTime: 90 * time.Second}
		text := output(t, c)
		for _, want := range []string{"Max address space 104857600 104857600", "Max open files 77 77", "Max processes 4321 4321", "Max cpu time 90 91"} {
			if !strings.Contains(strings.Join(strings.Fields(text), " "), want) {
				t.Fatalf("no %q:\n%s", want, text)
			}
		}
	}
}

// A program without Guard has limits, too, a moment later.
func TestC12_LimitsWithoutGuard(t *testing.T) {
	guard.wanted.Store(false)
	defer guard.wanted.Store(true)
	c := script(`read x; ulimit -n; ulimit -v`)
	c.Limits = ResourceLimits{Memory: 512 << 20, OpenFiles: 77}
	p := launch(t, c)
	fmt.Fprintln(p.in(), "now")
	if text, err := io.ReadAll(p.out()); err != nil || string(text) != "77\n524288\n" {
		t.Errorf("the limits are %q, %v", text, err)
	}
}

func TestS36_LaunchedServerIsAsClean(t *testing.T) {
	f, err := os.Open("/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	args := []string{"a b", "$(id)", "", "-x\n", "\xff\xfe\x80", "é", `"`, "\\u0000"}
	env := []string{"BYTES=\xff\x01\n", "QUOTE=\"'$(id)"}
	direct, launched := ourselves(t, "look", args...), confined(ourselves(t, "look", args...))
	direct.Env, launched.Env = append(direct.Env, env...), append(launched.Env, env...)
	var looks []look
	for _, c := range []*Command{direct, launched} {
		// A file as somebody who does not know better leaves it to our servers.
		var l look
		if c == launched {
			if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, f.Fd(), syscall.F_SETFD, 0); errno != 0 {
				t.Fatal(errno)
			}
		}
		p := launch(t, c)
		text, err := io.ReadAll(p.out())
		if err == nil {
			err = json.Unmarshal(text, &l)
		}
		if err != nil {
			t.Fatal(err)
		}
		if l.PID != p.pid || l.Group != l.PID || l.Parent != p.cmd.Process.Pid {
			t.Errorf("it is %d of group %d and a child of %d; want %d, which is a child of %d", l.PID, l.Group, l.Parent, p.pid, p.cmd.Process.Pid)
		}
		if want := toBytes(args); !slices.EqualFunc(l.Args[1:], want, bytes.Equal) {
			t.Errorf("its arguments are %q, want %q", l.Args[1:], want)
		}
		if len(l.Files) != 3 {
			t.Errorf("it has the files %v", l.Files)
		}
		l.PID, l.Group, l.Parent = 0, 0, 0
		l.Env = slices.DeleteFunc(l.Env, func(v []byte) bool { return bytes.HasPrefix(v, []byte(tagVar)) })
		looks = append(looks, l)
	}
	if a, b := fmt.Sprintf("%q", fmt.Sprint(looks[0])), fmt.Sprintf("%q", fmt.Sprint(looks[1])); a != b {
		t.Errorf("a launched server differs:\n%s\n%s", a, b)
	}
}

// A look is what a server sees of itself.
type look struct {
	PID, Group, Parent int
	Args, Env          [][]byte
	Dir, Umask, Masks  string
	Files              []string
}

func lookHere() {
	l := look{PID: os.Getpid(), Group: syscall.Getpgrp(), Parent: os.Getppid(), Args: toBytes(os.Args), Env: toBytes(os.Environ())}
	l.Dir, _ = os.Getwd()
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t"); name {
		case "Umask":
			l.Umask = value
		case "SigIgn", "SigBlk":
			l.Masks += line
		}
	}
	names, _ := filepath.Glob("/proc/self/fd/*")
	for _, name := range names {
		target, err := os.Readlink(name)
		if fd, _ := strconv.Atoi(filepath.Base(name)); err == nil && (fd < 3 || target == "/dev/null" || strings.HasPrefix(target, "pipe:")) {
			l.Files = append(l.Files, filepath.Base(name)) // the others are the runtime's own
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(l)
}

func TestLaunchedServerThatCannotBeExecutedIsExplained(t *testing.T) {
	dir := t.TempDir()
	lost := filepath.Join(dir, "lost")
	if err := os.WriteFile(lost, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, []byte("no program"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path, says string
		is         error
	}{
		{lost, "interpreter", fs.ErrNotExist},
		{empty, "not a program for this system", syscall.ENOEXEC},
	} {
		files := openFiles(t)
		_, err := confined(&Command{Path: test.path}).start()
		if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", test.path, err)
		}
		eventually(t, "its files are closed", func() bool { return openFiles(t) <= files })
	}
}

func TestMemoryLimitBelowWhatWeHaveOurselves(t *testing.T) {
	c := script(`echo ready`)
	c.Limits.Memory = 16 << 20
	if got := output(t, c); got != "ready\n" {
		t.Errorf("it wrote %q", got)
	}
	c.Limits.Memory = 64 << 10 // nothing can run in that
	p, err := c.start()
	if err == nil {
		await(t, p)
		p.stop()
		if e := p.exit(); e.Status == 0 {
			t.Error("it ran")
		}
	}
}

func TestProcessesOfAUserAreLimited(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only the superuser can start a server as somebody who has no other processes")
	}
	c := script(`for i in 1 2 3 4 5 6; do sleep 1000 & done; echo started; wait`)
	c.User, c.Dir, c.Limits.Processes, c.Grace = "54321", "/", 3, time.Millisecond
	p := launch(t, c)
	await(t, p) // a shell that cannot fork ends
	if e := p.exit(); e.Status == 0 || !strings.Contains(strings.ToLower(e.Stderr), "fork") {
		t.Errorf("it ended so: %v", e)
	}
}

func TestC12_LaunchedServerChangesItsUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only the superuser can change the user")
	}
	for who, want := range map[string]string{"12345": "12345 12345 12345", "12345:54321": "12345 54321 54321"} {
		c := confined(script(`echo $(id -u) $(id -g) $(id -G); grep -c '^Cap[PE][a-z]*:.*[1-9a-f]' /proc/self/status; exec sleep 1000`))
		c.User, c.Dir, c.Grace = who, "/", time.Millisecond
		p := launch(t, c)
		r := make([]byte, 64)
		n, _ := io.ReadAtLeast(p.out(), r, len(want)+3)
		if got := strings.TrimSpace(string(r[:n])); got != want+"\n0" {
			t.Errorf("as %s the server is %q, want %q without capabilities", who, got, want)
		}
		p.stop()
		if left := scanProcesses([]*processGroup{p.group}, true).found; len(left) > 0 {
			t.Errorf("left are %v", left)
		}
	}
}

func TestOnlyRootChangesTheUser(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs somebody who is not root and can be had from here")
	}
	for _, how := range []string{"user", "user with limits"} {
		cmd := exec.Command("/proc/self/exe", how)
		cmd.Env = []string{helperVar + "=user", "PATH=" + os.Getenv("PATH"), "GORACE=atexit_sleep_ms=0"}
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "only root can start a server as somebody else") || !strings.Contains(string(out), "ourselves: started") {
			t.Errorf("%s: %v\n%s", how, err, out)
		}
	}
}

// changeUserHere starts servers as somebody else and as ourselves.
func changeUserHere() {
	for name, who := range map[string]string{"another": "54321", "ourselves": "12345:12345"} {
		c := script(`read x`)
		c.User, c.Dir = who, "/"
		if os.Args[1] == "user with limits" {
			c = confined(c)
		}
		p, err := c.start()
		if err != nil {
			fmt.Printf("%s: %v\n", name, err)
			continue
		}
		fmt.Printf("%s: started\n", name)
		p.stop()
	}
}

func TestVetHasTheLastWord(t *testing.T) {
	refusal := errors.New("not this one")
	var seen *exec.Cmd
	c := script(`echo started`)
	c.Env, c.Dir = []string{"A=1"}, "/"
	c.Vet = func(cmd *exec.Cmd) error {
		seen = cmd
		return refusal
	}
	if p, err := c.start(); !errors.Is(err, refusal) {
		p.stop()
		t.Fatalf("the error is %v", err)
	}
	if !filepath.IsAbs(seen.Path) || filepath.Base(seen.Path) != "sh" || seen.Args[2] != `echo started` || seen.Dir != "/" || valueOf(seen.Env, "A") != "1" {
		t.Errorf("shown was %+v", seen)
	}
	c.Vet = func(*exec.Cmd) error { return nil }
	if got := output(t, c); got != "started\n" {
		t.Errorf("it wrote %q", got)
	}
}

func BenchmarkStartLaunched(b *testing.B) {
	for _, bench := range []struct {
		name string
		c    *Command
	}{
		{"direct", script(`echo ready; read x`)},
		{"limits", confined(script(`echo ready; read x`))},
		{"sandbox", boxed(script(`echo ready; read x`))},
	} {
		b.Run(bench.name, func(b *testing.B) {
			for b.Loop() {
				p, err := bench.c.start()
				if err != nil {
					b.Skip(err)
				}
				readLine(b, p)
				b.StopTimer()
				p.stop()
				b.StartTimer()
			}
		})
	}
}
