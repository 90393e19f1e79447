package meter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A countBench is a counting program that is not attached to anything.
type countBench struct {
	t *testing.T
	*Protocols
	prog *ebpf.Program

	verdict xdp.Verdict // of every packet
}

func newCountBench(t *testing.T, o ProtocolsOptions) *countBench {
	t.Helper()
	testnet.RequireRoot(t)
	p, err := newProtocols(o)
	must(t, err)
	t.Cleanup(func() { p.Close() })
	b := &countBench{t: t, Protocols: p, verdict: xdp.Pass}
	if o.Sent {
		b.verdict = math.MaxUint32 // -1
	}
	if b.prog, err = p.load(o.program()); err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(func() { b.prog.Close() })
	return b
}

func (b *countBench) run(packet []byte, times int) {
	b.t.Helper()
	if verdict := runExactly(b.t, b.prog, packet, times); verdict != b.verdict {
		b.t.Fatal(verdict)
	}
}

// runExactly runs prog on a thread without signals, because prog.Run starts again after a signal,
// and packets would be counted twice. Each packet is a call: for more at once the kernel takes 10
// ms.
func runExactly(t *testing.T, prog *ebpf.Program, packet []byte, times int) (verdict xdp.Verdict) {
	t.Helper()
	must(t, machine.Quiet(machine.AnyCPU, func() error {
		for range times {
			got, err := prog.Run(&ebpf.RunOptions{Data: packet, Repeat: 1})
			if err != nil {
				return err
			}
			verdict = xdp.Verdict(got)
		}
		return nil
	}))
	return verdict
}

// isRunnable reports whether BPF_PROG_RUN takes a packet for a program at egress. It refuses empty
// packets, on newer kernels those that end within the IP header, and those that do not fit a page.
func isRunnable(packet []byte) bool {
	shortest := 15
	switch binary.BigEndian.Uint16(packet[12:]) {
	case 0x0800:
		shortest = 14 + 20
	case 0x86dd:
		shortest = 14 + 40
	}
	return len(packet) >= shortest && len(packet) <= 3000
}

func (b *countBench) counts() ProtocolCounts {
	b.t.Helper()
	c, err := b.read(true)
	must(b.t, err)
	return c
}

// byClass adds up the CPUs, and leaves out classes without packets.
func byClass(c ProtocolCounts) map[string]Tally {
	m := make(map[string]Tally)
	for class := range c.Classes {
		m[class.String()] = c.Class(class)
	}
	return m
}

// ether is an Ethernet frame of this type, exactly as long as its payload makes it.
func ether(etherType uint16, payload ...[]byte) []byte {
	frame := slices.Concat([]byte(testnet.RxEndpoint.MAC), []byte(testnet.TxEndpoint.MAC))
	frame = binary.BigEndian.AppendUint16(frame, etherType)
	return append(frame, slices.Concat(payload...)...)
}

// ip6 is an IPv6 header.
func ip6(next byte) []byte {
	h := make([]byte, 40)
	h[0], h[6], h[7] = 0x60, next, 64
	copy(h[8:], testnet.TxEndpoint.IPv6)
	copy(h[24:], testnet.RxEndpoint.IPv6)
	return h
}

// extension is an IPv6 extension header of this many bytes.
func extension(next byte, size int) []byte {
	h := make([]byte, size)
	h[0], h[1] = next, byte(size/8-1)
	return h
}

func fragment(next byte, offset uint16) []byte {
	h := []byte{next, 0, 0, 0, 0, 0, 0, 1}
	binary.BigEndian.PutUint16(h[2:], offset<<3|1)
	return h
}

func ports(source, destination uint16) []byte {
	h := make([]byte, 20)
	binary.BigEndian.PutUint16(h, source)
	binary.BigEndian.PutUint16(h[2:], destination)
	return h
}

var (
	txRx   = testnet.TxToRx()
	tcp4   = txRx.TCP(testnet.Segment{SrcPort: 40001, DstPort: 443, Seq: 1, SYN: true})
	udp4   = testnet.UDPFrame(100, 0)
	tcp6   = txRx.TCPv6(testnet.Segment{SrcPort: 40002, DstPort: 443, Seq: 1, SYN: true})
	echo6  = txRx.ICMPv6Echo(false, 1)
	sctp4  = bytes.Clone(udp4)
	laterF = bytes.Clone(udp4) // a later fragment
)

func init() {
	sctp4[14+9] = 132
	laterF[14+7] = 10
}

const (
	hopopts, routing, fragmented, destopts, authentication = 0, 43, 44, 60, 51
)

func addr4(port uint16, last byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, last}), port)
}

func addr6(port uint16, last byte) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", last)), port)
}

// A protocolPacket is a packet with its class, size and flow.
type protocolPacket struct {
	name   string
	packet []byte
	class  Class
	size   int   // index into SizeNames
	flow   *Flow // nil: not IP
}

