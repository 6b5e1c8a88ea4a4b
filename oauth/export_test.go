package oauth

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"

	"github.com/dragoman-mcp/dragoman/internal/access/oidc"
)

// A Network is what a source asks authorization servers over, in tests.
type Network struct {
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
	TLS     *tls.Config
}

// UseNetwork puts a network in the place of the system's. No request must be in flight.
func (s *Source) UseNetwork(n *Network) {
	s.wire.Close()
	s.wire = oidc.New(&oidc.Options{
		Server:  s.server,
		Network: oidc.Network{TLS: n.TLS, Resolve: n.Resolve, Dial: n.Dial, Proxy: http.ProxyURL(nil)},
	})
}
