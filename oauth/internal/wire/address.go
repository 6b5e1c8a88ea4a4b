package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/dragoman-mcp/dragoman/internal/issuer"
)

// ErrAddress is wrapped by errors that say that an address must not be asked.
var ErrAddress = errors.New("address not allowed")

// A class says who can reach an address.
type class int

const (
	public    class = iota // everybody
	private                // a network of somebody's own
	loopback               // this machine
	forbidden              // nobody whom a server may name
)

func (k class) String() string {
	return [...]string{"public", "private", "loopback", "reserved"}[k]
}

func prefixes(list ...string) []netip.Prefix {
	parsed := make([]netip.Prefix, len(list))
	for i, s := range list {
		parsed[i] = netip.MustParsePrefix(s)
	}
	return parsed
}

var (
	privateRanges = prefixes("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "fc00::/7")

	// forbiddenRanges go before privateRanges. The single addresses tell a cloud's machines
	// their credentials.
	forbiddenRanges = prefixes("0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24",
		"198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"2001::/23", "2001:db8::/32", "3fff::/20",
		"100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128", "fd20:ce::254/128")

	globalUnicast = netip.MustParsePrefix("2000::/3")
	sixToFour     = netip.MustParsePrefix("2002::/16")
	teredo        = netip.MustParsePrefix("2001::/32")

	// tails end in an IPv4 address: compatible, translated, NAT64.
	tails = prefixes("::/96", "::ffff:0:0:0/96", "64:ff9b::/96")
)

// classOf judges an address; one that leads to an IPv4 address is judged by that.
func classOf(addr netip.Addr) class {
	addr = addr.Unmap().WithZone("")
	if addr.IsLoopback() {
		return loopback
	}
	worst := public
	for _, inner := range embedded(addr) {
		worst = max(worst, classOf(inner))
	}
	switch {
	case worst != public:
		return worst
	case within(addr, tails), teredo.Contains(addr):
		return public
	case within(addr, forbiddenRanges):
		return forbidden
	case within(addr, privateRanges):
		return private
	case addr.Is6() && !globalUnicast.Contains(addr), !addr.IsValid():
		return forbidden
	}
	return public
}

func within(addr netip.Addr, ranges []netip.Prefix) bool {
	for _, p := range ranges {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// embedded returns the IPv4 addresses that an IPv6 address leads to.
func embedded(addr netip.Addr) []netip.Addr {
	if !addr.Is6() {
		return nil
	}
	b := addr.As16()
	at := func(i int) netip.Addr { return netip.AddrFrom4([4]byte(b[i : i+4])) }
	switch {
	case within(addr, tails):
		return []netip.Addr{at(12)}
	case sixToFour.Contains(addr):
		return []netip.Addr{at(2)}
	case teredo.Contains(addr):
		client := binary.BigEndian.Uint32(b[12:]) ^ 0xffffffff
		return []netip.Addr{at(4), netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, client)))}
	case binary.BigEndian.Uint32(b[8:])&^0x02000000 == 0x5efe: // ISATAP
		return []netip.Addr{at(12)}
	}
	return nil
}

// judge returns an error unless an address of class k may be asked for a server of class server.
func judge(k, server class) error {
	if k == public || k != forbidden && k <= server {
		return nil
	}
	if k == forbidden {
		return fmt.Errorf("%w: it is reserved", ErrAddress)
	}
	return fmt.Errorf("%w: it is a %v address, and the MCP server has a %v one", ErrAddress, k, server)
}

// spelled returns the class of a host that is an address or a name of this machine.
func spelled(host string) (class, bool) {
	if issuer.Localhost(host) {
		return loopback, true
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return forbidden, false
	}
	return classOf(addr), true
}

// exempt reports whether a host's addresses are not judged: the user has named it.
func (c *Client) exempt(host, port string) bool {
	serverHost, serverPort := hostPort(c.server)
	host = strings.ToLower(host)
	return host == serverHost && port == serverPort || c.trusted[host] || c.trusted[net.JoinHostPort(host, port)]
}

// allow returns an error if u must not be asked, as far as its spelling says. What a name stands
// for is judged when it is dialed, or by the proxy.
func (c *Client) allow(ctx context.Context, u *url.URL, proxied bool) error {
	if sameOrigin(u, c.server) {
		return nil
	}
	if _, err := CheckURL(u.String()); err != nil {
		return err
	}
	host, port := hostPort(u)
	if c.exempt(host, port) {
		return nil
	}
	if u.Scheme == "http" && !issuer.Loopback(c.server.Hostname()) {
		return fmt.Errorf("%q must be an https URL: %w", short(u.String()), ErrAddress)
	}
	k, ok := spelled(host)
	if !ok || k == public {
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

// serverClass returns the class of the MCP server: public, private or loopback. A name is of the
// most public class of its addresses, and public if we cannot tell.
func (c *Client) serverClass(ctx context.Context, proxied bool) class {
	host := c.server.Hostname()
	least := forbidden
	if k, ok := spelled(host); ok {
		least = k
	} else if !proxied {
		addrs, err := c.resolve(ctx, host)
		if err != nil {
			return public
		}
		for _, addr := range addrs {
			least = min(least, classOf(addr))
		}
	}
	if least == forbidden { // which opens no door
		return public
	}
	return least
}

// dialAllowed connects to the first address that may be asked and answers. It dials the very
// addresses that it has judged.
func (c *Client) dialAllowed(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, c.getTime)
	defer cancel()
	if proxyOf(ctx) != nil {
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
	} else if !issuer.Localhost(host) {
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
		server := public
		if k != public && k != forbidden {
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
