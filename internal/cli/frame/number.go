package frame

import (
	"fmt"
	"net/netip"
	"strconv"
)

// Scaled formats x with about three digits and a decimal prefix.
func Scaled(x float64) string {
	for _, prefix := range []string{"", "k", "M", "G"} {
		if x < 1000 {
			return strconv.FormatFloat(x, 'f', min(1, len(prefix)), 64) + " " + prefix
		}
		x /= 1000
	}
	return strconv.FormatFloat(x, 'f', 1, 64) + " T"
}

// Packets formats a number of packets: "1 packet", "2 packets".
func Packets(n uint64) string { return Several(n, "packet") }

// Several formats a number of things: "1 client", "2 clients".
func Several[N int | uint64](n N, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// ShortenMiddle cuts the middle out of an address that is too long, and puts … there: the network
// is at the beginning of an address, and the port at its end.
func ShortenMiddle(s string, columns int) string {
	all := []rune(s)
	if len(all) <= columns {
		return s
	}
	if columns < 1 {
		return ""
	}
	kept := (columns - 1) / 2
	return string(all[:kept]) + "…" + string(all[len(all)-(columns-1-kept):])
}

// Endpoint formats an address with its port (0 = without), shortened in the middle to this many
// columns.
func Endpoint(addr string, port uint16, columns int) string {
	if a, err := netip.ParseAddr(addr); err == nil && port != 0 {
		addr = netip.AddrPortFrom(a, port).String()
	}
	return ShortenMiddle(addr, columns)
}
