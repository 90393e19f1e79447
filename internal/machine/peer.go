package machine

import (
	"net"
	"net/netip"
)

// PeerNetwork returns the prefix that represents an address: for IPv6 its /64, which one host can
// have to itself, and for IPv4 the address alone. It is invalid if a is not a TCP address.
func PeerNetwork(a net.Addr) netip.Prefix {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return netip.Prefix{}
	}
	ip := tcp.AddrPort().Addr().Unmap()
	bits := ip.BitLen()
	if ip.Is6() {
		bits = 64
	}
	prefix, _ := ip.Prefix(bits)
	return prefix
}
