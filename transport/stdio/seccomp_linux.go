package stdio

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// Landlock knows files, TCP and, in its later versions, signals. The rest of what a process
// can do to others of the same user, and to files that it cannot open, is refused by a
// filter of system calls, which every sandbox has.

// A filterScope is what a filter refuses beside what every filter refuses.
type filterScope struct {
	Self       int32   // the process that becomes the server
	Keepers    []int32 // the processes that look after it, the gateway among them
	Sockets    bool    // all sockets but netlink for routes, also MPTCP and UDP, which Landlock does not know
	Attributes bool    // changes of modes, owners and times of files
	Signals    bool    // signals to others, because Landlock is too old for that
}

// machines are the architectures that have filters, as AUDIT_ARCH_… has them.
var machines = map[string]uint32{"amd64": 0xc000003e, "arm64": 0xc00000b7}

// haveFilter reports whether there are filters.
func haveFilter() bool {
	const getSeccomp = 21 // PR_GET_SECCOMP, which fails on a kernel without filters
	_, known := machines[runtime.GOARCH]
	_, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, getSeccomp, 0, 0, 0, 0, 0)
	return known && errno == 0
}

// enter puts the filter on the calling thread and what it executes.
func (s *filterScope) enter() error {
	const setSeccomp, filterMode = 22, 2 // PR_SET_SECCOMP, SECCOMP_MODE_FILTER
	filter := s.filter(runtime.GOARCH)
	program := struct {
		count  uint16
		filter *bpf
	}{uint16(len(filter)), &filter[0]}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, setSeccomp, filterMode, uintptr(unsafe.Pointer(&program)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("filter system calls: %w", errno)
	}
	runtime.KeepAlive(filter)
	return nil
}

// A bpf is an instruction of a filter, see seccomp(2).
type bpf struct {
	code   uint16
	yes    uint8 // instructions to skip if so
	no     uint8
	number uint32
}

// The codes of instructions.
const (
	bpfLoad, bpfAnd, bpfIfEqual, bpfIfAtLeast, bpfResult = 0x20, 0x54, 0x15, 0x35, 0x06

	seccompErrno = 0x00050000 // SECCOMP_RET_ERRNO
	seccompAllow = 0x7fff0000 // SECCOMP_RET_ALLOW
)

// firstUnknown is the first system call that is younger than this program: nobody knows
// what it can do, and programs do without it as on an older kernel.
const firstUnknown = 470

// filter returns the filter of an architecture. What is called in the manner of
// another one, as 32-bit programs do, is refused.
func (s *filterScope) filter(arch string) []bpf {
	const numberAt, archAt, x32 = 0, 4, 0x40000000 // of struct seccomp_data, little-endian
	f := []bpf{
		{bpfLoad, 0, 0, archAt},
		{bpfIfEqual, 1, 0, machines[arch]},
		result(syscall.ENOSYS),
		{bpfLoad, 0, 0, numberAt},
		{bpfIfAtLeast, 0, 1, firstUnknown}, // x32 has greater numbers too
		result(syscall.ENOSYS),
	}
	for _, r := range s.rules() {
		number := r.arm64
		if arch == "amd64" {
			number = r.amd64
		}
		if number != absent {
			body := r.body()
			f = append(append(f, bpf{bpfIfEqual, 0, uint8(len(body)), number}), body...)
		}
	}
	return append(f, result(0))
}

// result returns the instruction that ends a filter: the call fails, or is allowed if
// errno is 0.
func result(errno syscall.Errno) bpf {
	if errno == 0 {
		return bpf{code: bpfResult, number: seccompAllow}
	}
	return bpf{code: bpfResult, number: seccompErrno | uint32(errno)}
}

// A filterRule says what becomes of a system call: the result of the first condition that
// holds, or else its own.
type filterRule struct {
	amd64, arm64 uint32
	otherwise    syscall.Errno // 0 allows it
	conditions   []condition
}

// absent is the number of a system call that an architecture does not have.
const absent = ^uint32(0)

// A condition looks at the lower half of an argument, which is all that the kernel looks at
// for the calls that have conditions.
type condition struct {
	arg         uint32
	mask, value uint32
	not         bool          // it holds if the masked argument is not the value
	then        syscall.Errno // 0 allows the call
}

// body returns the instructions of the rule, all of whose ways end in a result.
func (r *filterRule) body() (f []bpf) {
	const firstArg, each = 16, 8 // of struct seccomp_data
	for _, c := range r.conditions {
		f = append(f, bpf{bpfLoad, 0, 0, firstArg + each*c.arg})
		if c.mask != whole {
			f = append(f, bpf{bpfAnd, 0, 0, c.mask})
		}
		compare := bpf{bpfIfEqual, 0, 1, c.value}
		if c.not {
			compare.yes, compare.no = 1, 0
		}
		f = append(f, compare, result(c.then))
	}
	return append(f, result(r.otherwise))
}

const whole = ^uint32(0)

// is returns the condition that an argument has a value.
func is(arg, value uint32, then syscall.Errno) condition {
	return condition{arg: arg, mask: whole, value: value, then: then}
}

