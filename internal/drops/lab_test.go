package drops

import (
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// UDP ports of the lab, by what becomes of a packet there.
const (
	dropPort = 7001 + iota
	abortPort
	unknownPort // a verdict that does not exist
	downPort    // redirected to an interface that is down
	missingPort // redirected by a map without an entry
	closedPort  // no socket has it
)

// A lab is a network that loses packets at every stage: in the XDP program, before the sockets, at
// a full socket, and in the queue of an interface that packets are forwarded to.
type lab struct {
	*network
	out  *testnet.Pair // packets are forwarded to its Tx, whose queue is slow
	open *net.UDPConn  // has room for all packets
	full uint16        // the port of a socket that has room for few packets
}

func newLab(n *network) *lab {
	n.Helper()
	out := n.forward(60_000_000)
	n.set("ipv4/conf/"+n.RxName+"/rp_filter", "1") // after ip_forward, which sets it back
	return &lab{n, out, n.openSocket(), n.listen(testnet.RxEndpoint.IPv4)}
}

// program is an XDP program that loses packets to some ports, and passes all others.
func (l *lab) program() asm.Instructions {
	l.Helper()
	targets, err := ebpf.NewMap(&ebpf.MapSpec{Name: "targets", Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: 4})
	l.must(err)
	l.Cleanup(func() { targets.Close() })
	const portAt = 14 + 20 + 2 // Ethernet and IPv4 without options
	swapped := func(port uint16) int32 { return int32(port<<8 | port>>8) }
	return asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, 0, asm.Word),
		asm.LoadMem(asm.R3, asm.R1, 4, asm.Word),
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, portAt+2),
		asm.JGT.Reg(asm.R4, asm.R3, "pass"),
		asm.LoadMem(asm.R5, asm.R2, portAt, asm.Half),
		asm.JEq.Imm(asm.R5, swapped(dropPort), "drop"),
		asm.JEq.Imm(asm.R5, swapped(abortPort), "abort"),
		asm.JEq.Imm(asm.R5, swapped(unknownPort), "unknown"),
		asm.JEq.Imm(asm.R5, swapped(downPort), "down"),
		asm.JEq.Imm(asm.R5, swapped(missingPort), "missing"),
		asm.Mov.Imm(asm.R0, int32(xdp.Pass)).WithSymbol("pass"),
		asm.Return(),
		asm.Mov.Imm(asm.R0, int32(xdp.Drop)).WithSymbol("drop"),
		asm.Return(),
		asm.Mov.Imm(asm.R0, int32(xdp.Aborted)).WithSymbol("abort"),
		asm.Return(),
		asm.Mov.Imm(asm.R0, 77).WithSymbol("unknown"),
		asm.Return(),
		asm.Mov.Imm(asm.R1, int32(l.addDown())).WithSymbol("down"),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRedirect.Call(),
		asm.Return(),
		asm.LoadMapPtr(asm.R1, targets.FD()).WithSymbol("missing"),
		asm.Mov.Imm(asm.R2, 1),
		asm.Mov.Imm(asm.R3, int32(xdp.Aborted)), // what it returns without an entry
		asm.FnRedirectMap.Call(),
	}
}

// sendAll sends that many packets to every place, and returns the sum. It waits between them,
// because the queue of Rx has room for 256 packets only.
func (l *lab) sendAll(each int) (sent uint64) {
	l.Helper()
	open := portOf(l.open)
	away, strange := testnet.TxToRx(), testnet.TxToRx()
	away.Dst.IPv4 = beyond
	strange.Src.IPv4 = net.IP{203, 0, 113, 1} // of no network that is behind this interface
	for range each {
		for _, port := range []uint16{dropPort, abortPort, unknownPort, downPort, missingPort, closedPort, open, l.full} {
			l.must(l.sender.Send(testnet.TxToRx().UDP(1000, port, make([]byte, 400))))
			sent++
		}
		for _, path := range []testnet.Path{away, strange} {
			l.must(l.sender.Send(path.UDP(1000, open, make([]byte, 400))))
			sent++
		}
		testnet.WaitHandled(l)
	}
	return sent
}

// received takes everything out of a socket, and returns how many packets that were.
func (l *lab) received(conn *net.UDPConn) (packets uint64) {
	l.Helper()
	raw, err := conn.SyscallConn()
	l.must(err)
	l.must(raw.Control(func(fd uintptr) {
		for buf := make([]byte, 1500); ; packets++ {
			if _, _, err := unix.Recvfrom(int(fd), buf, unix.MSG_DONTWAIT); err != nil {
				return
			}
		}
	}))
	return packets
}

// kernelCounters returns the receiving side's counters of protocols, as `nstat -a` names them.
func (l *lab) kernelCounters() map[string]uint64 {
	l.Helper()
	all := make(map[string]uint64)
	l.must(l.Rx.Do(func() error {
		for _, path := range []string{"/proc/thread-self/net/snmp", "/proc/thread-self/net/netstat"} {
			text, err := os.ReadFile(path)
			l.must(err)
			lines := strings.Split(string(text), "\n")
			for i := 0; i+1 < len(lines); i += 2 { // a line of names, and one of values
				names, values := strings.Fields(lines[i]), strings.Fields(lines[i+1])
				for j := 1; j < len(names); j++ {
					n, _ := strconv.ParseUint(values[j], 10, 64) // Tcp's MaxConn is -1
					all[strings.TrimSuffix(names[0], ":")+names[j]] = n
				}
			}
		}
		return nil
	}))
	return all
}

