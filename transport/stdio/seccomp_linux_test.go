package stdio

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// tried is what the helper "try" writes: the errors of system calls, 0 for none.
type tried map[string]syscall.Errno

// tryCalls makes the system calls that a hostile server would make. Its arguments are
// another process, which none of them harms, and a file.
func tryCalls() {
	pid, _ := strconv.Atoi(os.Args[1])
	file := os.Args[2]
	other, self := uintptr(pid), uintptr(os.Getpid())
	result := make(tried)
	try := func(name string, amd64, arm64 uintptr, args ...uintptr) {
		number := amd64
		if runtime.GOARCH == "arm64" {
			number = arm64
		}
		args = append(args, 0, 0, 0, 0, 0, 0)
		r, _, errno := syscall.Syscall6(number, args[0], args[1], args[2], args[3], args[4], args[5])
		result[name] = errno
		if (strings.HasPrefix(name, "socket ") || name == "pidfd_open") && errno == 0 {
			_ = syscall.Close(int(r))
		}
	}
	var core syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_CORE, &core)
	limit := uintptr(unsafe.Pointer(&core))
	var mask [128]byte
	set := func(at uintptr) uintptr { return uintptr(unsafe.Pointer(&mask)) + at }
	const urgent = uintptr(syscall.SIGURG) // the runtime's, which does no harm

	try("prlimit64 self", 302, 261, 0, syscall.RLIMIT_CORE, limit)
	try("prlimit64 own number", 302, 261, self, syscall.RLIMIT_CORE, limit)
	try("prlimit64 other", 302, 261, other, syscall.RLIMIT_CORE, limit)
	try("sched_getaffinity self", 204, 123, 0, unsafe.Sizeof(mask), set(0))
	try("sched_setaffinity self", 203, 122, 0, unsafe.Sizeof(mask), set(0))
	try("sched_setaffinity other", 203, 122, other, unsafe.Sizeof(mask), set(0))
	try("setpriority self", 141, 140, 0, 0, 19)
	try("setpriority other", 141, 140, 0, other, 0)
	try("setpriority user", 141, 140, 2, 0, 0)
	try("ioprio_set other", 251, 30, 1, other, 0)
	try("kill self", 62, 129, self, urgent)
	try("kill group", 62, 129, 0, urgent)
	try("kill other", 62, 129, other, urgent)
	try("tgkill own thread", 234, 131, self, uintptr(syscall.Gettid()), urgent)
	try("tgkill other", 234, 131, other, other, urgent)
	try("tkill other", 200, 130, other, urgent)
	try("rt_sigqueueinfo other", 129, 138, other, urgent, set(0))
	try("ptrace", 101, 117, 0x4206, other, 0, 0) // PTRACE_SEIZE
	try("process_vm_readv", 310, 270, other)
	try("pidfd_open", 434, 434, other)
	try("pidfd_getfd", 438, 438, ^uintptr(0))
	try("pidfd_send_signal", 424, 424, ^uintptr(0))
	try("kcmp", 312, 272, self, other)
	try("keyctl", 250, 219, 0, ^uintptr(3)) // KEYCTL_GET_KEYRING_ID
	try("add_key", 248, 217)
	try("bpf", 321, 280, ^uintptr(0))
	try("perf_event_open", 298, 241, 0)
	try("userfaultfd", 323, 282, ^uintptr(0))
	try("io_uring_setup", 425, 425, 1, 0)
	try("clone3", 435, 435, 0, 0)
	try("unshare user", 272, 97, syscall.CLONE_NEWUSER)
	try("unshare nothing", 272, 97, 0)
	try("clone user", 56, 220, syscall.CLONE_NEWUSER|syscall.CLONE_SIGHAND) // fails also without a filter
	try("setns", 308, 268, ^uintptr(0), 0)
	try("mount", 165, 40)
	try("open_tree", 428, 428, ^uintptr(0), 0, 0)
	try("younger than we are", 480, 480)
	try("socket unix", 41, 198, syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	try("socket inet", 41, 198, syscall.AF_INET, syscall.SOCK_STREAM, 0)
	try("socket routes", 41, 198, syscall.AF_NETLINK, syscall.SOCK_RAW, 0)
	try("socket other netlink", 41, 198, syscall.AF_NETLINK, syscall.SOCK_RAW, 15) // NETLINK_KOBJECT_UEVENT
	try("socket alg", 41, 198, 38, syscall.SOCK_SEQPACKET, 0)

	say := func(name string, err error) {
		errno, _ := errors.AsType[syscall.Errno](err)
		result[name] = errno
	}
	say("chmod", syscall.Chmod(file, 0o600))
	say("chown", syscall.Chown(file, os.Getuid(), os.Getgid()))
	say("utimes", syscall.Utimes(file, make([]syscall.Timeval, 2)))
	say("setxattr", syscall.Setxattr(file, "user.dragoman", []byte("x"), 0))
	if f, err := os.Open(file); err == nil {
		say("fchmod", syscall.Fchmod(int(f.Fd()), 0o600))
		flags := 0
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), 0x40086602, uintptr(unsafe.Pointer(&flags)))
		say("set flags", errno)
		_ = f.Close()
	}
	_ = json.NewEncoder(os.Stdout).Encode(result)
}

