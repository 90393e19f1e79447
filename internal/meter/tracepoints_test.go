package meter

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// patience is how long a test waits for what must happen.
const patience = 20 * time.Second

const frames = 10

// A redirect to an interface that is down fails with the error that the kernel gives, and is counted for
// the interface where the program runs: once per frame.
func TestRedirectToDownDevice(t *testing.T) {
	n := newNetwork(t)
	down := n.addVeth("down0", false)
	n.gro("down0p") // or newer kernels refuse it before they look whether it is up
	n.attach(redirectTo(down))
	tp := n.open(TracepointOptions{})
	n.send(frames)
	want := Case{Event: RedirectErr, Errno: unix.ENETDOWN, From: "rx0"}
	n.expect(tp, map[Case]EventCount{want: {Events: frames, Drops: frames}})
}

// Redirects that work are only counted on request. What leaves does so in bulks, which name both devices.
func TestRedirectThroughDevmap(t *testing.T) {
	n := newNetwork(t)
	out := n.addVeth("out0", true)
	n.gro("out0p") // or the peer does not take what is redirected to it
	devmap := n.newMap(&ebpf.MapSpec{Type: ebpf.DevMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	n.put(devmap, uint32(out))
	n.attach(redirectThrough(devmap))
	quiet := n.open(TracepointOptions{})
	tp := n.open(TracepointOptions{Redirects: true})
	n.send(frames)

	xmit := Case{Event: DevmapXmit, From: "rx0", To: "out0"}
	redirect := Case{Event: Redirect, From: "rx0", MapID: mapID(t, devmap)}
	n.expect(tp, map[Case]EventCount{
		xmit:     {Events: frames, Packets: frames},
		redirect: {Events: frames, Packets: frames},
	})
	n.expect(quiet, map[Case]EventCount{xmit: {Events: frames, Packets: frames}})
	if slices.Contains(quiet.Events(), Redirect) || !slices.Contains(tp.Events(), Redirect) {
		t.Errorf("events %v and %v", quiet.Events(), tp.Events())
	}
}

// A verdict that does not exist, and aborted, are exceptions by verdict.
func TestExceptions(t *testing.T) {
	for _, test := range []struct {
		verdict int32
		want    xdp.Verdict
	}{
		{0, xdp.Aborted},
		{42, UnknownVerdict},
		{43, UnknownVerdict},
	} {
		n := newNetwork(t)
		n.attach(verdict(test.verdict))
		tp := n.open(TracepointOptions{})
		n.send(frames)
		n.expect(tp, map[Case]EventCount{
			{Event: Exception, Verdict: test.want, From: "rx0"}: {Events: frames, Drops: frames},
		})
	}
}

// The verdict tx sends back in bulks; where the peer does not take them, they are drops with an error.
func TestBulkTx(t *testing.T) {
	n := newNetwork(t)
	n.attach(verdict(int32(xdp.Tx)))
	tp := n.open(TracepointOptions{})
	n.send(frames)
	refused := Case{Event: BulkTx, Errno: unix.ENXIO, From: "rx0"}
	n.expect(tp, map[Case]EventCount{refused: {Events: frames, Drops: frames}})

	v, err := testnet.AttachVerdict(n.pair.Tx, n.pair.TxName, testnet.Drop, testnet.VerdictOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	n.send(frames)
	n.expect(tp, map[Case]EventCount{
		refused:                      {Events: frames, Drops: frames},
		{Event: BulkTx, From: "rx0"}: {Events: frames, Packets: frames},
	})
}

// Packets for another CPU are queued on one and taken on the other; another program's cpumap does not count.
func TestCPUMap(t *testing.T) {
	n := newNetwork(t)
	cpumap := n.newCPUMap()
	n.attach(redirectThrough(cpumap))
	tp := n.open(TracepointOptions{})
	var others [2]*network
	for i := range others {
		others[i] = newNetwork(t)
	}
	others[0].attach(redirectThrough(others[0].newCPUMap()))
	byProgram := others[1].openAll(TracepointOptions{Program: n.programID()})
	others[0].send(frames)
	n.send(frames)

	enqueue := Case{Event: CPUMapEnqueue, MapID: mapID(t, cpumap), ToCPU: 0}
	kthread := Case{Event: CPUMapKthread, MapID: mapID(t, cpumap)}
	for _, tp := range []*Tracepoints{tp, byProgram} {
		got := n.wait(tp, func(c map[Case]EventCount) bool { return c[kthread].Packets >= frames })
		if c := got[enqueue]; c != (EventCount{Events: frames, Packets: frames}) {
			t.Errorf("queued %+v", c)
		}
		c := got[kthread]
		if c.Packets != frames || c.Drops != 0 || c.Events == 0 || c.Sched > c.Events {
			t.Errorf("taken %+v", c)
		}
		delete(got, enqueue)
		delete(got, kthread)
		if len(got) > 0 {
			t.Errorf("counted, too: %+v", got)
		}
	}
}

// An attachment that fails is counted by its message, for the namespace that it was tried in.
func TestAttachFailed(t *testing.T) {
	n, other := newNetwork(t), newNetwork(t)
	if !n.has(AttachFailed, "bpf_xdp_link_attach_failed") {
		return
	}
	n.attach(verdict(int32(xdp.Pass)))
	tp, elsewhere := n.open(TracepointOptions{}), other.open(TracepointOptions{})
	second := n.load(verdict(int32(xdp.Pass)))
	for range 2 {
		if err := n.pair.Rx.Do(func() error { return n.tryAttach(second, link.XDPDriverMode) }); err == nil {
			t.Fatal("two programs on one interface")
		}
	}
	got := n.wait(tp, func(c map[Case]EventCount) bool { return len(c) > 0 })
	if len(got) != 1 {
		t.Fatalf("counted %+v", got)
	}
	for c, count := range got {
		if c.Event != AttachFailed || c.Message == "" || count != (EventCount{Events: 2}) {
			t.Errorf("%+v: %+v", c, count)
		}
	}
	n.expect(elsewhere, map[Case]EventCount{})
}

// The kernel makes a page pool for each run of live frames, and disconnects it at the end. It belongs to no
// interface. Other such runs on the machine count, too. Connecting one takes a driver that has page pools,
// which veth has not: of that, the test can only see that it is waited for.
func TestMemDisconnect(t *testing.T) {
	testnet.RequireLiveFrames(t)
	n := newNetwork(t)
	n.attach(verdict(int32(xdp.Drop)))
	all, restricted := n.openAll(TracepointOptions{}), n.open(TracepointOptions{})
	if !slices.Contains(all.Events(), MemConnect) {
		t.Errorf("events %v", all.Events())
	}
	g, err := testnet.NewGenerator(n.pair)
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	o := testnet.GeneratorOptions{Frame: testnet.UDPFrame(testnet.MinFrame, 0), Count: frames, CPU: -1}
	if _, err := g.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	n.wait(all, func(c map[Case]EventCount) bool {
		return c[Case{Event: MemDisconnect, Memory: 2}].Events > 0
	})
	n.expect(restricted, map[Case]EventCount{})
}

// Other interfaces and programs do not count, also where their numbers are the same.
func TestTracepointsRestricted(t *testing.T) {
	n, other := newNetwork(t), newNetwork(t)
	if n.pair.RxIndex != other.pair.RxIndex {
		t.Fatal("the test needs the same interface index twice")
	}
	n.attach(verdict(0))
	other.attach(verdict(0))
	byInterface := n.open(TracepointOptions{})
	byProgram := n.openAll(TracepointOptions{Program: n.programID()})
	all := n.openAll(TracepointOptions{})
	n.send(frames)
	other.send(frames)
	aborted := Case{Event: Exception, From: "rx0"}
	n.wait(all, func(c map[Case]EventCount) bool { return c[aborted].Events >= 2*frames })
	for _, tp := range []*Tracepoints{byInterface, byProgram} {
		n.expect(tp, map[Case]EventCount{aborted: {Events: frames, Drops: frames}})
	}
	var absent []string
	for _, a := range byProgram.Absent() {
		absent = append(absent, a.Tracepoint)
	}
	if !slices.Contains(absent, "xdp_devmap_xmit") || slices.Contains(byProgram.Events(), DevmapXmit) {
		t.Errorf("absent %v, events %v", absent, byProgram.Events())
	}
}

// A reader does not take anything from another, and the slots are those of the CPUs.
func TestTracepointsPerCPU(t *testing.T) {
	n := newNetwork(t)
	n.attach(verdict(0))
	tp := n.open(TracepointOptions{})
	cpus := ebpf.MustPossibleCPU()
	want := make([]EventCount, cpus)
	for cpu := range min(cpus, 2) {
		n.sendOn(cpu, frames)
		want[cpu] = EventCount{Events: frames, Drops: frames}
	}
	aborted := Case{Event: Exception, From: "rx0"}
	n.wait(tp, func(c map[Case]EventCount) bool { return c[aborted].Events >= uint64(min(cpus, 2)*frames) })
	for range 2 {
		c, err := tp.Read()
		if diff := cmp.Diff(want, c.Cases[aborted]); diff != "" || err != nil {
			t.Error(err, diff)
		}
	}
}

// Single events come with what the counters leave out.
func TestRecords(t *testing.T) {
	n := newNetwork(t)
	down := n.addVeth("down0", false)
	n.gro("down0p") // or newer kernels refuse it before they look whether it is up
	n.attach(redirectTo(down))
	tp := n.open(TracepointOptions{Record: true})
	before := time.Now()
	n.send(frames)
	for range frames {
		r, err := tp.Next()
		if err != nil {
			t.Fatal(err)
		}
		if d := r.Time.Sub(before); d < -time.Millisecond || d > patience {
			t.Errorf("time stamp off by %v", d)
		}
		r.Time, r.CPU = time.Time{}, 0
		want := Record{
			Case:    Case{Event: RedirectErr, Errno: unix.ENETDOWN, From: "rx0"},
			Count:   EventCount{Events: 1, Drops: 1},
			Program: n.programID(),
			Index:   uint32(down),
		}
		if diff := cmp.Diff(want, r); diff != "" {
			t.Error(diff)
		}
	}
	ended := make(chan error)
	go func() {
		_, err := tp.Next()
		ended <- err
	}()
	tp.Stop()
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// A tracepoint that is missing, or is not as we know it, is left out and named.
func TestAbsence(t *testing.T) {
	kernel := map[string]string{"xdp_exception": "*net_device, *bpf_prog, uint, int"}
	got := make(map[string]string)
	for _, p := range tracepoints {
		if p.event == Exception || p.event == RedirectErr || p.event == Redirect {
			got[p.name] = p.absence(kernel, TracepointOptions{})
		}
	}
	want := map[string]string{
		"xdp_exception":        "its arguments (*net_device, *bpf_prog, uint, int) are not those that xdpcap knows",
		"xdp_redirect":         notAsked,
		"xdp_redirect_map":     notAsked,
		"xdp_redirect_err":     "this kernel does not have it",
		"xdp_redirect_map_err": "this kernel does not have it",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// What is absent on this kernel is what the kernel does not list.
func TestKernelTracepoints(t *testing.T) {
	testnet.RequireRoot(t)
	kernel, err := kernelTracepoints()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range tracepoints {
		reason := p.absence(kernel, TracepointOptions{Redirects: true})
		t.Logf("%s: %q %s", p.name, kernel[p.name], reason)
		if strings.Contains(reason, "arguments") {
			t.Errorf("%s: %s", p.name, reason)
		}
	}
}

// A network is a pair whose receiving interface runs a program of the test.
type network struct {
	t      *testing.T
	pair   *testnet.Pair
	sender *testnet.Sender
	prog   *ebpf.Program
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	testnet.RequireRoot(t)
	pair, err := testnet.NewPair(testnet.PairOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pair.Close() })
	sender, err := testnet.NewSender(pair.Tx, pair.TxName)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sender.Close() })
	return &network{t: t, pair: pair, sender: sender}
}

// send sends frames one by one: each is a bulk of its own. What the sending itself triggers has happened
// when it returns, or soon after.
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

func (n *network) load(ins asm.Instructions) *ebpf.Program {
	n.t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         "under_test",
		Type:         ebpf.XDP,
		Instructions: append(ins, asm.Return()),
		License:      "Dual BSD/GPL",
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { prog.Close() })
	return prog
}

func (n *network) attach(ins asm.Instructions) {
	n.t.Helper()
	n.prog = n.load(ins)
	if err := n.pair.Rx.Do(func() error { return n.tryAttach(n.prog, link.XDPDriverMode) }); err != nil {
		n.t.Fatal(err)
	}
}

func (n *network) tryAttach(prog *ebpf.Program, flags link.XDPAttachFlags) error {
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: n.pair.RxIndex, Flags: flags})
	if err == nil {
		n.t.Cleanup(func() { l.Close() })
	}
	return err
}

