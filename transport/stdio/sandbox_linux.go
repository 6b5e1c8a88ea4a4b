package stdio

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unsafe"
)

const haveLimits = true

// list returns the limits in the terms of the kernel.
func (l ResourceLimits) list() (limits []resourceLimit) {
	add := func(resource int, value int64, what string) {
		if value > 0 {
			limits = append(limits, resourceLimit{resource, uint64(value), uint64(value), fmt.Sprintf(what, value)})
		}
	}
	add(syscall.RLIMIT_AS, l.Memory, "memory to %d bytes")
	add(syscall.RLIMIT_NOFILE, l.OpenFiles, "open files to %d")
	add(rlimitNproc, l.Processes, "processes to %d")
	if l.CPUTime > 0 {
		// SIGXCPU comes at the first number and may be ignored, SIGKILL at the second.
		seconds := uint64((l.CPUTime + time.Second - 1) / time.Second)
		limits = append(limits, resourceLimit{syscall.RLIMIT_CPU, seconds, seconds + 1, fmt.Sprintf("processor time to %d s", seconds)})
	}
	return limits
}

// A confinement is how a server is started and looked after: by a keeper if Guard was called.
type confinement struct {
	limits []resourceLimit
	keeper *keeper // nil if Guard was not called
}

// confine makes cmd one that starts a server with its limits and in its sandbox. close
// must follow.
func (c *Command) confine(cmd *exec.Cmd) (*confinement, error) {
	f := &confinement{limits: c.Limits.list()}
	var box *landlock
	if c.Sandbox != nil {
		var lacking string
		if box, lacking = c.Sandbox.landlock(landlockABI(), cmd.Path, cmd.Dir); lacking != "" {
			if !c.Sandbox.Optional {
				return nil, fmt.Errorf("its sandbox cannot be had: %s", lacking)
			}
			c.logger().Warn("server is started without the whole of its sandbox", "command", c.Path, "reason", lacking)
		}
	}
	if !guarded() {
		return f, nil
	}
	var err error
	f.keeper, err = newKeeper(cmd, newLaunchSpec(cmd, f.limits, box))
	return f, err
}

// apply confines the process that cmd has started, and returns that of the server.
func (f *confinement) apply(pid int) (server int, err error) {
	if f.keeper != nil {
		return f.keeper.server()
	}
	for _, l := range f.limits {
		if err := l.set(pid); err != nil {
			return pid, err
		}
	}
	return pid, nil
}

// awaitExit waits until the process of the server, pid, has ended, without reaping it, and
// reports whether it could. release must follow before it is reaped.
func (f *confinement) awaitExit(pid int) bool {
	if f.keeper != nil {
		return f.keeper.awaitExit()
	}
	return awaitExit(pid)
}

// release has a keeper end all that is left of the server, and itself.
func (f *confinement) release() {
	if f.keeper != nil {
		closeFiles(f.keeper.write)
	}
}

func (f *confinement) close() {
	if f.keeper != nil {
		f.keeper.close()
	}
}

// A resourceLimit is a limit in the terms of the kernel.
type resourceLimit struct {
	Resource   int
	Soft, Hard uint64
	What       string // for errors
}

// rlimitNproc is RLIMIT_NPROC.
const rlimitNproc = 6

// late reports whether the limit could be in the way of what is still to be done.
func (l *resourceLimit) late() bool {
	return l.Resource == syscall.RLIMIT_AS || l.Resource == rlimitNproc
}

// setEarly sets a limit while we have the rights that we were started with.
func (l *resourceLimit) setEarly() error {
	switch {
	case l.late():
		return nil
	case l.Resource == syscall.RLIMIT_NOFILE:
		// The standard library keeps track of this one.
		return l.explain(syscall.Setrlimit(l.Resource, &syscall.Rlimit{Cur: l.Soft, Max: l.Hard}))
	}
	return l.set(0)
}

// setLate sets a limit right before exec.
func (l *resourceLimit) setLate() error {
	if !l.late() {
		return nil
	}
	return l.set(0)
}

// set puts the limit on a process; 0 is this one.
func (l *resourceLimit) set(pid int) error {
	limit := struct{ soft, hard uint64 }{l.Soft, l.Hard}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(l.Resource), uintptr(unsafe.Pointer(&limit)), 0, 0, 0)
	if errno == 0 || errors.Is(errno, syscall.ESRCH) { // it has ended already
		return nil
	}
	return l.explain(errno)
}

func (l *resourceLimit) explain(err error) error {
	if err != nil {
		err = fmt.Errorf("limit %s: %w", l.What, err)
	}
	return err
}

const haveSandbox = true

