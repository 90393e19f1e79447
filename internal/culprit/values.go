package culprit

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Functions for field.value.

func hexValue(b []byte) string    { return "0x" + hex.EncodeToString(b) }
func hostValue(b []byte) string   { return fmt.Sprint(hostNumber(b)) }
func maskValue(b []byte) string   { return fmt.Sprintf("%#x", hostNumber(b)) }
func numberValue(b []byte) string { return fmt.Sprint(attributes{{0, b}}.number(0)) }

func nameValue(b []byte) string {
	if len(b) > 0 && len(b) < unix.IFNAMSIZ && b[len(b)-1] != 0 {
		return strconv.Quote(string(b) + "*") // the beginning of a name
	}
	return strconv.Quote(unix.ByteSliceToString(b))
}

var protocols = map[uint64]string{
	unix.IPPROTO_ICMP: "icmp", unix.IPPROTO_TCP: "tcp", unix.IPPROTO_UDP: "udp", unix.IPPROTO_ICMPV6: "icmpv6", unix.IPPROTO_SCTP: "sctp",
	unix.IPPROTO_GRE: "gre", unix.IPPROTO_ESP: "esp", unix.IPPROTO_UDPLITE: "udplite",
}

func protocolValue(b []byte) string { return nameOr(protocols, hostNumber(b)) }

func familyValue(b []byte) string {
	return nameOr(map[uint64]string{unix.NFPROTO_IPV4: "ipv4", unix.NFPROTO_IPV6: "ipv6"}, hostNumber(b))
}

func etherValue(b []byte) string {
	if len(b) != 2 {
		return hexValue(b)
	}
	return nameOr(map[uint64]string{unix.ETH_P_IP: "ip", unix.ETH_P_IPV6: "ip6", unix.ETH_P_ARP: "arp", unix.ETH_P_8021Q: "8021q"}, uint64(binary.BigEndian.Uint16(b)))
}

func nameOr(names map[uint64]string, number uint64) string {
	if name, ok := names[number]; ok {
		return name
	}
	return fmt.Sprint(number)
}

// stateValue lists the states of conntrack in a set of bits.
func stateValue(b []byte) string {
	var names []string
	for i, name := range []string{"invalid", "established", "related", "new"} {
		if hostNumber(b)>>i&1 != 0 {
			names = append(names, name)
		}
	}
	if hostNumber(b)&0x40 != 0 {
		names = append(names, "untracked")
	}
	return strings.Join(names, ",")
}

// addressValue is for an address of size bytes. If a rule reads fewer bytes, they are a prefix.
func addressValue(size int) func([]byte) string {
	return func(b []byte) string {
		whole := make([]byte, size)
		copy(whole, b)
		a, _ := netip.AddrFromSlice(whole)
		if len(b) < size {
			return fmt.Sprintf("%v/%d", a, 8*len(b))
		}
		return a.String()
	}
}

func onesIn(mask []byte) (ones int) {
	for _, b := range mask {
		ones += bits.OnesCount8(b)
	}
	return ones
}

// prefixText returns an address of so many bits, with the length of its prefix if that is shorter.
func prefixText(address string, ones, bits int) string {
	if ones == bits {
		return address
	}
	return fmt.Sprintf("%s/%d", address, ones)
}
