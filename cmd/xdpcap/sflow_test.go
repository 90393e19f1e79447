package main_test

import (
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A collector that cannot be is an error before anything is attached.
func TestSFlowTargets(t *testing.T) {
	skipEmulated(t)
	for _, test := range []struct{ target, want string }{
		{"sflow://", "must be sflow://HOST"},
		{"sflow://192.0.2.1/path", "must be sflow://HOST"},
		{"sflow://192.0.2.1:no", "invalid port"},
		{"sflow://192.0.2.1:99999", "reach the collector 192.0.2.1:99999"},
	} {
		status, stderr := start(t, testnet.MustPair(t, testnet.PairOptions{}).Rx, nil, "-i", "rx0", "-w", test.target).wait()
		if status != 1 || !strings.Contains(stderr, test.want) {
			t.Errorf("-w %s: exit status %d: %s", test.target, status, stderr)
		}
	}
}

// Every field of flow samples is what was sent, in datagrams that are full. Another output gets the
// same packets, whole.
func TestSFlow(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	l := listenSFlow(t, pair.Rx)
	file := tempFile(t)
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", "sflow://"+l.address, "-w", file, "--json", "--counter-interval", "100ms", "--sflow-agent", "192.0.2.9,77")
	var frames [][]byte
	for i := range 40 {
		frame := testnet.UDPFrame(60+20*i, uint64(i))
		if i%2 == 1 {
			frame = testnet.VLAN(frame, uint16(100+i))
		}
		frames = append(frames, frame)
	}
	testnet.Send(t, pair, frames...)
	samples := l.wait(t, flowSample, len(frames))
	index := interfaceIndex(t, pair)
	for i, s := range samples {
		want := sflowSample{
			kind: flowSample, sequence: uint32(i + 1), sourceIndex: index, input: index, rate: 1, pool: s.pool,
			header: frames[i][:min(len(frames[i]), 128)], frameLength: uint32(len(frames[i]) + 4), stripped: 4,
			counters: map[uint32]int{},
		}
		if i%2 == 1 {
			want.vlan = uint32(100 + i)
		}
		if diff := cmp.Diff(want, s, cmp.AllowUnexported(sflowSample{})); diff != "" {
			t.Errorf("sample %d (-want +got):\n%s", i, diff)
		}
	}
	if pool := samples[len(samples)-1].pool; pool == 0 || pool > uint32(len(frames)) {
		t.Errorf("the last sample is of a pool of %d", pool)
	}

	// The counters of the interface, again and again.
	counters := l.wait(t, counterSample, 3)
	sizes := map[string]bool{}
	for _, c := range counters {
		sizes[fmt.Sprint(c.sourceType, c.sourceIndex, c.counters)] = true
	}
	want := map[string]bool{fmt.Sprint(0, index, map[uint32]int{1: 88}): true}
	if diff := cmp.Diff(want, sizes); diff != "" {
		t.Errorf("sources of counters: %s", diff)
	}

	s := account(t, p.interrupt())
	all := l.read(t)
	for i, d := range all {
		if d.agent.String() != "192.0.2.9" || d.subAgent != 77 || d.sequence != uint32(i+1) || d.length > 1400 {
			t.Errorf("datagram %d: %+v", i, d)
		}
	}
	sent := &sflowSummary{
		Datagrams: uint64(len(all)), FlowSamples: uint64(len(frames)), CounterSamples: uint64(len(samplesOf(all, counterSample))),
	}
	if len(s.Outputs) != 2 || s.Outputs[0].Captured != uint64(len(frames)) {
		t.Fatalf("outputs %+v", s.Outputs)
	}
	if diff := cmp.Diff(sent, s.Outputs[0].SFlow); diff != "" {
		t.Errorf("the summary: %s", diff)
	}
	records, _ := readFile(t, file)
	for i, r := range records {
		if diff := cmp.Diff(frames[i], r.data); diff != "" {
			t.Errorf("packet %d of the file: %s", i, diff)
		}
	}
}

// interfaceIndex is that of the pair's receiving interface.
func interfaceIndex(t *testing.T, pair *testnet.Pair) (index uint32) {
	t.Helper()
	err := pair.Rx.Do(func() error {
		ifi, err := net.InterfaceByName(pair.RxName)
		if err == nil {
			index = uint32(ifi.Index)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return index
}

// A packet that a program drops or aborts is sent as a notification, with the program and the
// verdict, and the flow sample says so. If entries are captured as well, flow samples are made of
// those.
func TestSFlowDiscards(t *testing.T) {
	testnet.RequireFentry(t)
	for _, hooks := range []string{"exit", "entry,exit"} {
		t.Run(hooks, func(t *testing.T) {
			pair := testnet.MustPair(t, testnet.PairOptions{})
			target := attachTarget(t, pair, testnet.Hooked)
			info, err := target.Program().Info()
			if err != nil {
				t.Fatal(err)
			}
			l := listenSFlow(t, pair.Rx)
			p := listening(t, pair.Rx, nil, "-i", pair.RxName, "--rx-capture", hooks, "-w", "sflow://"+l.address)
			frames := sendRound(t, pair)
			stderr := p.interrupt()
			l.wait(t, discardedSample, 2)
			l.wait(t, flowSample, len(frames))
			all := l.read(t)
			flows, discards := samplesOf(all, flowSample), samplesOf(all, discardedSample)
			if len(flows) != len(frames) || len(discards) != 2 {
				t.Fatalf("%d flow samples and %d discarded packets: %s", len(flows), len(discards), stderr)
			}
			index := interfaceIndex(t, pair)
			checkDiscards(t, discards, frames, index, info.Name)
			checkOutputs(t, flows, hooks == "exit", index)
			if !strings.Contains(stderr, fmt.Sprintf("with %d flow samples, 2 discarded packets", len(frames))) {
				t.Error(stderr)
			}
		})
	}
}

// checkDiscards checks the notifications about a round of sendRound.
func checkDiscards(t *testing.T, discards []sflowSample, frames [][]byte, index uint32, program string) {
	t.Helper()
	for i, verdict := range []string{"XDP_DROP", "XDP_ABORTED"} {
		want := sflowSample{
			kind: discardedSample, sequence: uint32(i + 1), sourceIndex: index, input: index, reason: 367,
			header: frames[i], frameLength: uint32(len(frames[i]) + 4), stripped: 4,
			texts: strings.TrimSpace(program + " " + verdict), counters: map[uint32]int{},
		}
		if diff := cmp.Diff(want, discards[i], cmp.AllowUnexported(sflowSample{})); diff != "" {
			t.Errorf("discarded packet %d (-want +got):\n%s", i, diff)
		}
	}
}

// checkOutputs checks where the flow samples of a round say that packets went.
func checkOutputs(t *testing.T, flows []sflowSample, known bool, index uint32) {
	t.Helper()
	for i, want := range []string{"1 367", "1 367", fmt.Sprint(0, index), "0 0", "0 0", "0 0"} {
		if !known {
			want = "0 0"
		}
		if i < len(flows) && fmt.Sprint(flows[i].outputFormat, flows[i].output) != want {
			t.Errorf("flow sample %d goes to %d %d, want %s", i, flows[i].outputFormat, flows[i].output, want)
		}
	}
}

// A collector that is away costs nothing but is counted, and gets what comes after it is back.
func TestSFlowCollectorAway(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	l := listenSFlow(t, pair.Rx)
	// Nothing listens on port 9 here, and the kernel never chooses it as the port that xdpcap sends
	// from: xdpcap would then send to itself.
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", "sflow://127.0.0.1:9", "-w", "sflow://"+l.address, "--json", "-U")
	for i := range uint64(20) {
		testnet.Send(t, pair, testnet.UDPFrame(60, i))
	}
	l.wait(t, flowSample, 20)
	testnet.WaitFor(t, "the notice", func() bool { return strings.Contains(p.said(), "datagrams do not arrive") })
	s := account(t, p.interrupt())
	if s.Captured+s.NotTaken != 20 || s.Outputs[0].SFlow.Refused == 0 || s.Outputs[1].SFlow.Refused != 0 || s.Outputs[1].Captured != 20 {
		t.Errorf("summary %+v, outputs %+v %+v", s, s.Outputs[0].SFlow, s.Outputs[1].SFlow)
	}
}

// Datagrams are no longer than their path takes in one piece.
func TestSFlowPath(t *testing.T) {
	skipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	const mtu = 700
	err := pair.Rx.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(lo, mtu)
	})
	if err != nil {
		t.Fatal(err)
	}
	l := listenSFlow(t, pair.Rx)
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", "sflow://"+l.address, "-s", "200")
	for i := range uint64(20) {
		testnet.Send(t, pair, testnet.UDPFrame(400, i))
	}
	p.interrupt()
	all := l.read(t)
	for _, s := range samplesOf(all, flowSample) {
		if len(s.header) != 200 || s.frameLength != 404 {
			t.Errorf("%d bytes of a packet of %d", len(s.header), s.frameLength)
		}
	}
	for _, d := range all {
		if d.length > mtu-28 {
			t.Errorf("a datagram of %d bytes", d.length)
		}
	}
	if n := len(samplesOf(all, flowSample)); n != 20 {
		t.Errorf("%d flow samples", n)
	}
}

// Collectors compute the right numbers: the sum of the rates is the number of packets, even if some
// samples are lost. For one flow in ten it is as exact as that many samples allow.
func TestSFlowEstimate(t *testing.T) {
	skipEmulated(t)
	for _, overload := range []bool{false, true} {
		t.Run(fmt.Sprintf("overload=%v", overload), func(t *testing.T) { testSFlowEstimate(t, overload) })
	}
}

func testSFlowEstimate(t *testing.T, overload bool) {
	const packets, flows, rate = 10_000_000, 10, 100
	pair := testnet.MustPair(t, testnet.PairOptions{})
	l := listenSFlow(t, pair.Rx)
	buffer := "32M" // more than all samples
	if overload {
		buffer = "128k"
	}
	p := listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", "sflow://"+l.address, "--sample", fmt.Sprint(rate), "-B", buffer, "--sink", "--yes", "--json")
	stop := make(chan struct{})
	paused := make(chan struct{})
	go func() {
		defer close(paused)
		for overload { // a ring is full after a fraction of this time
			unix.Kill(p.cmd.Process.Pid, unix.SIGSTOP)
			time.Sleep(300 * time.Millisecond)
			unix.Kill(p.cmd.Process.Pid, unix.SIGCONT)
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
	s := account(t, p.interrupt())
	if s.Seen != arrived || s.NotTaken != 0 || overload != (s.Lost > 0) {
		t.Errorf("of %d packets: %+v", arrived, s.AccountKeys)
	}

	all := l.read(t)
	var sum, mine, squares float64
	for i, d := range all {
		if d.sequence != uint32(i+1) {
			t.Fatalf("datagram %d comes behind %d others", d.sequence, i)
		}
		for _, s := range samplesOf(all[i:i+1], flowSample) {
			sum += float64(s.rate)
			if s.header[35] == byte(testnet.NumberedPort&0xff) { // the low byte of the first flow's source port
				mine += float64(s.rate)
				squares += float64(s.rate) * float64(s.rate)
			}
		}
	}
	samples := samplesOf(all, flowSample)
	last := samples[len(samples)-1]
	effective := mine * mine / squares // so many samples of equal rates say as much
	t.Logf("%d packets, %d samples, %d lost; the rates' sum is %.0f, of a flow %.0f by effectively %.0f samples", arrived, len(samples), s.Lost, sum, mine, effective)
	if uint64(len(samples)) != s.Captured || uint64(last.pool) != arrived || uint64(last.drops) != s.Lost {
		t.Errorf("%d samples of %d, the last one of a pool of %d with %d drops, where %d of %d were lost",
			len(samples), s.Captured, last.pool, last.drops, s.Lost, arrived)
	}
	// One sample of a group is drawn, and the last group of each CPU may not be complete. The last
	// datagram's rates are rounded up.
	if limit := float64(rate*128 + 10); math.Abs(sum-float64(arrived)) > limit {
		t.Errorf("the rates' sum is %.0f for %d packets", sum, arrived)
	}
	truth := float64(arrived) / flows
	if sigma := math.Sqrt((1 - 1.0/flows) / effective); math.Abs(mine/truth-1) > 4.5*sigma {
		t.Errorf("a flow of %.0f packets is estimated as %.0f, %.1f standard deviations off", truth, mine, math.Abs(mine/truth-1)/sigma)
	}
}
