package meter

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A network is a pair whose receiving interface runs a program of the test.
type network struct {
	t      *testing.T
	pair   *testnet.Pair
	sender *testnet.Sender
	prog   *ebpf.Program
	link   link.Link // of what was attached last
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	return &network{t: t, pair: pair, sender: testnet.MustSender(t, pair)}
}

// send sends frames one by one, so that each is its own bulk. Their events come before it returns,
// or soon after.
func (n *network) send(count int) {
	n.t.Helper()
	n.sendOn(0, count)
}

func (n *network) sendOn(cpu, count int) {
	n.t.Helper()
	onCPU(n.t, cpu, func() error {
		for i := range count {
			if err := n.sender.Send(testnet.UDPFrame(testnet.MinFrame, uint64(i))); err != nil {
				return err
			}
		}
		return nil
	})
}

func (n *network) load(ins asm.Instructions, attach ebpf.AttachType) *ebpf.Program {
	n.t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "under_test",
		Type:         ebpf.XDP,
		AttachType:   attach,
		Instructions: append(ins, asm.Return()),
		License:      "Dual BSD/GPL",
	})
	must(n.t, err)
	n.t.Cleanup(func() { prog.Close() })
	return prog
}

func (n *network) attach(ins asm.Instructions) {
	n.t.Helper()
	n.attachAs(ins, link.XDPDriverMode)
}

func (n *network) attachAs(ins asm.Instructions, mode link.XDPAttachFlags) {
	n.t.Helper()
	n.prog = n.load(ins, ebpf.AttachXDP)
	must(n.t, n.pair.Rx.Do(func() error { return n.tryAttach(n.prog, mode) }))
}

func (n *network) tryAttach(prog *ebpf.Program, flags link.XDPAttachFlags) error {
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: n.pair.RxIndex, Flags: flags})
	if err == nil {
		n.link = l
		n.t.Cleanup(func() { l.Close() })
	}
	return err
}

func (n *network) programID() uint32 {
	info, err := n.prog.Info()
	must(n.t, err)
	id, _ := info.ID()
	return uint32(id)
}

// open opens tracepoints for the network's receiving interface.
func (n *network) open(o TracepointOptions) *Tracepoints {
	n.t.Helper()
	must(n.t, n.pair.Rx.Do(func() error {
		ifi, err := xdp.InterfaceByName(n.pair.RxName)
		o.Interface = &ifi
		return err
	}))
	return n.openAll(o)
}

// openAll opens tracepoints in the receiving namespace, with the options unchanged.
func (n *network) openAll(o TracepointOptions) *Tracepoints {
	n.t.Helper()
	return openIn(n.t, n.pair.Rx, func() (*Tracepoints, error) { return OpenTracepoints(o) })
}

// has says whether this kernel has the event. If not, its tracepoint must be named as absent.
func (n *network) has(e Event, tracepoint string) bool {
	n.t.Helper()
	tp := n.openAll(TracepointOptions{Redirects: true})
	if slices.Contains(tp.Events(), e) {
		return true
	}
	if !slices.Contains(tp.Absent(), Absent{tracepoint, "this kernel does not have it"}) {
		n.t.Errorf("no %s, and absent are %+v", tracepoint, tp.Absent())
	}
	return false
}

func (n *network) totals(tp *Tracepoints) map[Case]EventCount {
	n.t.Helper()
	c, err := tp.Read()
	must(n.t, err)
	if c.Missed > 0 || c.Lost > 0 {
		n.t.Errorf("missed %d, lost %d", c.Missed, c.Lost)
	}
	totals := make(map[Case]EventCount)
	for k, slots := range c.Cases {
		totals[k] = SumEvents(slots)
	}
	return totals
}

// wait waits until ok returns true, then gives the kernel another moment for events that must not
// come, and returns the counts. Without that moment the test would miss such events.
func (n *network) wait(tp *Tracepoints, ok func(map[Case]EventCount) bool) map[Case]EventCount {
	n.t.Helper()
	var last map[Case]EventCount
	defer func() { // also when WaitFor ends the test
		if n.t.Failed() {
			n.t.Logf("counted %+v", last)
		}
	}()
	testnet.WaitFor(n.t, "events", func() bool {
		last = n.totals(tp)
		return ok(last)
	})
	time.Sleep(20 * time.Millisecond)
	return n.totals(tp)
}