func (n *network) programID() uint32 {
	info, err := n.prog.Info()
	if err != nil {
		n.t.Fatal(err)
	}
	id, _ := info.ID()
	return uint32(id)
}

// open opens tracepoints for the network's receiving interface.
func (n *network) open(o TracepointOptions) *Tracepoints {
	n.t.Helper()
	err := n.pair.Rx.Do(func() error {
		ifi, err := xdp.InterfaceByName(n.pair.RxName)
		o.Interface = &ifi
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return n.openAll(o)
}

// openAll does so for whatever the options say.
func (n *network) openAll(o TracepointOptions) *Tracepoints {
	n.t.Helper()
	var tp *Tracepoints
	err := n.pair.Rx.Do(func() (err error) {
		tp, err = OpenTracepoints(o)
		return err
	})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { tp.Close() })
	return tp
}

// has tells whether the kernel can have this event; if not, its tracepoint must be named as absent.
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
	if err != nil {
		n.t.Fatal(err)
	}
	if c.Missed > 0 || c.Lost > 0 {
		n.t.Errorf("missed %d, lost %d", c.Missed, c.Lost)
	}
	totals := make(map[Case]EventCount)
	for k, slots := range c.Cases {
		var sum EventCount
		for _, s := range slots {
			sum.Add(s)
		}
		totals[k] = sum
	}
	return totals
}

