package stdio

import (
	"fmt"
	"runtime"
	"syscall"
	"unsafe"
)

// Landlock knows TCP, but not MPTCP, which falls back to TCP, nor UDP. So a server
// without network is kept from making sockets at all, by a filter of system calls. Pairs
// of sockets that are connected to each other are no matter of that.

// A machine is what a filter must know of an architecture.
type machine struct {
	audit  uint32 // AUDIT_ARCH_…
	socket uint32 // SYS_SOCKET
}

var machines = map[string]machine{
	"amd64": {0xc000003e, 41},
	"arm64": {0xc00000b7, 198},
}

const (
	sysIOUring = 425 // SYS_IO_URING_SETUP: a way around filters

	seccompErrno = 0x00050000 // SECCOMP_RET_ERRNO
	seccompAllow = 0x7fff0000 // SECCOMP_RET_ALLOW
)

// canRefuseSockets reports whether there are filters.
func canRefuseSockets() bool {
	const getSeccomp = 21 // PR_GET_SECCOMP, which fails on a kernel without filters
	_, known := machines[runtime.GOARCH]
	_, _, errno := syscall.Syscall6(syscall.SYS_PRCTL, getSeccomp, 0, 0, 0, 0, 0)
	return known && errno == 0
}

// A bpf is an instruction of a filter, see seccomp(2).
type bpf struct {
	code   uint16
	yes    uint8 // instructions to skip if so
	no     uint8
	number uint32
}

// socketFilter returns the filter of an architecture. What is called in the manner of
// another one, as 32-bit programs do, is refused.
func socketFilter(m machine) []bpf {
	const (
		load, ifEqual, ifAtLeast, result = 0x20, 0x15, 0x35, 0x06

		number, arch, firstArg = 0, 4, 16 // of struct seccomp_data, little-endian
		x32                    = 0x40000000
	)
	return []bpf{
		{load, 0, 0, arch},
		{ifEqual, 0, 7, m.audit},
		{load, 0, 0, number},
		{ifAtLeast, 5, 0, x32},
		{ifEqual, 4, 0, sysIOUring},
		{ifEqual, 0, 2, m.socket},
		{load, 0, 0, firstArg},
		{ifEqual, 0, 2, syscall.AF_NETLINK}, // which tells about interfaces
		{result, 0, 0, seccompAllow},
		{result, 0, 0, seccompErrno | uint32(syscall.ENOSYS)},
		{result, 0, 0, seccompErrno | uint32(syscall.EACCES)},
	}
}

// refuseSockets puts the filter on the calling thread and what it executes.
func refuseSockets() error {
	const setSeccomp, filterMode = 22, 2 // PR_SET_SECCOMP, SECCOMP_MODE_FILTER
	filter := socketFilter(machines[runtime.GOARCH])
	program := struct {
		count  uint16
		filter *bpf
	}{uint16(len(filter)), &filter[0]}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRCTL, setSeccomp, filterMode, uintptr(unsafe.Pointer(&program)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("refuse sockets: %w", errno)
	}
	runtime.KeepAlive(filter)
	return nil
}
