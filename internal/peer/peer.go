// Package peer tells who is at the other end of a connection: from which network it comes and, over
// loopback, which user of this machine it is.
package peer

import (
	"net"
	"net/netip"
)

// Network is the prefix for which an address counts: with IPv6 every host has a network of 64 bits.
// It is invalid for other addresses than those of TCP.
func Network(a net.Addr) netip.Prefix {
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
