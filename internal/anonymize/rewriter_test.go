package anonymize

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/xdpcap/xdpcap/internal/headers"
)

// Packets of all kinds: no address is left, the kept bytes have the same headers, and checksums
// stay as right or wrong as they were, computed with the cut bytes after them.
func TestPacketsOfAllKinds(t *testing.T) {
	t.Parallel()
	seen := make(map[string]int)
	for seed := range uint64(6000) {
		checkGenerated(t, seed, seen)
	}
	for _, kind := range []string{
		"ARP", "VXLAN", "Geneve", "GRE", "MPLS", "Dot1Q", "IPv4", "IPv6", "TCP", "UDP", "ICMPv4", "ICMPv6", "ICMPv6Redirect",
		"ICMPv6NeighborSolicitation", "ICMPv6RouterAdvertisement", "IGMP", "IPv6Fragment", "quoted", "TCP right=true <nil>", "TCP right=false <nil>",
		"UDP right=true <nil>", "UDP right=false <nil>", "ICMPv4 right=true <nil>", "ICMPv4 right=false <nil>", "ICMPv6 right=true <nil>",
		"ICMPv6 right=false <nil>", "IPv4 right=true <nil>", "GRE right=true <nil>", "GRE right=false <nil>",
	} {
		if seen[kind] < 20 {
			t.Errorf("only %d packets had %s", seen[kind], kind)
		}
	}
}

// FuzzGenerated does the same for packets of any seed.
func FuzzGenerated(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkGenerated(t, seed, make(map[string]int)) })
}

func checkGenerated(t *testing.T, seed uint64, seen map[string]int) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	g := &generator{rng: rng}
	frame, addresses := g.frame()
	if rng.IntN(3) == 0 { // every checksum that covers the last byte is wrong
		frame[len(frame)-1] ^= 0x55
	}
	m := newMapper(randomKey(rng))
	r := newRewriter(m)
	var to [maxHeaders]byte
	n := r.Rewrite(&to, headers.Ethernet, frame, len(frame))
	kept := to[:n]
	before := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	for _, a := range addresses {
		if !isLeft(m, kept, a) {
			continue
		}
		// Rewritten bytes may look like this address by chance. Under another key they look
		// different, but bytes that are not rewritten are left under any key.
		other := newMapper(randomKey(rng))
		var again [maxHeaders]byte
		if n := newRewriter(other).Rewrite(&again, headers.Ethernet, frame, len(frame)); isLeft(other, again[:n], a) {
			t.Fatalf("seed %d: % x is left in % x of %v", seed, a, kept, kinds(before))
		}
	}
	whole := slices.Concat(kept, frame[n:])
	after := gopacket.NewPacket(whole, layers.LayerTypeEthernet, gopacket.Default)
	for _, kind := range kinds(before) {
		seen[kind]++
	}
	checkSame(t, seed, before, after, seen)
}

// isLeft reports whether an address that m must change is left in the kept bytes of a frame.
func isLeft(m *mapper, kept, a []byte) bool { return bytes.Contains(kept, a) && !isFixed(m, a) }

// isFixed reports whether an address is one of the few of IPv4 that are mapped to themselves.
func isFixed(m *mapper, a []byte) bool {
	to := bytes.Clone(a)
	m.Address(to)
	return len(a) == 4 && bytes.Equal(to, a)
}

// checkSame compares the layers of two packets and of packets that they quote, and whether their
// checksums are right.
func checkSame(t *testing.T, seed uint64, before, after gopacket.Packet, seen map[string]int) {
	t.Helper()
	if diff := cmp.Diff(kinds(before), kinds(after)); diff != "" {
		t.Fatalf("seed %d: layers: %s", seed, diff)
	}
	if diff := cmp.Diff(checksums(before), checksums(after)); diff != "" {
		t.Fatalf("seed %d: checksums of %v (-before, +after): %s", seed, kinds(before), diff)
	}
	for _, said := range checksums(before) {
		seen[said]++
	}
	for i, l := range before.Layers() {
		if l.LayerType() == gopacket.LayerTypeDecodeFailure {
			continue
		}
		payload, other, first := l.LayerPayload(), after.Layers()[i].LayerPayload(), gopacket.LayerType(layers.LayerTypeIPv4)
		switch l := l.(type) {
		case *layers.ICMPv4:
			if typ := l.TypeCode.Type(); typ != 3 && typ != 5 {
				continue
			}
		case *layers.ICMPv6:
			if l.TypeCode.Type() != 1 || len(payload) < 4 {
				continue
			}
			payload, other, first = payload[4:], other[4:], layers.LayerTypeIPv6
		default:
			continue
		}
		seen["quoted"]++
		checkSame(t, seed, gopacket.NewPacket(payload, first, gopacket.Default), gopacket.NewPacket(other, first, gopacket.Default), seen)
	}
}

