//go:build npm || browser

package interop_test

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
)

// firstPort is the first port that freePort tries, and portsTried how many it has tried. Systems
// give no ports below 32768 to who asks for any, so no test gets one of these by chance while its
// server starts.
var (
	firstPort  = 20000 + rand.IntN(10000)
	portsTried atomic.Int32
)

// freePort returns a port for a server that cannot pick one itself. No other test gets it.
func freePort(t *testing.T) string {
	t.Helper()
	for range 100 {
		port := strconv.Itoa(firstPort + int(portsTried.Add(1)))
		if l, err := net.Listen("tcp", "127.0.0.1:"+port); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("there is no free port")
	return ""
}