// try runs the helper in a sandbox, on a kernel that has a version of Landlock at most.
func try(t *testing.T, box *Sandbox, abi int) tried {
	t.Helper()
	file := writeFile(t, 0o644, t.TempDir(), "file")
	c := ourselves(t, "try", strconv.Itoa(os.Getpid()), file)
	cmd, err := c.prepare(newTag())
	if err != nil {
		t.Fatal(err)
	}
	inside := *box
	inside.Read = []string{file}
	spec, lacking := inside.landlock(min(abi, landlockABI()), cmd.Path, cmd.Dir)
	if lacking != "" {
		t.Skip(lacking)
	}
	l, err := newLauncher(cmd, newLaunchSpec(cmd, nil, spec))
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	var out bytes.Buffer
	cmd.Stdout = &out
	if err := errors.Join(cmd.Start(), l.finish(), cmd.Wait()); err != nil {
		t.Fatal(err)
	}
	var result tried
	if err := json.Unmarshal(out.Bytes(), &result); err != nil {
		t.Fatalf("%v: %s", err, out.String())
	}
	if info, err := os.Stat(file); err != nil || len(box.Write) == 0 && (info.Mode() != 0o644 || info.ModTime().Unix() == 0) {
		t.Errorf("the file is now %v, %v", info, err)
	}
	return result
}

func TestSandboxKeepsItsHandsOffOthers(t *testing.T) {
	needLandlock(t, minABI)
	const (
		eperm, enosys, fine          = syscall.EPERM, syscall.ENOSYS, syscall.Errno(0)
		noFamily, noProtocol, eacces = syscall.EAFNOSUPPORT, syscall.EPROTONOSUPPORT, syscall.EACCES
	)
	want := tried{
		"prlimit64 self": fine, "prlimit64 own number": fine, "prlimit64 other": eperm,
		"sched_getaffinity self": fine, "sched_setaffinity self": fine, "sched_setaffinity other": eperm,
		"setpriority self": fine, "setpriority other": eperm, "setpriority user": eperm, "ioprio_set other": eperm,
		"kill self": fine, "kill group": fine, "kill other": eperm,
		"tgkill own thread": fine, "tgkill other": eperm, "tkill other": eperm, "rt_sigqueueinfo other": eperm,
		"ptrace": eperm, "process_vm_readv": eperm, "kcmp": eperm,
		"pidfd_open": enosys, "pidfd_getfd": enosys, "pidfd_send_signal": enosys,
		"keyctl": eperm, "add_key": eperm, "bpf": eperm, "perf_event_open": eperm, "userfaultfd": eperm,
		"io_uring_setup": enosys, "clone3": enosys, "younger than we are": enosys,
		"unshare user": eperm, "unshare nothing": fine, "clone user": eperm, "setns": eperm, "mount": eperm, "open_tree": eperm,
		"socket unix": fine, "socket inet": fine, "socket routes": fine, "socket other netlink": noProtocol, "socket alg": noFamily,
		"chmod": eperm, "chown": eperm, "utimes": eperm, "setxattr": eperm, "fchmod": eperm, "set flags": eperm,
	}
	for _, test := range []struct {
		name   string
		box    *Sandbox
		abi    int
		differ tried
	}{
		{"strictest for files", &Sandbox{}, 99, nil},
		{"without network", &Sandbox{NoNetwork: true}, 99, tried{"socket unix": eacces, "socket inet": eacces, "socket alg": eacces}},
		{"a kernel whose Landlock knows no signals", &Sandbox{}, scopedABI - 1, nil},
		{"it may write somewhere", &Sandbox{Write: []string{t.TempDir()}}, 99, tried{
			"chmod": fine, "chown": fine, "utimes": fine, "fchmod": fine,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := try(t, test.box, test.abi)
			for name, errno := range want {
				if other, ok := test.differ[name]; ok {
					errno = other
				}
				if got[name] != errno {
					t.Errorf("%s: %v, want %v", name, error(got[name]), error(errno))
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d calls were tried, and there are wishes for %d", len(got), len(want))
			}
		})
	}
}

// What people run as servers still works in a sandbox.
func TestSandboxRunsWhatPeopleRun(t *testing.T) {
	needLandlock(t, minABI)
	boxes := map[string]*Sandbox{"files": {}, "files and network": {NoNetwork: true}}
	for name, test := range map[string]struct {
		program string
		args    []string
		needs   []string // what is outside of /usr
	}{
		"node": {"node", []string{"-e", `
			const { Worker } = require("worker_threads");
			const { spawn, execFileSync } = require("child_process");
			require("fs").readFileSync("/etc/hosts");
			const worker = new Worker("require('worker_threads').parentPort.postMessage(1)", { eval: true });
			worker.on("message", () => {
				if (execFileSync("sh", ["-c", "echo hi"]).toString() !== "hi\n") process.exit(3);
				const child = spawn("sleep", ["1000"]);
				child.on("exit", (code, signal) => console.log("fine " + signal));
				if (!child.kill("SIGKILL")) process.exit(4);
			});
		`}, nil},
		"python": {"python3", []string{"-c", `
import asyncio, hashlib, resource, subprocess, threading
assert subprocess.run(["sh", "-c", "echo hi"], capture_output=True, text=True).stdout == "hi\n"
resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
t = threading.Thread(target=lambda: hashlib.sha256(b"x")); t.start(); t.join()
async def main():
    p = await asyncio.create_subprocess_exec("sleep", "1000")
    p.kill()
    print("fine", "SIGKILL" if await p.wait() == -9 else "?")
asyncio.run(main())
`}, nil},
		"go": {"", nil, nil}, // ourselves
	} {
		for kind, box := range boxes {
			t.Run(name+" without "+kind, func(t *testing.T) {
				c := ourselves(t, "busy")
				if test.program != "" {
					c = &Command{Path: programOf(t, test.program), Args: test.args}
				}
				inside := *box
				inside.Read = homeOf(c.Path)
				c.Sandbox = &inside
				if got := strings.TrimSpace(output(t, c)); got != "fine SIGKILL" {
					t.Errorf("it wrote %q", got)
				}
			})
		}
	}
}

// programOf returns the path of an interpreter itself, behind what pyenv and others put
// before it.
func programOf(t *testing.T, name string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skip(err)
	}
	if name == "python3" {
		if text, err := exec.Command(name, "-c", "import sys; print(sys.executable)").Output(); err == nil {
			return strings.TrimSpace(string(text))
		}
	}
	path, _ := exec.LookPath(name)
	return path
}

