package oidc

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/wire/httpclient"
)

// judge returns an error unless a server of class server may lead to an address of class k.
func judge(k, server class) error {
	if k == classPublic || k != classReserved && k <= server {
		return nil
	}
	if k == classReserved {
		return fmt.Errorf("%w: it is reserved", ErrAddress)
	}
	return fmt.Errorf("%w: it is a %v address, and the server that names it has a %v one", ErrAddress, k, server)
}

// spelled returns the class of a host that is an address or a name of this machine.
func spelled(host string) (class, bool) {
	if Localhost(host) {
		return classLoopback, true
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return classReserved, false
	}
	return classOf(addr), true
}

// exempt reports whether a host's addresses are not judged, because the user has named it.
func (c *Client) exempt(host, port string) bool {
	serverHost, serverPort := hostPort(c.server)
	host = strings.ToLower(host)
	return host == serverHost && port == serverPort || c.trusted[host] || c.trusted[net.JoinHostPort(host, port)]
}

// allow returns an error if u must not be asked, as far as its spelling says. What a name stands
// for is judged when it is dialed, or by the proxy.
func (c *Client) allow(ctx context.Context, u *url.URL, proxied bool) error {
	if httpclient.SameOrigin(u, c.server) {
		return nil
	}
	if _, err := CheckURL(u.String()); err != nil {
		return err
	}
	host, port := hostPort(u)
	if c.exempt(host, port) {
		return nil
	}
	if u.Scheme == "http" && !Loopback(c.server.Hostname()) {
		return fmt.Errorf("%q must be an https URL: %w", short(u.String()), ErrAddress)
	}
	k, ok := spelled(host)
	if !ok || k == classPublic {
		return nil
	}
	if err := judge(k, c.serverClass(ctx, proxied)); err != nil {
		return fmt.Errorf("%q: %w", short(u.String()), err)
	}
	return nil
}

// allowText is allow for a URL that is not asked yet, or by others: a browser.
func (c *Client) allowText(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	req, err := http.NewRequest(http.MethodGet, text, http.NoBody)
	if err != nil {
		return fmt.Errorf("%q is no URL", short(text))
	}
	proxy, err := c.proxy(req)
	return c.allow(ctx, req.URL, err == nil && proxy != nil)
}

// serverClass returns the class of the server: public, private or loopback. A name has the
// most public class of its addresses, and is public if that cannot be found out.
func (c *Client) serverClass(ctx context.Context, proxied bool) class {
	host := c.server.Hostname()
	if host == "" {
		return classPublic
	}
	least := classReserved
	if k, ok := spelled(host); ok {
		least = k
	} else if !proxied {
		addrs, err := c.resolve(ctx, host)
		if err != nil {
			return classPublic
		}
		for _, addr := range addrs {
			least = min(least, classOf(addr))
		}
	}
	if least == classReserved { // which allows nothing more
		return classPublic
	}
	return least
}

// dialAllowed connects to the first address that may be asked and answers. It dials the very
// addresses that it has judged.
func (c *Client) dialAllowed(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.requestTime)
	defer cancel()
	if routeOf(ctx).proxy != nil {
		return c.dial(ctx, network, address)
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, err
	}
	addrs, err := c.addresses(ctx, host, port)
	if err != nil {
		return nil, err
	}
	for i, addr := range addrs {
		var conn net.Conn
		conn, err = c.dialOne(ctx, network, netip.AddrPortFrom(addr, uint16(number)), len(addrs)-i)
		if err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// dialOne gives an address its share of the time that is left, so that one that never answers
// leaves some to the others.
func (c *Client) dialOne(ctx context.Context, network string, to netip.AddrPort, left int) (net.Conn, error) {
	if end, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)/time.Duration(left))
		defer cancel()
	}
	return c.dial(ctx, network, to.String())
}

// addresses returns the addresses of a host that may be asked, at least one.
func (c *Client) addresses(ctx context.Context, host, port string) ([]netip.Addr, error) {
	addrs := []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback()}
	if addr, err := netip.ParseAddr(host); err == nil {
		addrs = []netip.Addr{addr}
	} else if !Localhost(host) {
		if addrs, err = c.resolve(ctx, host); err != nil {
			return nil, err
		}
	}
	if c.exempt(host, port) && len(addrs) > 0 {
		return addrs, nil
	}
	var allowed []netip.Addr
	refused := fmt.Errorf("%q has no address", short(host))
	for _, addr := range addrs {
		k := classOf(addr)
		server := classPublic
		if k != classPublic && k != classReserved {
			server = c.serverClass(ctx, false)
		}
		if err := judge(k, server); err != nil {
			refused = fmt.Errorf("%v: %w", addr, err)
			continue
		}
		allowed = append(allowed, addr.Unmap())
	}
	if len(allowed) == 0 {
		return nil, refused
	}
	return allowed, nil
}