// The system calls of Landlock, see landlock(7). They have the same numbers on nearly all
// architectures; on the others the kernel knows no such call.
const (
	sysLandlockCreateRuleset = 444
	sysLandlockAddRule       = 445
	sysLandlockRestrictSelf  = 446
)

// What a ruleset handles, by the version of the interface (ABI) that brought it.
const (
	fsExecute   = 1 << 0
	fsWriteFile = 1 << 1
	fsReadFile  = 1 << 2
	fsReadDir   = 1 << 3
	fsFirst     = 1<<13 - 1 // all of version 1
	fsRefer     = 1 << 13   // 2: move and link between directories
	fsTruncate  = 1 << 14   // 3
	fsIoctlDev  = 1 << 15   // 5

	netTCP = 1<<0 | 1<<1 // 4: bind and connect

	scopeAbstract = 1 << 0 // 6: abstract Unix sockets of others
	scopeSignal   = 1 << 1 // 6: signals to others

	// fsOfFiles is what makes sense for something that is no directory.
	fsOfFiles = fsExecute | fsWriteFile | fsReadFile | fsTruncate | fsIoctlDev

	fsReading = fsExecute | fsReadFile | fsReadDir
)

// minABI is the version that we need: before, files that may only be read could be
// emptied. It came with Linux 6.2.
const minABI = 3

// scopedABI is the version that keeps signals in the sandbox. It came with Linux 6.12.
const scopedABI = 6

// A landlock is a sandbox in the terms of the kernel.
type landlock struct {
	FS, Net, Scoped uint64 // what is handled, and so forbidden unless a rule allows it; if FS is zero, there is no Landlock
	Rules           []landlockRule
	Filter          *filterScope // what Landlock cannot do; nil if there is none
}

// A landlockRule allows something in a file or below a directory.
type landlockRule struct {
	Path    []byte
	Access  uint64
	Missing bool // it need not exist
}

// readable is what programs need of the system. Of /etc it has nothing that holds
// secrets. /proc is there because runtimes look at themselves; Landlock keeps the memory
// and the variables of other processes from a sandbox anyway.
var readable = strings.Fields(`/usr /bin /sbin /lib /lib32 /lib64 /libx32 /nix/store /gnu/store /proc
	/etc/alternatives /etc/ca-certificates /etc/ca-certificates.conf /etc/crypto-policies /etc/pki/ca-trust /etc/pki/tls/certs /etc/pki/tls/cert.pem
	/etc/pki/tls/openssl.cnf /etc/ssl/certs /etc/ssl/cert.pem /etc/ssl/openssl.cnf /etc/fonts /etc/gai.conf /etc/group /etc/host.conf /etc/hostname
	/etc/hosts /etc/ld.so.cache /etc/ld.so.conf /etc/ld.so.conf.d /etc/ld.so.preload /etc/ld-musl-x86_64.path /etc/ld-musl-aarch64.path
	/etc/locale.alias /etc/locale.conf /etc/localtime /etc/magic /etc/mime.types /etc/nsswitch.conf /etc/os-release /etc/passwd /etc/protocols
	/etc/resolv.conf /etc/services /etc/terminfo /etc/timezone
	/sys/devices/system/cpu /sys/devices/system/node /sys/fs/cgroup /sys/kernel/mm/transparent_hugepage`)

// devices can be read and written.
var devices = []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}

