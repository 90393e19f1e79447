package streams_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/sflow"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// An unusable collector is an error before a program is attached.
func TestSFlowTargets(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ target, want string }{
		{"sflow://", "must be sflow://HOST"},
		{"sflow://192.0.2.1/path", "must be sflow://HOST"},
		{"sflow://192.0.2.1:no", "invalid port"},
		{"sflow://192.0.2.1:99999", "reach the collector 192.0.2.1:99999"},
	} {
		out, err := systest.Command("-i", "none0", "-w", test.target).CombinedOutput()
		if err == nil || !strings.Contains(string(out), test.want) {
			t.Errorf("-w %s: %v: %s", test.target, err, out)
		}
	}
}

// Every field of flow samples matches the sent packet, in full datagrams. Another output gets the
// same packets, whole.
func TestSFlow(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	l := systest.ListenSFlow(t, pair.Rx)
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", "sflow://"+l.Address, "-w", file, "--json", "--counter-interval", "100ms", "--sflow-agent", "192.0.2.9,77")
	var frames [][]byte
	for i := range 40 {
		frame := testnet.UDPFrame(60+20*i, uint64(i))
		if i%2 == 1 {
			frame = testnet.VLAN(frame, uint16(100+i))
		}
		frames = append(frames, frame)
	}
	testnet.Send(t, pair, frames...)
	samples := l.Wait(t, systest.FlowSample, len(frames))
	index := systest.InterfaceIndex(t, pair)
	for i, s := range samples {
		want := systest.SflowSample{
			Kind: systest.FlowSample, Sequence: uint32(i + 1), SourceIndex: index, Input: index, Rate: 1, Pool: s.Pool,
			Header: frames[i][:min(len(frames[i]), 128)], FrameLength: uint32(len(frames[i]) + 4), Stripped: 4,
			Counters: map[uint32]int{},
		}
		if i%2 == 1 {
			want.Vlan = uint32(100 + i)
		}
		if diff := cmp.Diff(want, s, cmp.AllowUnexported(systest.SflowSample{})); diff != "" {
			t.Errorf("sample %d (-want +got):\n%s", i, diff)
		}
	}
	if pool := samples[len(samples)-1].Pool; pool == 0 || pool > uint32(len(frames)) {
		t.Errorf("the last sample is of a pool of %d", pool)
	}

	// The interface's counters, repeatedly.
	counters := l.Wait(t, systest.CounterSample, 3)
	sizes := map[string]bool{}
	for _, c := range counters {
		sizes[fmt.Sprint(c.SourceType, c.SourceIndex, c.Counters)] = true
	}
	want := map[string]bool{fmt.Sprint(0, index, map[uint32]int{1: 88}): true}
	if diff := cmp.Diff(want, sizes); diff != "" {
		t.Errorf("sources of counters: %s", diff)
	}

	s := systest.Account(t, p.Interrupt())
	all := l.Read(t)
	for i, d := range all {
		if d.Agent.String() != "192.0.2.9" || d.SubAgent != 77 || d.Sequence != uint32(i+1) || d.Length > 1400 {
			t.Errorf("datagram %d: %+v", i, d)
		}
	}
	sent := &sflow.Counts{
		Datagrams: uint64(len(all)), FlowSamples: uint64(len(frames)), CounterSamples: uint64(len(systest.SamplesOf(all, systest.CounterSample))),
	}
	if len(s.Outputs) != 2 || s.Outputs[0].Captured != uint64(len(frames)) {
		t.Fatalf("outputs %+v", s.Outputs)
	}
	if diff := cmp.Diff(sent, s.Outputs[0].SFlow); diff != "" {
		t.Errorf("the summary: %s", diff)
	}
	records, _ := systest.ReadFile(t, file)
	for i, r := range records {
		if diff := cmp.Diff(frames[i], r.Data); diff != "" {
			t.Errorf("packet %d of the file: %s", i, diff)
		}
	}
}

// A packet that a program drops or aborts is sent as a notification, with the program and the
// verdict, and the flow sample has them, too. If entries are captured as well, flow samples are
// made from the entries.
func TestSFlowDiscards(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	for _, hooks := range []string{"exit", "entry,exit"} {
		t.Run(hooks, func(t *testing.T) {
			pair := testnet.MustPair(t, testnet.PairOptions{})
			target := testnet.MustTarget(t, pair, testnet.Hooked)
			info, err := target.Program().Info()
			testnet.Must(t, err)
			l := systest.ListenSFlow(t, pair.Rx)
			p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--rx-capture", hooks, "-w", "sflow://"+l.Address)
			frames := systest.SendRound(t, pair)
			stderr := p.Interrupt()
			l.Wait(t, systest.DiscardedSample, 2)
			l.Wait(t, systest.FlowSample, len(frames))
			all := l.Read(t)
			flows, discards := systest.SamplesOf(all, systest.FlowSample), systest.SamplesOf(all, systest.DiscardedSample)
			if len(flows) != len(frames) || len(discards) != 2 {
				t.Fatalf("%d flow samples and %d discarded packets: %s", len(flows), len(discards), stderr)
			}
			index := systest.InterfaceIndex(t, pair)
			systest.CheckDiscards(t, discards, frames, index, info.Name)
			systest.CheckOutputs(t, flows, hooks == "exit", index)
			if !strings.Contains(stderr, fmt.Sprintf("with %d flow samples, 2 discarded packets", len(frames))) {
				t.Error(stderr)
			}
		})
	}
}

