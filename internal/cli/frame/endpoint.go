package frame

import "net/netip"

// Endpoint formats an address and, unless it is 0, its port, shortened in the middle to this many
// columns.
func Endpoint(addr string, port uint16, columns int) string {
	if a, err := netip.ParseAddr(addr); err == nil && port != 0 {
		addr = netip.AddrPortFrom(a, port).String()
	}
	return ShortenMiddle(addr, columns)
}