// expect waits until these cases, and no others, have been counted. The kernel may poll several
// packets at once, whose bulks become one, so the number of bulks may be lower than wanted. How
// often a cpumap's thread looks into its queue is not compared.
func (n *network) expect(tp *Tracepoints, want map[Case]EventCount) {
	n.t.Helper()
	got := n.wait(tp, func(c map[Case]EventCount) bool {
		for k, w := range want {
			if packets := w.Packets + w.Drops; c[k].Packets+c[k].Drops < packets || packets == 0 && c[k].Events < w.Events {
				return false
			}
		}
		return true
	})
	for k, g := range got {
		bulk := k.Event == DevmapXmit || k.Event == BulkTx || k.Event == CPUMapEnqueue
		if bulk && g.Events > 0 && g.Events <= want[k].Events {
			g.Events = want[k].Events
			got[k] = g
		}
		if k.Event == CPUMapKthread && g.Events > 0 && g.Sched <= g.Events {
			g.Events, g.Sched = want[k].Events, want[k].Sched
			got[k] = g
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		n.t.Error(diff)
	}
}

// addVeth adds a pair, name and name+"p", to the receiving namespace.
func (n *network) addVeth(name string, up bool) (index int) {
	n.t.Helper()
	must(n.t, n.pair.Rx.Do(func() error {
		a := netlink.NewLinkAttrs()
		a.Name = name
		must(n.t, netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: name + "p"}))
		for _, end := range []string{name + "p", name} {
			l, err := netlink.LinkByName(end)
			must(n.t, err)
			index = l.Attrs().Index
			if up {
				must(n.t, netlink.LinkSetUp(l))
			}
		}
		return nil
	}))
	return index
}

// addDown adds an interface that is down. Its peer could take packets: where it cannot, newer
// kernels refuse them before they look whether the interface is up.
func (n *network) addDown() (index int) {
	n.t.Helper()
	index = n.addVeth("down0", false)
	n.gro("down0p")
	return index
}

// addOut adds an interface, out0, whose peer takes what is redirected to it.
func (n *network) addOut() (index int) {
	n.t.Helper()
	index = n.addVeth("out0", true)
	n.gro("out0p")
	return index
}

// gro puts a program on an interface, so that it takes packets that are redirected to its peer.
func (n *network) gro(name string) {
	n.t.Helper()
	r, err := testnet.AttachReceiver(n.pair.Rx, name, xdp.Drop, testnet.ReceiverOptions{})
	must(n.t, err)
	n.t.Cleanup(func() { r.Close() })
}

func (n *network) newMap(spec *ebpf.MapSpec) *ebpf.Map {
	n.t.Helper()
	m, err := ebpf.NewMap(spec)
	must(n.t, err)
	n.t.Cleanup(func() { m.Close() })
	return m
}

// put sets the only entry of a map.
func (n *network) put(m *ebpf.Map, value any) {
	n.t.Helper()
	must(n.t, n.pair.Rx.Do(func() error { return m.Put(uint32(0), value) }))
}

// newDevmap returns a map whose only entry is an interface.
func (n *network) newDevmap(ifindex int) *ebpf.Map {
	n.t.Helper()
	m := n.newMap(&ebpf.MapSpec{Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	n.put(m, uint32(ifindex))
	return m
}

func mapID(t *testing.T, m *ebpf.Map) uint32 {
	t.Helper()
	info, err := m.Info()
	must(t, err)
	id, _ := info.ID()
	return uint32(id)
}

func verdict(v int32) asm.Instructions { return asm.Instructions{asm.Mov.Imm(asm.R0, v)} }

func redirectTo(ifindex int) asm.Instructions {
	return asm.Instructions{
		asm.Mov.Imm(asm.R1, int32(min(ifindex, math.MaxInt32))),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnRedirect.Call(),
	}
}

func redirectThrough(m *ebpf.Map) asm.Instructions {
	return asm.Instructions{
		asm.LoadMapPtr(asm.R1, m.FD()),
		asm.Mov.Imm(asm.R2, 0),
		asm.Mov.Imm(asm.R3, 0),
		asm.FnRedirectMap.Call(),
	}
}

// onCPU runs f on one CPU, and ends the test if f fails.
func onCPU(t *testing.T, cpu int, f func() error) {
	t.Helper()
	must(t, machine.Quiet(cpu, f))
}