var protocolTable = []protocolPacket{
	{"TCP", tcp4, IPv4(6), 0, &Flow{IPv4(6), addr4(40001, 1), addr4(443, 2)}},
	{"UDP", udp4, IPv4(17), 1, &Flow{IPv4(17), addr4(9999, 1), addr4(9999, 2)}},
	{"ICMP", txRx.ICMPEcho(false, 1), IPv4(1), 1, &Flow{IPv4(1), addr4(0, 1), addr4(0, 2)}},
	{"SCTP", sctp4, IPv4(132), 1, &Flow{IPv4(132), addr4(9999, 1), addr4(9999, 2)}},
	{"later fragment", laterF, IPv4(17), 1, &Flow{IPv4(17), addr4(0, 1), addr4(0, 2)}},
	{"TCP of IPv6", tcp6, IPv6(6), 1, &Flow{IPv6(6), addr6(40002, 1), addr6(443, 2)}},
	{"ICMPv6", echo6, IPv6(58), 1, &Flow{IPv6(58), addr6(0, 1), addr6(0, 2)}},
	{"VLAN", testnet.VLAN(tcp4, 5), IPv4(6), 0, &Flow{IPv4(6), addr4(40001, 1), addr4(443, 2)}},
	{"QinQ", testnet.QinQ(udp4, 5, 6), IPv4(17), 1, &Flow{IPv4(17), addr4(9999, 1), addr4(9999, 2)}},
	{"QinQ of IPv6", testnet.QinQ(tcp6, 5, 6), IPv6(6), 1, &Flow{IPv6(6), addr6(40002, 1), addr6(443, 2)}},
	{"three tags", testnet.VLAN(testnet.QinQ(udp4, 5, 6), 7), EtherType(0x8100), 1, nil},
	{"ARP", txRx.ARPRequest(), EtherType(0x0806), 0, nil},
	{"ARP behind a tag", testnet.VLAN(txRx.ARPRequest(), 5), EtherType(0x0806), 0, nil},
	{"length instead of a type", ether(46, make([]byte, 46)), EtherType(0), 0, nil},
	{"EtherType of nobody", ether(0x88b5, make([]byte, 46)), EtherType(0x88b5), 0, nil},
	{"one extension header", ether(0x86dd, ip6(hopopts), extension(17, 8), ports(1, 2)), IPv6(17), 1,
		&Flow{IPv6(17), addr6(1, 1), addr6(2, 2)}},
	{"four extension headers", ether(0x86dd, ip6(hopopts), extension(routing, 8), extension(destopts, 24),
		extension(fragmented, 16), fragment(6, 0), ports(3, 4)), IPv6(6), 2, &Flow{IPv6(6), addr6(3, 1), addr6(4, 2)}},
	{"authentication header", ether(0x86dd, ip6(authentication), append([]byte{6, 4}, make([]byte, 22)...), ports(5, 6)), IPv6(6), 1,
		&Flow{IPv6(6), addr6(5, 1), addr6(6, 2)}},
	{"later fragment of IPv6", ether(0x86dd, ip6(fragmented), fragment(17, 100), ports(7, 8)), IPv6(17), 1,
		&Flow{IPv6(17), addr6(0, 1), addr6(0, 2)}},
	{"seven extension headers", ether(0x86dd, ip6(hopopts), extension(destopts, 8), extension(destopts, 8), extension(destopts, 8),
		extension(destopts, 8), extension(destopts, 8), extension(destopts, 8), extension(6, 8), ports(1, 2)), IPv6(destopts), 2,
		&Flow{IPv6(destopts), addr6(0, 1), addr6(0, 2)}},
	{"extension header cut off", ether(0x86dd, ip6(hopopts), extension(17, 8)[:7]), Truncated, 0, nil},
	{"extension header beyond the packet", ether(0x86dd, ip6(hopopts), []byte{destopts, 255, 0, 0, 0, 0, 0, 0}), Truncated, 0, nil},
	{"no next header", ether(0x86dd, ip6(59)), IPv6(59), 0, &Flow{IPv6(59), addr6(0, 1), addr6(0, 2)}},
	{"IPv4 header alone", tcp4[:34], IPv4(6), 0, &Flow{IPv4(6), addr4(0, 1), addr4(0, 2)}},
	{"IPv4 header cut off", tcp4[:33], Truncated, 0, nil},
	{"IPv6 header alone", tcp6[:54], IPv6(6), 0, &Flow{IPv6(6), addr6(0, 1), addr6(0, 2)}},
	{"IPv6 header cut off", tcp6[:53], Truncated, 0, nil},
	{"Ethernet header alone", tcp4[:14], Truncated, 0, nil},
	{"tag cut off", testnet.VLAN(tcp4, 5)[:17], Truncated, 0, nil},
	{"1518 bytes", testnet.UDPFrame(1518, 0), IPv4(17), 5, &Flow{IPv4(17), addr4(9999, 1), addr4(9999, 2)}},
	{"1519 bytes", testnet.UDPFrame(1519, 0), IPv4(17), 6, &Flow{IPv4(17), addr4(9999, 1), addr4(9999, 2)}},
	{"several buffers", testnet.UDPFrame(9014, 0), IPv4(17), 6, &Flow{IPv4(17), addr4(9999, 1), addr4(9999, 2)}},
}

