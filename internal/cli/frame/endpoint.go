package frame

import "net/netip"

// Endpoint is an address with its port. An IPv6 address that is too long for the room is cut.
func Endpoint(addr string, port uint16, room int) string {
	if a, err := netip.ParseAddr(addr); err == nil && port != 0 {
		addr = netip.AddrPortFrom(a, port).String()
	}
	return ShortenMiddle(addr, room)
}
