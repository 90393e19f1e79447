package meter

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

const frames = 10

// A redirect to an interface that is down fails with the error that the kernel gives, and is
// counted for the interface where the program runs: once per frame, with the map if it went through
// one. Records of single events have details that the counters leave out.
func TestRedirectToDownDevice(t *testing.T) {
	t.Parallel()
	for _, byMap := range []bool{false, true} {
		n := newNetwork(t)
		down := n.addDown()
		want := Record{Case: Case{Event: RedirectErr, Errno: unix.ENETDOWN, From: "rx0"}, Count: EventCount{Events: 1, Drops: 1}}
		if byMap {
			devmap := n.newDevmap(down)
			n.attach(redirectThrough(devmap))
			want.Case.MapID, want.Case.MapType = mapID(t, devmap), ebpf.DevMap
		} else {
			n.attach(redirectTo(down))
			want.Index = uint32(down)
		}
		want.Program = n.programID()
		tp, records := n.open(TracepointOptions{}), n.open(TracepointOptions{Record: true})
		before := time.Now()
		n.send(frames)
		n.expect(tp, map[Case]EventCount{want.Case: {Events: frames, Drops: frames}})
		for range frames {
			r, err := records.Next()
			must(t, err)
			if d := r.Time.Sub(before); d < -time.Millisecond || d > testnet.Patience {
				t.Errorf("time stamp off by %v", d)
			}
			r.Time, r.CPU = time.Time{}, 0
			if diff := cmp.Diff(want, r); diff != "" {
				t.Error(diff)
			}
		}
		ended := make(chan error)
		go func() {
			_, err := records.Next()
			ended <- err
		}()
		records.Stop()
		if err := <-ended; !errors.Is(err, os.ErrClosed) {
			t.Error(err)
		}
	}
}