// checksums returns, for each layer with a checksum, whether it is right.
func checksums(p gopacket.Packet) (all []string) {
	var ip gopacket.NetworkLayer
	for _, l := range p.Layers() {
		if n, ok := l.(gopacket.NetworkLayer); ok {
			ip = n
		}
		if covers, ok := l.(interface {
			SetNetworkLayerForChecksum(gopacket.NetworkLayer) error
		}); ok && ip != nil {
			covers.SetNetworkLayerForChecksum(ip)
		}
		if summed, ok := l.(gopacket.LayerWithChecksum); ok {
			err, result := summed.VerifyChecksum()
			all = append(all, fmt.Sprintf("%v right=%t %v", l.LayerType(), result.Valid, err))
		}
	}
	return all
}

// FuzzBytes rewrites any bytes: no panic, no packet becomes longer, and the result is the same
// again.
func FuzzBytes(f *testing.F) {
	for seed := range uint64(40) {
		frame, _ := (&generator{rng: rand.New(rand.NewPCG(seed, 1))}).frame()
		f.Add(frame, uint8(seed), uint16(len(frame)))
	}
	r, again := newRewriter(newMapper(new(Key))), newRewriter(newMapper(new(Key)))
	f.Fuzz(func(t *testing.T, packet []byte, typ uint8, wire uint16) {
		var to, other [maxHeaders]byte
		before := bytes.Clone(packet)
		n := r.Rewrite(&to, headers.Link(typ%5), packet, int(wire))
		if n > len(packet) || n > maxHeaders {
			t.Fatalf("%d bytes of %d", n, len(packet))
		}
		if !bytes.Equal(packet, before) {
			t.Fatal("the packet itself was changed")
		}
		if m := again.Rewrite(&other, headers.Link(typ%5), packet, int(wire)); m != n || to != other {
			t.Fatal("another time it is not the same")
		}
		if slices.ContainsFunc(to[n:], func(b byte) bool { return b != 0 }) {
			t.Fatal("something is left after the end")
		}
	})
}