// homeOf returns the directory that a program outside of the system is installed in.
func homeOf(path string) []string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || strings.HasPrefix(real, "/usr/") {
		return nil
	}
	return []string{filepath.Dir(filepath.Dir(real))}
}

// beBusy does what programs in Go do: threads, a garbage collection that interrupts them, and a process.
func beBusy() {
	done := make(chan bool)
	for range 4 {
		go func() {
			for n := range 20_000_000 {
				_ = n
			}
			done <- true
		}()
	}
	runtime.GC()
	for range 4 {
		<-done
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		os.Stdout.WriteString(err.Error())
		return
	}
	if err := cmd.Process.Kill(); err != nil {
		os.Stdout.WriteString(err.Error())
		return
	}
	_ = cmd.Wait()
	if cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		os.Stdout.WriteString("fine SIGKILL\n")
	}
}

// A trappedCall is what a filter sees, struct seccomp_data.
type trappedCall struct {
	arch, number uint32
	args         [6]uint32
}

// run returns the result of a filter as the kernel would compute it.
func run(t *testing.T, filter []bpf, c trappedCall) uint32 {
	t.Helper()
	words := map[uint32]uint32{0: c.number, 4: c.arch}
	for i, a := range c.args {
		words[uint32(16+8*i)] = a
	}
	var a uint32
	for at := 0; at < len(filter); at++ {
		f := filter[at]
		skip := func(yes bool) {
			if at += int(f.no); yes {
				at += int(f.yes) - int(f.no)
			}
		}
		switch f.code {
		case bpfLoad:
			word, ok := words[f.number]
			if !ok {
				t.Fatalf("instruction %d loads %d", at, f.number)
			}
			a = word
		case bpfAnd:
			a &= f.number
		case bpfIfEqual:
			skip(a == f.number)
		case bpfIfAtLeast:
			skip(a >= f.number)
		case bpfResult:
			return f.number
		default:
			t.Fatalf("instruction %d is %#x", at, f.code)
		}
	}
	t.Fatal("the filter does not end")
	return 0
}