// isNot returns the condition that an argument has another value.
func isNot(arg, value uint32, then syscall.Errno) condition {
	return condition{arg: arg, mask: whole, value: value, not: true, then: then}
}

// hasAny returns the condition that an argument has any of some bits.
func hasAny(arg, bits uint32, then syscall.Errno) condition {
	return condition{arg: arg, mask: bits, value: 0, not: true, then: then}
}

// rules returns what becomes of system calls. Where programs do without a call that the
// kernel does not know, it is one of those (ENOSYS), and else forbidden (EPERM).
func (s *filterScope) rules() []filterRule {
	rules := append(s.alwaysRefused(), s.boundToSelf()...)
	rules = append(rules, s.namespaces()...)
	rules = append(rules, s.sockets())
	rules = append(rules, s.attributes()...)
	if s.Signals {
		rules = append(rules, s.signals()...)
	}
	return append(rules, s.control())
}

// alwaysRefused is what reaches into other processes, or around the filter, and what needs
// rights that a sandbox does not have and programs do not ask for.
func (s *filterScope) alwaysRefused() (rules []filterRule) {
	for _, n := range [][2]uint32{
		{434, 434}, // pidfd_open
		{438, 438}, // pidfd_getfd
		{424, 424}, // pidfd_send_signal
		{425, 425}, // io_uring_setup, which has calls that no filter sees
		{426, 426}, // io_uring_enter
		{427, 427}, // io_uring_register
		{435, 435}, // clone3, whose flags a filter cannot read; clone is used instead
	} {
		rules = append(rules, filterRule{amd64: n[0], arm64: n[1], otherwise: syscall.ENOSYS})
	}
	for _, n := range [][2]uint32{
		{101, 117}, // ptrace
		{310, 270}, // process_vm_readv
		{311, 271}, // process_vm_writev
		{312, 272}, // kcmp
		{440, 440}, // process_madvise
		{448, 448}, // process_mrelease
		{248, 217}, // add_key
		{249, 218}, // request_key
		{250, 219}, // keyctl
		{321, 280}, // bpf
		{298, 241}, // perf_event_open
		{323, 282}, // userfaultfd
		{103, 116}, // syslog, the log of the kernel
		{308, 268}, // setns
		{165, 40},  // mount
		{166, 39},  // umount2
		{155, 41},  // pivot_root
		{161, 51},  // chroot
		{428, 428}, // open_tree
		{429, 429}, // move_mount
		{430, 430}, // fsopen
		{431, 431}, // fsconfig
		{432, 432}, // fsmount
		{433, 433}, // fspick
		{442, 442}, // mount_setattr
		{467, 467}, // open_tree_attr
		{304, 265}, // open_by_handle_at
	} {
		rules = append(rules, filterRule{amd64: n[0], arm64: n[1], otherwise: syscall.EPERM})
	}
	return rules
}

// boundToSelf is what a process may do to itself, but not to others of its user, such as
// the gateway. A filter does not know who the server's descendants are, so they can
// name themselves by 0 only.
func (s *filterScope) boundToSelf() (rules []filterRule) {
	for _, n := range [][2]uint32{
		{302, 261}, // prlimit64
		{203, 122}, // sched_setaffinity
		{142, 118}, // sched_setparam
		{144, 119}, // sched_setscheduler
		{314, 274}, // sched_setattr
		{256, 238}, // migrate_pages
		{279, 239}, // move_pages
	} {
		rules = append(rules, filterRule{amd64: n[0], arm64: n[1], otherwise: syscall.EPERM, conditions: s.self(0)})
	}
	const prioUser, ioprioUser = 2, 3 // PRIO_USER, IOPRIO_WHO_USER
	return append(rules,
		filterRule{141, 140, syscall.EPERM, append([]condition{is(0, prioUser, syscall.EPERM)}, s.self(1)...)},  // setpriority
		filterRule{251, 30, syscall.EPERM, append([]condition{is(0, ioprioUser, syscall.EPERM)}, s.self(1)...)}, // ioprio_set
	)
}

// self returns the conditions that an argument is the calling process or the server.
func (s *filterScope) self(arg uint32) []condition {
	return []condition{is(arg, 0, 0), is(arg, uint32(s.Self), 0)}
}

// namespaces refuses new ones: in a new user namespace a process has all capabilities.
func (s *filterScope) namespaces() []filterRule {
	const (
		cloneTime = 0x80       // of unshare; clone has a signal there
		cloneNew  = 0x7e020000 // CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET
	)
	return []filterRule{
		{56, 220, 0, []condition{hasAny(0, cloneNew, syscall.EPERM)}},           // clone
		{272, 97, 0, []condition{hasAny(0, cloneNew|cloneTime, syscall.EPERM)}}, // unshare
	}
}