// The kept bytes of packets with other first headers, and of packets with unusual headers.
func TestKept(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(7, 7))
	ip := []byte{0x45, 0, 0, 28, 0, 0, 0, 0, 9, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 2}
	udp := []byte{0, 80, 0, 53, 0, 8, 0, 0}
	packet := slices.Concat(ip, udp)
	mac := []byte{0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0x12}
	frame := slices.Concat(mac, mac[:5], []byte{9, 8, 0})
	for _, test := range []struct {
		name   string
		typ    headers.Link
		packet []byte
		want   int
	}{
		{"raw IP", headers.Raw, packet, 28},
		{"cooked", headers.Cooked, slices.Concat([]byte{0, 0, 0, 1, 0, 6}, mac, []byte{0x77, 0x77, 8, 0}, packet), 44},
		{"cooked, of a tunnel", headers.Cooked, slices.Concat([]byte{0, 0, 3, 8, 0, 4}, ip[12:16], make([]byte, 4), []byte{8, 0}, packet), 44},
		{"cooked v2", headers.Cooked2, slices.Concat([]byte{8, 0, 0, 0, 0, 0, 0, 2, 0, 1, 0, 6}, mac, []byte{0x77, 0x77}, packet), 48},
		{"BSD's loopback", headers.Loopback, slices.Concat([]byte{2, 0, 0, 0}, packet), 32},
		{"BSD's loopback without IP", headers.Loopback, slices.Concat([]byte{7, 0, 0, 0}, packet), 0},
		{"unknown link type", headers.UnknownLink, packet, 0},
		{"cut within the Ethernet header", headers.Ethernet, frame[:13], 0},
		{"cut within the IP header", headers.Ethernet, slices.Concat(frame, ip[:19]), 14},
		{"cut within the UDP header", headers.Ethernet, slices.Concat(frame, ip, udp[:7]), 34},
		{"802.3", headers.Ethernet, slices.Concat(mac, mac, []byte{0, 20}, mac, ip), 14},
		{"PPPoE", headers.Ethernet, slices.Concat(mac, mac, []byte{0x88, 0x64, 0x11, 0, 0, 1, 0, 30, 0, 0x21}, packet), 50},
		{"MPLS with Ethernet that looks like IPv4", headers.Ethernet, slices.Concat(mac, mac, []byte{0x88, 0x47, 0, 0, 0x51, 9, 0x45, 0, 0, 28, 1, 2}, mac, []byte{8, 0}, ip), 18},
		{"MPLS with Ethernet that looks like IPv6", headers.Ethernet, slices.Concat(mac, mac, []byte{0x88, 0x47, 0, 0, 0x51, 9, 0x60}, mac, mac, ip, ip), 18},
		{"ARP with long addresses", headers.Ethernet, slices.Concat(mac, mac, []byte{8, 6, 0, 32, 8, 0, 20, 4, 0, 1}, mac, ip, ip), 22},
		{"ESP", headers.Raw, slices.Concat(ip[:9], []byte{50}, ip[10:], udp, mac), 28},
		{"GRE of PPTP", headers.Raw, slices.Concat(ip[:9], []byte{47}, ip[10:], []byte{0x30, 1, 0x88, 0x0b, 1, 2, 3, 4}), 24},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRewriter(newMapper(randomKey(rng)))
			var to [maxHeaders]byte
			n := r.Rewrite(&to, test.typ, test.packet, len(test.packet))
			if n != test.want {
				t.Errorf("%d bytes are kept, want %d", n, test.want)
			}
			for _, a := range [][]byte{mac, mac[:5], ip[12:16], ip[16:20], {0x77, 0x77}} {
				if bytes.Contains(to[:n], a) {
					t.Errorf("% x is left in % x", a, to[:n])
				}
			}
		})
	}
}

// A UDP checksum of 0 stays, because it means that there is none. A checksum that the card is to
// complete becomes that of the new pseudo-header.
func TestIncompleteChecksums(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(9, 9))
	for seed := range uint64(50) {
		g := &generator{rng: rand.New(rand.NewPCG(seed, 3))}
		ip := &layers.IPv4{Version: 4, TTL: 9, SrcIP: g.ip4(), DstIP: g.ip4(), Protocol: layers.IPProtocolUDP}
		udp := &layers.UDP{SrcPort: 1, DstPort: 2}
		udp.SetNetworkLayerForChecksum(ip)
		packet := serialize(stack{ip, udp, gopacket.Payload("some data")})
		rest := 17 + uint32(len(packet)-20)
		partial := func(b []byte) uint16 { return fold(uint32(sumOf(b[12:20])) + rest) }
		for _, test := range []struct {
			name string
			sum  uint16
			want func(after []byte) uint16
		}{
			{"none", 0, func([]byte) uint16 { return 0 }},
			{"the card completes it", partial(packet), partial},
		} {
			packet[26], packet[27] = byte(test.sum>>8), byte(test.sum)
			var to [maxHeaders]byte
			newRewriter(newMapper(randomKey(rng))).Rewrite(&to, headers.Raw, packet, len(packet))
			if got, want := uint16(to[26])<<8|uint16(to[27]), test.want(to[:]); got != want {
				t.Errorf("%s: %04x, want %04x", test.name, got, want)
			}
		}
	}
}

func TestNamesWithAddresses(t *testing.T) {
	t.Parallel()
	for name, has := range map[string]bool{
		"eth0": false, "eth0.100.200": false, "enp3s0f0np0": false, "/sys/fs/bpf/hook": false, "br-1a2b3c4d5e6f": true, "": false,
		"enx001122334455": true, "rpcap://192.0.2.1/eth0": true, "TCP@[2001:db8::1]:19000": true, "00:11:22:33:44:55": true,
		"00-11-22-33-44-55": true, "tcp://192.0.2.1": true, "NO_SOCKET": false, "tcp_v4_rcv": false, "2001:db8::": true, "10.0.0.1": true,
	} {
		if got := withoutAddress(name, "other"); (got == "other") != has {
			t.Errorf("%q becomes %q", name, got)
		}
	}
	if strings.Contains(withoutAddress("x", "y"), "y") {
		t.Error("x has no address")
	}
}
