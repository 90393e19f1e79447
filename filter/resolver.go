package filter

import (
	"net/netip"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
)

// Resolver turns the names of an expression into numbers. Compile calls it only for words that are
// not numbers already. An error means that the name is unknown; its text reaches the user. The
// methods are called from one goroutine.
type Resolver interface {
	// Host returns the IPv4 and IPv6 addresses of a host, at least one.
	Host(name string) ([]netip.Addr, error)
	// Network returns a network's number as in /etc/networks, missing octets zero on the left: 127
	// is loopback's.
	Network(name string) (uint32, error)
	// Port returns a service's port; transport is "tcp" or "udp".
	Port(name, transport string) (uint16, error)
	// Protocol returns the number of a protocol above IP.
	Protocol(name string) (uint32, error)
}

// SystemResolver reads /etc/services, /etc/protocols and /etc/networks, and looks hosts up in
// /etc/hosts and the DNS with Go's own resolver, so that a static binary behaves the same
// everywhere. It is the default of Compile.
func SystemResolver() Resolver { return cbpf.System{} }