func init() { // at the bounds of the sizes
	for _, at := range []struct{ bytes, size int }{
		{64, 0}, {65, 1}, {127, 1}, {128, 2}, {255, 2}, {256, 3}, {511, 3}, {512, 4}, {1023, 4}, {1024, 5}, {1518, 5}, {1519, 6},
	} {
		packet := ether(0x0806, make([]byte, at.bytes-14))
		protocolTable = append(protocolTable, protocolPacket{"ARP", packet, EtherType(0x0806), at.size, nil})
	}
}

var equalAddrs = cmpopts.EquateComparable(netip.AddrPort{}, Flow{})

// A packet is counted in exactly one class, and on request in one size and one flow, unless a
// filter does not take it. All variants count the same, of packets that are received and of those
// that are sent.
func TestProtocols(t *testing.T) {
	t.Parallel()
	type row struct {
		variant Variant
		filter  string
		sent    bool
	}
	var rows []row
	for _, sent := range []bool{true, false} {
		for _, v := range Variants {
			rows = append(rows, row{variant: v, sent: sent})
		}
		for _, text := range filters {
			rows = append(rows, row{filter: text, sent: sent})
		}
	}
	for i, row := range rows {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(fmt.Sprintf("%+v", row), func(t *testing.T) {
			t.Parallel()
			o := ProtocolsOptions{Variant: row.variant, Sent: row.sent}
			if row.filter != "" {
				o.Filter = mustCompile(t, row.filter)
			}
			want := newTruth(o.Filter)
			plain := newCountBench(t, o)
			o.Sizes, o.Flows, o.flowBuckets = true, true, 256
			all := newCountBench(t, o)
			for i, p := range protocolTable {
				if o.Sent && !isRunnable(p.packet) {
					continue
				}
				n := i + 1 // another number of each, so that no two mistakes look like none
				plain.run(p.packet, n)
				all.run(p.packet, n)
				want.add(p, uint64(n))
			}
			got := plain.counts()
			want.checkClasses(t, "plain", got)
			if got.Sizes != [protocolsLimitSIZES]Tally{} || len(got.Flows) > 0 {
				t.Errorf("nobody asked for %v %v", got.Sizes, got.Flows)
			}
			got = all.counts()
			want.checkClasses(t, "all", got)
			want.checkSizes(t, "all", got)
			want.checkFlows(t, "all", got, NoVerdict)
		})
	}
}

// An EtherType that has not come for a minute makes room for others when the table gets full. The
// one with the fewest packets goes first, and its packets still count: in its class if it has one,
// from where it goes on when it comes again. Those beyond the table's size share a slot.
func TestEtherTypesMakeRoom(t *testing.T) {
	t.Parallel()
	for _, v := range Variants {
		t.Run(v.String(), func(t *testing.T) {
			const first, second, third, fourth = 0x9200, 0x9201, 0x9202, 0x9203
			b := newCountBench(t, ProtocolsOptions{Variant: v, etherTypes: 4}) // naive has one entry for noRoom
			send := func(etherType uint16, packets int) { b.run(ether(etherType, make([]byte, 46)), packets) }
			b.rare.aging.Keep = 2
			start := time.Now()
			forget := func(after time.Duration) {
				t.Helper()
				must(t, b.evictQuiet(start.Add(after)))
			}
			check := func(want map[Class]uint64) {
				t.Helper()
				got := b.counts()
				b.rare.addTo(got.Classes)
				b.rare.fold(got.Classes)
				tallies := make(map[string]Tally)
				for class, n := range want {
					tallies[class.String()] = Tally{n, 60 * n}
				}
				if diff := cmp.Diff(tallies, byClass(got)); diff != "" {
					t.Error(diff)
				}
			}
			send(first, 5)
			send(second, 4)
			check(map[Class]uint64{EtherType(first): 5, EtherType(second): 4})
			send(third, 2) // gone before a snapshot has it, so that it has no class of its own
			forget(0)
			send(first, 1)
			forget(quietTime - agingInterval)
			forget(quietTime)
			send(fourth, 1)
			forget(quietTime + agingInterval) // of those with a class, second goes first
			want := map[Class]uint64{EtherType(first): 6, EtherType(second): 4, noRoom: 2, EtherType(fourth): 1}
			check(want)
			send(second, 1)
			want[EtherType(second)]++
			check(want)
			const more = 8
			for i := range uint16(more) {
				send(0x9300+i, 1)
			}
			c := b.counts()
			without := c.Class(noRoom).Packets
			b.rare.addTo(c.Classes)
			if total := c.Total().Packets; total != 6+5+2+1+more || without < 2 {
				t.Errorf("%d packets, %d of them without room", total, without)
			}
		})
	}
}
