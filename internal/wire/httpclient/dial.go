package httpclient

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"syscall"
	"time"
)

// Transport returns one that connects to addresses that everybody can reach, and to no
// others: the very address that is dialed is judged, so a name cannot lead elsewhere the
// second time. It uses no proxy, which would look names up for itself. The caller closes its idle
// connections.
func Transport() *http.Transport {
	d := &net.Dialer{ControlContext: judge}
	return &http.Transport{
		DialContext:            d.DialContext,
		TLSHandshakeTimeout:    5 * time.Second,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           8,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
		DisableCompression:     true, // so that a limit of bytes is one of the network
	}
}

// judge is asked before a socket connects.
func judge(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("%w: it cannot be read", ErrAddress)
	}
	if k := ClassOf(to.Addr()); k != Public {
		return fmt.Errorf("%w: %v is a %v one", ErrAddress, to.Addr(), k)
	}
	return nil
}