// landlockABI returns the version of Landlock that the kernel has, or 0.
func landlockABI() int {
	const version = 1 // LANDLOCK_CREATE_RULESET_VERSION
	n, _, errno := syscall.Syscall(sysLandlockCreateRuleset, 0, 0, version)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// landlock returns the sandbox of an executable on a kernel with a version of
// Landlock. lacking says what that cannot do, "" if it can all. Without Landlock the
// sandbox is what can be had otherwise.
func (s *Sandbox) landlock(abi int, file, dir string) (l *landlock, lacking string) {
	switch {
	case abi < 1:
		lacking = "the kernel has no Landlock, or it is not enabled"
	case abi < minABI:
		lacking = fmt.Sprintf("the kernel has version %d of Landlock, and files need version %d (Linux 6.2)", abi, minABI)
	case !haveFilter():
		lacking = "the kernel has no seccomp filters, or its architecture is neither amd64 nor arm64"
	}
	l = &landlock{}
	if haveFilter() {
		l.Filter = &filterScope{Keepers: []int32{int32(os.Getpid())}, Sockets: s.NoNetwork, Attributes: len(s.Write) == 0, Signals: abi < scopedABI}
	}
	if abi < 1 {
		return l, lacking
	}
	l.FS = fsFirst
	for _, added := range []struct {
		abi int
		to  *uint64
		bit uint64
	}{{2, &l.FS, fsRefer}, {3, &l.FS, fsTruncate}, {5, &l.FS, fsIoctlDev}, {scopedABI, &l.Scoped, scopeSignal}} {
		if abi >= added.abi {
			*added.to |= added.bit
		}
	}
	if s.NoNetwork && abi >= 4 {
		l.Net = netTCP
	}
	if s.NoNetwork && abi >= scopedABI {
		l.Scoped |= scopeAbstract
	}
	add := func(access uint64, missing bool, paths ...string) {
		for _, path := range paths {
			l.Rules = append(l.Rules, landlockRule{[]byte(path), access & l.FS, missing})
		}
	}
	add(fsReading, true, readable...)
	add(fsReadFile|fsWriteFile|fsTruncate, true, devices...)
	add(fsReadFile|fsExecute, false, file)
	if dir != "" {
		add(fsReading, false, dir)
	}
	add(fsReading, false, s.Read...)
	add(l.FS, false, s.Write...)
	return l, lacking
}

// open returns the ruleset, or -1 if there is none. It is closed by the exec that follows.
func (l *landlock) open() (int, error) {
	if l.FS == 0 {
		return -1, nil
	}
	attr := struct{ fs, net, scoped uint64 }{l.FS, l.Net, l.Scoped}
	// A kernel that does not know the last members takes them if they are zero.
	n, _, errno := syscall.Syscall(sysLandlockCreateRuleset, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return 0, fmt.Errorf("make the sandbox: %w", errno)
	}
	for _, rule := range l.Rules {
		err := rule.add(int(n))
		if err != nil && !(rule.Missing && (errors.Is(err, syscall.ENOENT) || errors.Is(err, syscall.EACCES))) {
			return 0, fmt.Errorf("let %s into the sandbox: %w", rule.Path, err)
		}
	}
	return int(n), nil
}

func (r *landlockRule) add(ruleset int) error {
	const (
		pathOnly    = 0x200000 // O_PATH
		pathBeneath = 1        // LANDLOCK_RULE_PATH_BENEATH
	)
	fd, err := syscall.Open(string(r.Path), pathOnly|syscall.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer syscall.Close(fd)
	var stat syscall.Stat_t
	if err := syscall.Fstat(fd, &stat); err != nil {
		return err
	}
	attr := struct {
		access uint64
		parent int32
	}{r.Access, int32(fd)}
	if stat.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		attr.access &= fsOfFiles
	}
	_, _, errno := syscall.Syscall6(sysLandlockAddRule, uintptr(ruleset), pathBeneath, uintptr(unsafe.Pointer(&attr)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// enter puts the calling thread, and so what it executes, into a sandbox for good.
func (l *landlock) enter(ruleset int) error {
	const noNewPrivs = 38 // PR_SET_NO_NEW_PRIVS
	if err := dropCapabilities(); err != nil {
		return err
	}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, noNewPrivs, 1, 0, 0, 0, 0); errno != 0 {
		return fmt.Errorf("give up privileges: %w", errno)
	}
	if ruleset >= 0 {
		if _, _, errno := syscall.RawSyscall(sysLandlockRestrictSelf, uintptr(ruleset), 0, 0); errno != 0 {
			return fmt.Errorf("enter the sandbox: %w", errno)
		}
	}
	if l.Filter == nil {
		return nil
	}
	l.Filter.Self, l.Filter.Keepers = int32(os.Getpid()), append(l.Filter.Keepers, int32(os.Getppid()))
	return l.Filter.enter()
}

// dropCapabilities gives up what root may do beyond its own files: with that a
// sandbox would have many ways out.
func dropCapabilities() error {
	const (
		dropBounding  = 24 // PR_CAPBSET_DROP
		ambient       = 47 // PR_CAP_AMBIENT
		clearAmbient  = 4  // PR_CAP_AMBIENT_CLEAR_ALL
		version3      = 0x20080522
		mostOfThemAll = 64
	)
	for c := range uintptr(mostOfThemAll) {
		if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, dropBounding, c, 0, 0, 0, 0); errno != 0 {
			break // there are no more, or we are not root
		}
	}
	_, _, _ = syscall.RawSyscall6(syscall.SYS_PRCTL, ambient, clearAmbient, 0, 0, 0, 0) // an old kernel has none
	header := struct {
		version uint32
		pid     int32
	}{version: version3}
	var none [6]uint32 // effective, permitted, inheritable, twice
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0); errno != 0 {
		return fmt.Errorf("give up capabilities: %w", errno)
	}
	return nil
}
