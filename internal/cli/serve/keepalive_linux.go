package serve

import (
	"net"
	"syscall"
)

// tcpUserTimeout is TCP_USER_TIMEOUT, which package syscall lacks on some machines.
const tcpUserTimeout = 0x12

// limitUnacknowledged bounds how long what is written may stay unacknowledged.
// Otherwise the system would send it again for a quarter of an hour.
func limitUnacknowledged(c *net.TCPConn) {
	raw, err := c.SyscallConn()
	if err != nil {
		return // it is closed
	}
	_ = raw.Control(func(fd uintptr) { // without it, a lost client is noticed later
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(lostTimeout.Milliseconds()))
	})
}