// An unreachable collector costs nothing except a count, and gets the samples after it is back.
func TestSFlowCollectorAway(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	l := systest.ListenSFlow(t, pair.Rx)
	// No process listens on port 9 here, and the kernel never chooses it as the port that xdpcap
	// sends from; otherwise xdpcap would send to itself.
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", "sflow://127.0.0.1:9", "-w", "sflow://"+l.Address, "--json", "-U")
	for i := range uint64(20) {
		testnet.Send(t, pair, testnet.UDPFrame(60, i))
	}
	l.Wait(t, systest.FlowSample, 20)
	testnet.WaitFor(t, "the notice", func() bool { return strings.Contains(p.Stderr(), "datagrams do not arrive") })
	s := systest.Account(t, p.Interrupt())
	if s.Captured+s.NotTaken != 20 || s.Outputs[0].SFlow.Refused == 0 || s.Outputs[1].SFlow.Refused != 0 || s.Outputs[1].Captured != 20 {
		t.Errorf("summary %+v, outputs %+v %+v", s, s.Outputs[0].SFlow, s.Outputs[1].SFlow)
	}
}

// Datagrams are no longer than the path MTU allows without fragmentation.
func TestSFlowPath(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	const mtu = 700
	testnet.Must(t, pair.Rx.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(lo, mtu)
	}))
	l := systest.ListenSFlow(t, pair.Rx)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", "sflow://"+l.Address, "-s", "200")
	for i := range uint64(20) {
		testnet.Send(t, pair, testnet.UDPFrame(400, i))
	}
	p.Interrupt()
	all := l.Read(t)
	for _, s := range systest.SamplesOf(all, systest.FlowSample) {
		if len(s.Header) != 200 || s.FrameLength != 404 {
			t.Errorf("%d bytes of a packet of %d", len(s.Header), s.FrameLength)
		}
	}
	for _, d := range all {
		if d.Length > mtu-28 {
			t.Errorf("a datagram of %d bytes", d.Length)
		}
	}
	if n := len(systest.SamplesOf(all, systest.FlowSample)); n != 20 {
		t.Errorf("%d flow samples", n)
	}
}

// Collectors compute the right numbers: the sum of the rates is the number of packets, even if some
// samples are lost. For one flow in ten it is as exact as that many samples allow.
func TestSFlowEstimate(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("estimates by millions of packets")
	}
	for _, overload := range []bool{false, true} {
		t.Run(fmt.Sprintf("overload=%v", overload), func(t *testing.T) { testSFlowEstimate(t, overload) })
	}
}

func testSFlowEstimate(t *testing.T, overload bool) {
	const packets, flows, rate = 4_000_000, 10, 100
	pair := testnet.MustPair(t, testnet.PairOptions{})
	l := systest.ListenSFlow(t, pair.Rx)
	buffer := "32M" // more than all samples
	if overload {
		buffer = "128k"
	}
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", "sflow://"+l.Address, "--sample", fmt.Sprint(rate), "-B", buffer, "--sink", "--yes", "--json")
	stop := make(chan struct{})
	paused := make(chan struct{})
	go func() {
		defer close(paused)
		for overload { // a ring is full after a fraction of this time
			unix.Kill(p.Cmd.Process.Pid, unix.SIGSTOP)
			time.Sleep(300 * time.Millisecond)
			unix.Kill(p.Cmd.Process.Pid, unix.SIGCONT)
			select {
			case <-stop:
				return
			case <-time.After(300 * time.Millisecond):
			}
		}
	}()
	_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(60, 0), Count: packets, Flows: flows})
	close(stop)
	<-paused
	s := systest.Account(t, p.Interrupt())
	if s.Seen != arrived || s.NotTaken != 0 || overload != (s.Lost > 0) {
		t.Errorf("of %d packets: %+v", arrived, s.AccountKeys)
	}

	all := l.Read(t)
	var sum, mine, squares float64
	for i, d := range all {
		if d.Sequence != uint32(i+1) {
			t.Fatalf("datagram %d comes behind %d others", d.Sequence, i)
		}
		for _, s := range systest.SamplesOf(all[i:i+1], systest.FlowSample) {
			sum += float64(s.Rate)
			if s.Header[35] == byte(testnet.NumberedPort&0xff) { // the low byte of the first flow's source port
				mine += float64(s.Rate)
				squares += float64(s.Rate) * float64(s.Rate)
			}
		}
	}
	samples := systest.SamplesOf(all, systest.FlowSample)
	last := samples[len(samples)-1]
	effective := mine * mine / squares // this many samples of equal rates are equally exact
	t.Logf("%d packets, %d samples, %d lost; the rates' sum is %.0f, of a flow %.0f by effectively %.0f samples", arrived, len(samples), s.Lost, sum, mine, effective)
	if uint64(len(samples)) != s.Captured || uint64(last.Pool) != arrived || uint64(last.Drops) != s.Lost {
		t.Errorf("%d samples of %d, the last one of a pool of %d with %d drops, where %d of %d were lost",
			len(samples), s.Captured, last.Pool, last.Drops, s.Lost, arrived)
	}
	// One sample of a group is drawn, and the last group of each CPU may be incomplete. The last
	// datagram's rates are rounded up.
	if limit := float64(rate*128 + 10); math.Abs(sum-float64(arrived)) > limit {
		t.Errorf("the rates' sum is %.0f for %d packets", sum, arrived)
	}
	truth := float64(arrived) / flows
	if sigma := math.Sqrt((1 - 1.0/flows) / effective); math.Abs(mine/truth-1) > 4.5*sigma {
		t.Errorf("a flow of %.0f packets is estimated as %.0f, %.1f standard deviations off", truth, mine, math.Abs(mine/truth-1)/sigma)
	}
}