// sockets bounds the families of sockets. Pairs of sockets that are connected to each other
// are no matter of that.
func (s *filterScope) sockets() filterRule {
	const inet6, netlinkRoute = 10, 0
	r := filterRule{amd64: 41, arm64: 198, otherwise: syscall.EPROTONOSUPPORT}
	refusal := syscall.EACCES
	if !s.Sockets {
		refusal = syscall.EAFNOSUPPORT
		r.conditions = []condition{is(0, syscall.AF_UNIX, 0), is(0, syscall.AF_INET, 0), is(0, inet6, 0)}
	}
	r.conditions = append(r.conditions, isNot(0, syscall.AF_NETLINK, refusal), is(2, netlinkRoute, 0))
	return r
}

// attributes is what changes files without opening them for that, which Landlock does not
// know. Programs that copy files do without extended attributes, which hold access control
// lists too, so these are refused where modes, owners and times are not.
func (s *filterScope) attributes() (rules []filterRule) {
	refused := [][2]uint32{
		{188, 5},   // setxattr
		{189, 6},   // lsetxattr
		{190, 7},   // fsetxattr
		{463, 463}, // setxattrat
		{197, 14},  // removexattr
		{198, 15},  // lremovexattr
		{199, 16},  // fremovexattr
		{466, 466}, // removexattrat
		{469, 469}, // file_setattr
	}
	if s.Attributes {
		refused = append(refused, [][2]uint32{
			{90, absent},  // chmod
			{91, 52},      // fchmod
			{268, 53},     // fchmodat
			{452, 452},    // fchmodat2
			{92, absent},  // chown
			{93, 55},      // fchown
			{94, absent},  // lchown
			{260, 54},     // fchownat
			{132, absent}, // utime
			{235, absent}, // utimes
			{261, absent}, // futimesat
			{280, 88},     // utimensat
		}...)
	}
	for _, n := range refused {
		rules = append(rules, filterRule{amd64: n[0], arm64: n[1], otherwise: syscall.EPERM})
	}
	return rules
}

// signals keeps signals from others. Since a filter cannot tell who belongs to the
// server, it may signal itself and its group, and ask whether a process exists. Runtimes
// signal threads, in descendants too: by the number of their process, which cannot be that of
// a keeper, and in musl by the number of the thread, with signals of its own.
func (s *filterScope) signals() []filterRule {
	const (
		muslFirst, muslLast = 32, 34
		setOwn, setSignal   = 8, 10 // F_SETOWN, F_SETSIG
		setOwnEx            = 15    // F_SETOWN_EX
	)
	group := uint32(-s.Self)
	own := append(s.self(0), is(0, group, 0))
	var others []condition
	for _, pid := range s.Keepers {
		others = append(others, is(0, uint32(pid), syscall.EPERM))
	}
	tkill := []condition{is(1, 0, 0), is(0, uint32(s.Self), 0)}
	for sig := uint32(muslFirst); sig <= muslLast; sig++ {
		tkill = append(tkill, is(1, sig, 0))
	}
	return []filterRule{
		{62, 129, syscall.EPERM, append([]condition{is(1, 0, 0)}, own...)}, // kill
		{129, 138, syscall.EPERM, s.self(0)},                               // rt_sigqueueinfo
		{234, 131, 0, others},                                              // tgkill
		{297, 240, 0, others},                                              // rt_tgsigqueueinfo
		{200, 130, syscall.EPERM, tkill},                                   // tkill
		{72, 25, 0, []condition{ // fcntl, by which a file sends signals
			is(1, setSignal, syscall.EPERM), is(1, setOwnEx, syscall.EPERM),
			isNot(1, setOwn, 0), is(2, 0, 0), is(2, uint32(s.Self), 0), is(2, group, 0), isNot(2, 0, syscall.EPERM),
		}},
	}
}

// control refuses requests to files and devices that change attributes of files which are
// open for reading only, or send signals.
func (s *filterScope) control() filterRule {
	const (
		anyOfType = 0xff00
		btrfs     = 0x9400
		setOwner  = 0x8901 // FIOSETOWN
		setGroup  = 0x8902 // SIOCSPGRP
	)
	r := filterRule{amd64: 16, arm64: 29}
	for _, request := range []uint32{
		0x40086602, // FS_IOC_SETFLAGS
		0x40046602, // FS_IOC32_SETFLAGS
		0x40087602, // FS_IOC_SETVERSION
		0x401c5820, // FS_IOC_FSSETXATTR
		0x40806685, // FS_IOC_ENABLE_VERITY
		0x800c6613, // FS_IOC_SET_ENCRYPTION_POLICY
		0x40047211, // FAT_IOCTL_SET_ATTRIBUTES
	} {
		r.conditions = append(r.conditions, is(1, request, syscall.EPERM))
	}
	if s.Signals {
		r.conditions = append(r.conditions, is(1, setOwner, syscall.EPERM), is(1, setGroup, syscall.EPERM))
	}
	r.conditions = append(r.conditions,
		is(1, 0x40049409, 0), // FICLONE, FICLONERANGE, FIDEDUPERANGE: copies into a file that is open for writing
		is(1, 0x4020940d, 0),
		is(1, 0xc0189436, 0),
		condition{arg: 1, mask: anyOfType, value: btrfs, then: syscall.EPERM},
	)
	return r
}