// Successful redirects are only counted on request. The packets leave in bulks, whose events name
// both devices.
func TestRedirectThroughDevmap(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	devmap := n.newDevmap(n.addOut())
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

// A verdict that does not exist, and aborted, are exceptions, each counted by its verdict. Those in
// generic mode are told apart, also after the program has changed its mode.
func TestExceptions(t *testing.T) {
	t.Parallel()
	for i, test := range []struct {
		verdict int32
		want    xdp.Verdict
	}{
		{0, xdp.Aborted},
		{42, xdp.UnknownVerdict},
		{43, xdp.UnknownVerdict},
	} {
		if !testnet.Shared(i) {
			continue
		}
		n := newNetwork(t)
		tp := n.open(TracepointOptions{})
		n.attachAs(verdict(test.verdict), link.XDPGenericMode)
		n.send(frames)
		exception := Case{Event: Exception, Verdict: test.want, From: "rx0"}
		n.expect(tp, map[Case]EventCount{exception: {Events: frames, Drops: frames, Generic: frames}})
		must(t, n.link.Close())
		n.attach(verdict(test.verdict))
		n.send(frames)
		n.expect(tp, map[Case]EventCount{exception: {Events: 2 * frames, Drops: 2 * frames, Generic: frames}})
	}
}

// Packets with the verdict tx are sent back in bulks. Where the peer does not take them, they count
// as drops with an error.
func TestBulkTx(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.attach(verdict(int32(xdp.Tx)))
	tp := n.open(TracepointOptions{})
	n.send(frames)
	refused := Case{Event: BulkTx, Errno: unix.ENXIO, From: "rx0"}
	n.expect(tp, map[Case]EventCount{refused: {Events: frames, Drops: frames}})

	v, err := testnet.AttachReceiver(n.pair.Tx, n.pair.TxName, xdp.Drop, testnet.ReceiverOptions{})
	must(t, err)
	defer v.Close()
	n.send(frames)
	n.expect(tp, map[Case]EventCount{
		refused:                      {Events: frames, Drops: frames},
		{Event: BulkTx, From: "rx0"}: {Events: frames, Packets: frames},
	})
}

// An attachment that fails is counted by its message, for the namespace that it was tried in.
func TestAttachFailed(t *testing.T) {
	t.Parallel()
	n, other := newNetwork(t), newNetwork(t)
	if !n.has(AttachFailed, "bpf_xdp_link_attach_failed") {
		return
	}
	n.attach(verdict(int32(xdp.Pass)))
	tp, elsewhere := n.open(TracepointOptions{}), other.open(TracepointOptions{})
	second := n.load(verdict(int32(xdp.Pass)), ebpf.AttachXDP)
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

// Other interfaces and programs do not count, even if their numbers are the same.
func TestTracepointsRestricted(t *testing.T) {
	t.Parallel()
	n, other := newNetwork(t), newNetwork(t)
	if n.pair.RxIndex != other.pair.RxIndex {
		t.Fatal("the test needs the same interface index twice")
	}
	n.attach(verdict(0))
	other.attach(verdict(0))
	byInterface := n.open(TracepointOptions{})
	byProgram := n.openAll(TracepointOptions{Program: fmt.Sprint(n.programID())})
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

// A reading leaves the counters as they are for others, and has a slot for each possible CPU.
func TestTracepointsPerCPU(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	receiver := testnet.MustReceiver(t, n.pair, xdp.Aborted, testnet.ReceiverOptions{Count: true})
	tp := n.open(TracepointOptions{})
	// The kernel handles packets on the CPU that sent them, unless another one is still busy with
	// earlier ones: the program says where it ran.
	var counts []testnet.Counts
	var arrived uint64
	testnet.WaitFor(t, "packets on two CPUs", func() bool {
		before := testnet.MustStats(t, n.pair)
		cpus := min(ebpf.MustPossibleCPU(), 2)
		for cpu := range cpus {
			n.sendOn(cpu, frames)
		}
		arrived += testnet.WaitArrived(t, n.pair, before, uint64(cpus*frames))
		var err error
		if counts, err = receiver.Counts(); err != nil {
			t.Fatal(err)
		}
		return !slices.ContainsFunc(counts[:cpus], func(c testnet.Counts) bool { return c.Packets == 0 })
	})
	var want []EventCount
	for _, c := range counts {
		want = append(want, EventCount{Events: c.Packets, Drops: c.Packets})
	}
	aborted := Case{Event: Exception, From: "rx0"}
	n.wait(tp, func(c map[Case]EventCount) bool { return c[aborted].Events >= arrived })
	for range 2 {
		c, err := tp.Read()
		must(t, err)
		if diff := cmp.Diff(want, c.Cases[aborted]); diff != "" {
			t.Error(diff)
		}
	}
}

// A tracepoint that is missing, or has other arguments than we know, is left out and named.
func TestAbsence(t *testing.T) {
	t.Parallel()
	kernel := map[string]string{"xdp_exception": "*net_device, *bpf_prog, uint, int"}
	got := make(map[string]string)
	for _, p := range tracepoints {
		if p.event == Exception || p.event == RedirectErr || p.event == Redirect {
			got[p.name] = p.absence(kernel, TracepointOptions{})
		}
	}
	want := map[string]string{
		"xdp_exception":        "xdpcap does not know its arguments (*net_device, *bpf_prog, uint, int)",
		"xdp_redirect":         notRequested,
		"xdp_redirect_map":     notRequested,
		"xdp_redirect_err":     "this kernel does not have it",
		"xdp_redirect_map_err": "this kernel does not have it",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Exactly those tracepoints are absent that this kernel does not list.
func TestKernelTracepoints(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	kernel, err := kernelTracepoints()
	must(t, err)
	for _, p := range tracepoints {
		reason := p.absence(kernel, TracepointOptions{Redirects: true})
		t.Logf("%s: %q %s", p.name, kernel[p.name], reason)
		if strings.Contains(reason, "arguments") {
			t.Errorf("%s: %s", p.name, reason)
		}
	}
}

// However many interfaces have come and gone, there is room for another one's events. What those
// that made room have counted stays, without their names.
func TestCasesMakeRoom(t *testing.T) {
	t.Parallel()
	n := newNetwork(t)
	n.attach(verdict(0))
	tp := n.open(TracepointOptions{})
	table := tp.coll.Maps[tracepointsMapCounts]
	slots := make([]tracepointsCount, ebpf.MustPossibleCPU())
	for i := range table.MaxEntries() {
		key := tracepointsKey{Event: uint32(Exception), MapId: i}
		slots[0] = tracepointsCount{Events: 1, Drops: 1, Generic: uint64(i % 2)}
		if i%4 == 0 { // the rest has none of these two names
			key.From[0], key.To[0] = 'a', 'b'
		}
		must(t, table.Put(key, slots))
	}
	counts := func() EventCounts {
		t.Helper()
		c, err := tp.Read()
		must(t, err)
		return c
	}
	sum := func(c EventCounts) (all EventCount) {
		for _, perCPU := range c.Cases {
			all.Add(SumEvents(perCPU))
		}
		for _, former := range c.Former {
			all.Add(former)
		}
		return all
	}
	n.send(1)
	testnet.WaitFor(t, "an event without room", func() bool { return counts().Missed == 1 })
	want := sum(counts())
	start := time.Now()
	for _, after := range []time.Duration{0, quietTime} {
		must(t, tp.evictQuiet(start.Add(after)))
	}
	if diff := cmp.Diff(want, sum(counts())); diff != "" {
		t.Errorf("in all, after some made room: %s", diff)
	}
	n.send(1)
	aborted := Case{Event: Exception, From: "rx0"}
	testnet.WaitFor(t, "an event with room", func() bool { return SumEvents(counts().Cases[aborted]).Events == 1 })
	c := counts()
	if want := uint64(table.MaxEntries() - keptCases); len(c.Cases) != keptCases+1 || c.Forgotten() != want || c.Missed != 1 {
		t.Errorf("%d cases, %d events forgotten and %d missed; want %d, %d and 1", len(c.Cases), c.Forgotten(), c.Missed, keptCases+1, want)
	}
	for former := range c.Former {
		if former != (Case{Event: Exception}) && former != (Case{Event: Exception, From: Gone, To: Gone}) {
			t.Errorf("a former case is %+v", former)
		}
	}
}