// The filters of all architectures, also of those that we are not.
func TestFilterOfEachArchitecture(t *testing.T) {
	const (
		allow  = uint32(seccompAllow)
		eperm  = seccompErrno | uint32(syscall.EPERM)
		enosys = seccompErrno | uint32(syscall.ENOSYS)
		self   = 500
		amd64  = 0xc000003e
		arm64  = 0xc00000b7
	)
	full := filterScope{Self: self, Keepers: []int32{7, 8}, Sockets: true, Attributes: true, Signals: true}
	some := filterScope{Self: self}
	other := []uint32{7}
	for _, test := range []struct {
		name         string
		scope        *filterScope
		amd64, arm64 uint32
		args         []uint32
		want         uint32
	}{
		{"read", &full, 0, 63, nil, allow},
		{"execve", &full, 59, 221, nil, allow},
		{"the last known", &full, 468, 468, nil, allow},
		{"the first unknown", &full, 470, 470, nil, enosys},
		{"x32", &full, 0x40000000, 0x40000000, nil, enosys},
		{"prlimit64 of itself", &full, 302, 261, []uint32{0}, allow},
		{"prlimit64 of the server", &full, 302, 261, []uint32{self}, allow},
		{"prlimit64 of another", &full, 302, 261, other, eperm},
		{"setpriority of its user", &full, 141, 140, []uint32{2, 0}, eperm},
		{"setpriority of its group", &full, 141, 140, []uint32{1, 0}, allow},
		{"clone of a thread", &full, 56, 220, []uint32{0x3d0f00}, allow},
		{"clone with a user namespace", &full, 56, 220, []uint32{0x10000011}, eperm},
		{"unshare of files", &full, 272, 97, []uint32{0x400}, allow},
		{"unshare of time", &full, 272, 97, []uint32{0x80}, eperm},
		{"a signal to the group", &full, 62, 129, []uint32{^uint32(self) + 1, 15}, allow},
		{"a signal to all", &full, 62, 129, []uint32{^uint32(0), 15}, eperm},
		{"a signal to another", &full, 62, 129, []uint32{7, 15}, eperm},
		{"the question whether it is there", &full, 62, 129, []uint32{7, 0}, allow},
		{"a signal to another where Landlock sees to it", &some, 62, 129, []uint32{7, 15}, allow},
		{"a signal to a thread of a keeper", &full, 234, 131, []uint32{8, 9, 15}, eperm},
		{"a signal to a thread of a descendant", &full, 234, 131, []uint32{501, 502, 23}, allow},
		{"musl's own signals to a thread", &full, 200, 130, []uint32{501, 33}, allow},
		{"a signal to a thread of who knows whom", &full, 200, 130, []uint32{9, 15}, eperm},
		{"F_SETSIG", &full, 72, 25, []uint32{3, 10, 9}, eperm},
		{"F_SETOWN to itself", &full, 72, 25, []uint32{3, 8, self}, allow},
		{"F_SETOWN to another", &full, 72, 25, []uint32{3, 8, 7}, eperm},
		{"F_GETFL", &full, 72, 25, []uint32{3, 3}, allow},
		{"fchmod", &full, 91, 52, nil, eperm},
		{"fchmod where it may write", &some, 91, 52, nil, allow},
		{"fsetxattr", &full, 190, 7, nil, eperm},
		{"fsetxattr where it may write", &some, 190, 7, nil, eperm},
		{"file_setattr", &some, 469, 469, nil, eperm},
		{"ioctl that sets flags", &some, 16, 29, []uint32{3, 0x40086602}, eperm},
		{"ioctl of terminals", &some, 16, 29, []uint32{3, 0x5401}, allow},
		{"ioctl that clones a file", &some, 16, 29, []uint32{3, 0x40049409}, allow},
		{"ioctl that makes a subvolume", &some, 16, 29, []uint32{3, 0x5000940e}, eperm},
		{"socket", &full, 41, 198, []uint32{2, 1, 0}, seccompErrno | uint32(syscall.EACCES)},
		{"socket with the network", &some, 41, 198, []uint32{2, 1, 0}, allow},
	} {
		for _, arch := range []struct {
			name          string
			audit, number uint32
		}{{"amd64", amd64, test.amd64}, {"arm64", arm64, test.arm64}} {
			c := trappedCall{arch: arch.audit, number: arch.number}
			copy(c.args[:], test.args)
			filter := test.scope.filter(arch.name)
			if got := run(t, filter, c); got != test.want {
				t.Errorf("%s, %s: %#x, want %#x", arch.name, test.name, got, test.want)
			}
			c.arch = 0x40000003 // i386
			if got := run(t, filter, c); got != enosys {
				t.Errorf("%s as a 32-bit program: %#x", test.name, got)
			}
		}
	}
	for _, arch := range []string{"amd64", "arm64"} {
		filter := full.filter(arch)
		if len(filter) > 4096 || !slices.Contains(filter, bpf{bpfIfEqual, 1, 0, machines[arch]}) {
			t.Errorf("%s: %d instructions", arch, len(filter))
		}
	}
}
