package oidc

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// ErrAddress is wrapped by errors about addresses that must not be used.
var ErrAddress = errors.New("address not allowed")

// A class says from where an address can be reached.
type class int

// The classes, from the one that every server may name to the one that none may.
const (
	classPublic   class = iota // from everywhere
	classPrivate               // from one private network
	classLoopback              // from this machine
	classReserved              // special purposes
)

// String implements fmt.Stringer.
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

// classOf returns the class of an address. One that leads to an IPv4 address has the class of that.
func classOf(addr netip.Addr) class {
	addr = addr.Unmap().WithZone("")
	if addr.IsLoopback() {
		return classLoopback
	}
	worst := classPublic
	for _, inner := range embedded(addr) {
		worst = max(worst, classOf(inner))
	}
	switch {
	case worst != classPublic:
		return worst
	case within(addr, tails), teredo.Contains(addr):
		return classPublic
	case within(addr, forbiddenRanges):
		return classReserved
	case within(addr, privateRanges):
		return classPrivate
	case addr.Is6() && !globalUnicast.Contains(addr), !addr.IsValid():
		return classReserved
	}
	return classPublic
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
