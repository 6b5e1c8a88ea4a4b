//go:build unix

package gatewaytest

import "syscall"

// ofKernel reports whether a process is a thread of the kernel, as most are: asking costs
// less than to open what stands in /proc.
func ofKernel(pid int) bool {
	group, err := syscall.Getpgid(pid)
	return err == nil && group == 0
}