// wait waits for what must happen, and a little longer for what must not.
func (n *network) wait(tp *Tracepoints, ok func(map[Case]EventCount) bool) map[Case]EventCount {
	n.t.Helper()
	for deadline := time.Now().Add(patience); !ok(n.totals(tp)); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			n.t.Fatalf("after %v only %+v", patience, n.totals(tp))
		}
	}
	time.Sleep(20 * time.Millisecond)
	return n.totals(tp)
}

// expect waits until these cases, and no others, have been counted. Bulks may join: their number is at most
// the one given.
func (n *network) expect(tp *Tracepoints, want map[Case]EventCount) {
	n.t.Helper()
	got := n.wait(tp, func(c map[Case]EventCount) bool {
		for k, w := range want {
			if c[k].Packets+c[k].Drops < w.Packets+w.Drops {
				return false
			}
		}
		return true
	})
	for k, g := range got {
		if bulk := k.Event == DevmapXmit || k.Event == BulkTx; bulk && g.Events > 0 && g.Events <= want[k].Events {
			g.Events = want[k].Events
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
	err := n.pair.Rx.Do(func() error {
		a := netlink.NewLinkAttrs()
		a.Name = name
		if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: a, PeerName: name + "p"}); err != nil {
			return err
		}
		for _, end := range []string{name + "p", name} {
			l, err := netlink.LinkByName(end)
			if err != nil {
				return err
			}
			index = l.Attrs().Index
			if up {
				if err := netlink.LinkSetUp(l); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		n.t.Fatal(err)
	}
	return index
}

// gro makes an interface take what is redirected to its peer, by a program on it.
func (n *network) gro(name string) {
	n.t.Helper()
	v, err := testnet.AttachVerdict(n.pair.Rx, name, testnet.Drop, testnet.VerdictOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { v.Close() })
}

func (n *network) newMap(spec *ebpf.MapSpec) *ebpf.Map {
	n.t.Helper()
	m, err := ebpf.NewMap(spec)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { m.Close() })
	return m
}

// newCPUMap has one entry: CPU 0.
func (n *network) newCPUMap() *ebpf.Map {
	n.t.Helper()
	m := n.newMap(&ebpf.MapSpec{Type: ebpf.CPUMap, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	n.put(m, uint32(192)) // the length of its queue
	return m
}

// put sets the only entry.
func (n *network) put(m *ebpf.Map, value uint32) {
	n.t.Helper()
	if err := n.pair.Rx.Do(func() error { return m.Put(uint32(0), value) }); err != nil {
		n.t.Fatal(err)
	}
}

func mapID(t *testing.T, m *ebpf.Map) uint32 {
	t.Helper()
	info, err := m.Info()
	if err != nil {
		t.Fatal(err)
	}
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

// onCPU runs f on one CPU.
func onCPU(t *testing.T, cpu int, f func() error) {
	t.Helper()
	result := make(chan error)
	go func() { result <- pinned(cpu, f) }()
	if err := <-result; err != nil {
		t.Fatal(err)
	}
}
