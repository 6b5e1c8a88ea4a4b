package stdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// boxed returns c in an empty sandbox.
func boxed(c *Command) *Command {
	c.Sandbox = &Sandbox{}
	return c
}

// needLandlock skips a test on a kernel without it.
func needLandlock(t *testing.T, abi int) {
	t.Helper()
	if n := landlockABI(); n < abi {
		t.Skipf("the kernel has version %d of Landlock, and this needs version %d", n, abi)
	}
}

// sandboxed runs a script in a sandbox and returns what it wrote.
func sandboxed(t *testing.T, s *Sandbox, text string, args ...string) string {
	t.Helper()
	c := script(text, args...)
	c.Sandbox = s
	return output(t, c)
}

func TestSandboxKeepsTheServerIn(t *testing.T) {
	needLandlock(t, minABI)
	dir := t.TempDir()
	for _, name := range []string{"read", "write", "secret"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name, "file"), []byte(name+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, link := range []string{"read/link", "write/link"} {
		if err := os.Symlink(filepath.Join(dir, "secret/file"), filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	box := &Sandbox{Read: []string{dir + "/read"}, Write: []string{dir + "/write"}}
	for _, test := range []struct {
		try  string // a command, in dir
		want bool
	}{
		{`cat read/file`, true},
		{`ls read`, true},
		{`cat write/file`, true},
		{`echo x >>write/file`, true},
		{`echo x >write/new && mkdir write/sub && mv write/new write/sub/new && rm write/sub/new && rmdir write/sub`, true},
		{`ln -s x write/other && rm write/other`, true},
		{`cat secret/file`, false},
		{`ls secret`, false},
		{`ls .`, false},
		{`cat read/link`, false},
		{`cat write/link`, false},
		{`echo x >secret/file`, false},
		{`echo x >read/file`, false},
		{`truncate -s 0 read/file`, false},
		{`rm read/file`, false},
		{`echo x >read/new`, false},
		{`mv write/file secret/file`, false},
		{`ln secret/file write/hard`, false},
		{`echo x >/tmp/dragoman-sandbox-test`, false},
		{`cat /etc/shadow`, false},
		{`ls /root`, false},
		{`cat /proc/$PPID/environ`, false},
		{`kill -0 $PPID`, landlockABI() < 6},
		{`cat /etc/passwd`, true},
		{`cat /proc/self/status`, true},
		{`echo x >/dev/null`, true},
		{`sh -c 'sh -c "cat secret/file"'`, false}, // what it starts is in there too
	} {
		c := script(`cd "$1"; ` + test.try + ` >/dev/null 2>&1 && echo yes || echo no`)
		c.Args = append(c.Args, dir)
		c.Sandbox = box
		if got := strings.TrimSpace(output(t, c)) == "yes"; got != test.want {
			t.Errorf("%s: %v, want %v", test.try, got, test.want)
		}
	}
	if text, err := os.ReadFile(dir + "/read/file"); err != nil || string(text) != "read\n" {
		t.Errorf("what it may only read is now %q, %v", text, err)
	}
	if got := sandboxed(t, box, `grep NoNewPrivs: /proc/self/status`); !strings.Contains(got, "1") {
		t.Errorf("it can gain privileges: %s", got)
	}
}

// What is our own must not be restricted by what a server is.
func TestSandboxIsTheServersAlone(t *testing.T) {
	needLandlock(t, minABI)
	file := filepath.Join(t.TempDir(), "file")
	for range 5 {
		sandboxed(t, &Sandbox{NoNetwork: true}, `:`)
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if got := output(t, script(`cat "$1" && echo fine`, file)); got != "fine\n" {
			t.Errorf("another server wrote %q", got)
		}
	}
}

func TestSandboxHasItsProgramAndItsDirectory(t *testing.T) {
	needLandlock(t, minABI)
	dir := t.TempDir()
	file := writeFile(t, 0o755, dir, "bin", "server")
	if err := os.WriteFile(file, []byte("#!/bin/sh\ncat data 2>/dev/null || echo hidden\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "data"), []byte("found\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if got := output(t, &Command{Path: file, Dir: work, Sandbox: &Sandbox{}}); got != "found\n" {
		t.Errorf("in its directory it wrote %q", got)
	}
	t.Chdir(work)
	if got := output(t, &Command{Path: file, Sandbox: &Sandbox{}}); got != "hidden\n" {
		t.Errorf("in ours it wrote %q", got)
	}
}

func TestSandboxOfAnotherUser(t *testing.T) {
	needLandlock(t, minABI)
	if os.Getuid() != 0 {
		t.Skip("only the superuser can change the user")
	}
	dir := t.TempDir()
	for name, owner := range map[string]int{"theirs": 12345, "ours": 0} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.Mkdir(path, 0o755), os.Chown(path, owner, owner)); err != nil {
			t.Fatal(err)
		}
	}
	// Everybody must be able to go there.
	for d := dir; d != "/" && d != "/tmp"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c := script(`id -u; touch theirs/x && echo yes; touch ours/x 2>/dev/null || echo no`)
	c.User, c.Dir, c.Sandbox = "12345", dir, &Sandbox{Write: []string{dir}}
	if got := output(t, c); got != "12345\nyes\nno\n" {
		t.Errorf("it wrote %q", got)
	}
	// Root in a sandbox is root without its powers.
	c.User = ""
	if got := output(t, c); got != "0\nno\n" && got != "0\n" {
		t.Errorf("as root it wrote %q", got)
	}
}

func TestSandboxWithoutNetwork(t *testing.T) {
	needLandlock(t, minABI)
	if !haveFilter() {
		t.Skip("the kernel has no seccomp filters")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, test := range []struct {
		box  *Sandbox
		want string
	}{
		{nil, "tcp:yes mptcp:yes listen:yes udp:yes unix:yes pair:yes interfaces:yes io_uring:"},
		{&Sandbox{}, "tcp:yes mptcp:yes listen:yes udp:yes unix:yes pair:yes interfaces:yes io_uring:"},
		{&Sandbox{NoNetwork: true}, "tcp:no mptcp:no listen:no udp:no unix:no pair:yes interfaces:yes io_uring:no"},
	} {
		c := ourselves(t, "network", l.Addr().String())
		if test.box != nil {
			c.Sandbox = test.box
		}
		// Without a sandbox it depends on the kernel whether there is io_uring.
		if got := strings.TrimSpace(output(t, c)); !strings.HasPrefix(got, test.want) {
			t.Errorf("%+v: %s, want %s", test.box, got, test.want)
		}
	}
}

// useNetwork says what it can do.
func useNetwork() {
	say := func(what string, err error) {
		word := "yes"
		if err != nil {
			word = "no"
		}
		fmt.Print(what, ":", word, " ")
	}
	dial := func(what string, mptcp bool) {
		var d net.Dialer
		d.SetMultipathTCP(mptcp)
		conn, err := d.DialContext(context.Background(), "tcp", os.Args[1])
		if err == nil {
			conn.Close()
		}
		say(what, err)
	}
	dial("tcp", false)
	dial("mptcp", true)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err == nil {
		l.Close()
	}
	say("listen", err)
	u, err := net.Dial("udp", os.Args[1])
	if err == nil {
		u.Close()
	}
	say("udp", err)
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.Close(fd)
	}
	say("unix", err)
	_, err = syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	say("pair", err)
	_, err = net.Interfaces()
	say("interfaces", err)
	err = nil
	if _, _, errno := syscall.Syscall(425, 1, 0, 0); errno == syscall.ENOSYS {
		err = errno // a null pointer is another error
	}
	say("io_uring", err)
}

func TestSandboxThatCannotBeHadIsRefused(t *testing.T) {
	for _, test := range []struct {
		abi     int
		box     Sandbox
		lacking string
	}{
		{0, Sandbox{}, "no Landlock"},
		{0, Sandbox{NoNetwork: true}, "no Landlock"},
		{1, Sandbox{}, "version 1"},
		{2, Sandbox{}, "version 2"},
		{3, Sandbox{}, ""},
		{3, Sandbox{NoNetwork: true}, ""},
		{99, Sandbox{NoNetwork: true}, ""},
	} {
		l, lacking := test.box.landlock(test.abi, "/bin/sh", "")
		if (lacking == "") != (test.lacking == "") || !strings.Contains(lacking, test.lacking) {
			t.Errorf("version %d: %q, want %q", test.abi, lacking, test.lacking)
		}
		if (l.FS == 0) != (test.abi == 0) || haveFilter() && l.Filter.Sockets != test.box.NoNetwork {
			t.Errorf("version %d: %+v", test.abi, l)
		}
		for _, r := range l.Rules {
			if r.Access&^l.FS != 0 {
				t.Errorf("version %d: a rule for %s has more than is handled, which the kernel refuses", test.abi, r.Path)
			}
		}
		if test.abi < 5 && l.FS&fsIoctlDev != 0 || test.abi < 4 && l.Net != 0 || test.abi < 6 && l.Scoped != 0 {
			t.Errorf("version %d does not know all of %+v", test.abi, l)
		}
	}
}

// Without Landlock an optional sandbox has what else there is.
func TestSandboxWithoutLandlockHasTheRest(t *testing.T) {
	if !haveFilter() {
		t.Skip("the kernel has no seccomp filters")
	}
	cmd, err := ourselves(t, "network", "127.0.0.1:1").prepare(newTag())
	if err != nil {
		t.Fatal(err)
	}
	box, _ := (&Sandbox{NoNetwork: true}).landlock(0, cmd.Path, "")
	l, err := newLauncher(cmd, newLaunchSpec(cmd, nil, box))
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := errors.Join(cmd.Start(), l.finish(), cmd.Wait()); err != nil || !strings.Contains(out.String(), "udp:no unix:no") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestSandboxIsChecked(t *testing.T) {
	for _, test := range []struct {
		box  Sandbox
		says string
	}{
		{Sandbox{Read: []string{"relative"}}, "not an absolute path"},
		{Sandbox{Write: []string{"/no/such/directory"}}, "no such file"},
	} {
		c := script(`:`)
		c.Sandbox = &test.box
		if _, err := c.start(); err == nil || !strings.Contains(err.Error(), test.says) || !strings.Contains(err.Error(), "sandbox") {
			t.Errorf("%+v: %v", test.box, err)
		}
	}
	guard.wanted.Store(false)
	defer guard.wanted.Store(true)
	if _, err := boxed(script(`:`)).start(); err == nil || !strings.Contains(err.Error(), "stdio.Guard") {
		t.Errorf("without Guard: %v", err)
	}
}

func TestOptionalSandboxIsWarnedOf(t *testing.T) {
	var log bytes.Buffer
	c := boxed(script(`echo fine`))
	c.Logger = slog.New(slog.NewTextHandler(&log, nil))
	c.Sandbox.Optional = true
	got := output(t, c)
	if got != "fine\n" {
		t.Errorf("it wrote %q", got)
	}
	if warned := strings.Contains(log.String(), "without the whole of its sandbox"); warned != (landlockABI() < minABI) {
		t.Errorf("the log has:\n%s", log.String())
	}
}