// driverCounters returns the sums of the driver's counters over all receive queues.
func (l *lab) driverCounters() map[string]uint64 {
	l.Helper()
	sums := make(map[string]uint64)
	l.must(l.Rx.Do(func() error {
		all, err := xdp.DriverCounters(l.RxName)
		for name, n := range all {
			if counter, ok := counterOfQueue(name); ok {
				sums[counter] += n
			}
		}
		return err
	}))
	return sums
}

// Packets that get lost at every stage at once are each counted at one, and the sum is what was
// sent less what arrived. The kernel's own counters say the same. What is lost at the queue of
// another interface counts once for each of the two that is asked about.
func TestLab(t *testing.T) {
	t.Parallel()
	for mode, flags := range map[string]link.XDPAttachFlags{"native": link.XDPDriverMode, "generic": link.XDPGenericMode} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			l := newLab(newNetwork(t))
			var driver map[string]uint64
			if flags == link.XDPDriverMode {
				driver = map[string]uint64{"xdp_drops": 4 * labPackets, "drops": labPackets}
			}
			l.check(flags, driver)
		})
	}
}

// The same holds of cards whose driver is virtio_net. The machine has one pair of them, so tests of
// cards are not parallel.
func TestLabOfCards(t *testing.T) {
	newLab(newCards(t)).check(link.XDPDriverMode, map[string]uint64{"xdp_drops": 5 * labPackets, "drops": 5 * labPackets})
}

// labPackets is how many packets are sent to each place of a lab.
const labPackets = 40

// check loses packets everywhere. driver is by how much the driver's counters must rise.
func (l *lab) check(flags link.XDPAttachFlags, driver map[string]uint64) {
	l.Helper()
	l.attach(l.program(), flags)
	counters, counts := l.kernelCounters(), l.driverCounters()
	m, outward := l.openMeter(), l.openMeterOf(Options{Interface: l.out.TxName})
	sent := l.sendAll(labPackets)

	// Between cards packets take a while: those of five places reach IP, those of five end at XDP.
	testnet.WaitFor(l, "all packets to come", func() bool {
		atXDP := uint64(0)
		for loss, tally := range l.counts(m).Losses {
			if loss.Stage == XDP {
				atXDP += tally.Packets
			}
		}
		return atXDP >= 5*labPackets && l.kernelCounters()["IpInReceives"]-counters["IpInReceives"] >= 5*labPackets
	})
	found := l.losses(m)
	arrived := l.received(l.open)
	forwarded, dropped := l.queue(l.out.TxIndex)
	after := l.kernelCounters()
	rose := func(name string) uint64 { return after[name] - counters[name] }
	full := rose("UdpRcvbufErrors")
	if full == 0 || full >= labPackets || dropped == 0 || forwarded == 0 {
		l.Fatalf("%d of %d packets found no room in the socket, and %d in the queue, which took %d", full, labPackets, dropped, forwarded)
	}

	total, egress, redirect := uint64(0), uint64(0), uint64(0)
	for at, packets := range maps.Clone(found) {
		total += packets
		switch { // whose reasons differ between kernels
		case strings.HasPrefix(at, "egress QDISC_"):
			egress += packets
			delete(found, at)
		case strings.HasPrefix(at, "XDP redirect: "):
			redirect += packets
			delete(found, at)
		}
	}
	want := map[string]uint64{
		"XDP drop": labPackets, "XDP aborted": 2 * labPackets, "XDP unknown": labPackets, "stack NO_SOCKET": rose("UdpNoPorts"),
		"stack IP_RPFILTER": rose("TcpExtIPReversePathFilter"), "socket SOCKET_RCVBUFF": full,
	}
	if diff := cmp.Diff(want, found); diff != "" || redirect != labPackets || egress != dropped {
		l.Errorf("%d failed redirects, want %d; %d at the queue, which has dropped %d; others: %s", redirect, labPackets, egress, dropped, diff)
	}
	isQueue := func(reason string) bool { return strings.HasPrefix(reason, "QDISC_") }
	want = map[string]uint64{l.out.TxName: dropped}
	if diff := cmp.Diff(want, l.lossesBy(m, isQueue)); diff != "" {
		l.Errorf("at the queue, of the interface that received: %s", diff)
	}
	want = map[string]uint64{"": dropped}
	if diff := cmp.Diff(want, l.lossesBy(outward, isQueue)); diff != "" {
		l.Errorf("at the queue, of the interface that sends: %s", diff)
	}
	arrived += labPackets - full + forwarded
	if total != sent-arrived {
		l.Errorf("%d packets are lost, but %d were sent, and %d have arrived", total, sent, arrived)
	}
	now := l.driverCounters()
	for _, name := range slices.Sorted(maps.Keys(driver)) {
		if got := now[name] - counts[name]; got != driver[name] {
			l.Errorf("the driver's counter %s rose by %d, want %d", name, got, driver[name])
		}
	}
	l.Log(fmt.Sprint(counts, now))
}
