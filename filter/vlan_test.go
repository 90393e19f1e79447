package filter

import (
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/filter/internal/cbpf"
	"github.com/xdpcap/xdpcap/filter/internal/filtertest"
)

// tagged inserts tags into a frame, after the addresses.
func tagged(pkt []byte, tags ...[]byte) []byte {
	return filtertest.Frame(append([][]byte{pkt[:12]}, append(tags, pkt[12:])...)...)
}

// readsRaw reports whether an expression tests the frame or its length as a whole, which differs
// with a tag.
func readsRaw(expr string) bool {
	for _, word := range []string{"ether[", "byte ", "len", "less", "greater", "vlan", "outbound"} {
		if strings.Contains(expr, word) {
			return true
		}
	}
	return false
}

// TestVLANAware runs the VLAN-aware program on a tagged frame: it decides as the meaning does about
// the same frame without its tags. It catches offsets that are not shifted, and a "not" answered by
// the program for another number of tags.
func TestVLANAware(t *testing.T) {
	t.Parallel()
	var plain [][]byte
	for _, p := range filtertest.Packets() {
		if len(p) > 14 && p[12] != 0x81 && p[12] != 0x88 && p[12] != 0x91 {
			plain = append(plain, p)
		}
	}
	plain = filtertest.Truncations(plain, 7)
	tags := [][][]byte{{}, {filtertest.VLANTag(cbpf.Ether8021Q, 5)}, {filtertest.VLANTag(cbpf.Ether8021AD, 9)}, {filtertest.VLANTag(cbpf.Ether8021AD, 9), filtertest.VLANTag(cbpf.Ether8021Q, 5)},
		{filtertest.VLANTag(cbpf.EtherQinQ, 1), filtertest.VLANTag(cbpf.Ether8021Q, 4095)}}
	exprs := []string{"not tcp", "tcp port 443", "not ip6 and not arp", "ether host 02:00:00:00:00:01 or arp", "mpls and ip6", "pppoes and udp",
		"geneve and tcp port 22", "llc or not ip"}
	for seed := uint64(2e6); len(exprs) < filtertest.Budget(t, 250); seed++ {
		expr := filtertest.NewGrammar(seed).Expression(1)
		if _, err := CompileRaw(expr, Options{Resolver: filtertest.Resolver{}, Netmask: filtertest.AnyMask}); err == nil && !readsRaw(expr) {
			exprs = append(exprs, expr)
		}
	}
	for _, expr := range exprs {
		meaning := filtertest.Meaning{Netmask: filtertest.AnyMask}.Parse(expr)
		got, err := CompileRaw(expr, Options{Resolver: filtertest.Resolver{}, Netmask: filtertest.AnyMask, VLANAware: true})
		if err != nil {
			t.Errorf("%s: %v", expr, err)
			continue
		}
		for _, p := range plain {
			if len(p) < 14 {
				continue
			}
			want := meaning.Matches(p, uint32(len(p)))
			for _, tag := range tags {
				pkt := tagged(p, tag...)
				if match := cbpf.Interpret(got, pkt, uint32(len(pkt))) != 0; match != want {
					t.Fatalf("%s: %t on %x, want %t as on %x", expr, match, pkt, want, p)
				}
			}
		}
	}
}

// TestVLANNamed catches an expression that is shifted although it contains vlan, and so already
// accounts for the tags.
func TestVLANNamed(t *testing.T) {
	t.Parallel()
	for _, expr := range []string{"vlan", "vlan 5 and tcp", "tcp or (vlan and udp)", "not vlan"} {
		aware, err := CompileRaw(expr, Options{VLANAware: true})
		if err != nil {
			t.Fatal(err)
		}
		plain, _ := CompileRaw(expr, Options{})
		if Decimal(aware) != Decimal(plain) {
			t.Errorf("%s: VLANAware makes a difference", expr)
		}
	}
}
