package capture_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// --sample-flows N keeps only whole flows, about one in N of them.
func TestSampleFlows(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--sample-flows", "10", "--json")
	const flows, packets = 10_000, 4
	_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: flows * packets, Flows: flows})
	s := systest.Account(t, p.Interrupt())
	if s.Seen != arrived || s.Lost != 0 {
		t.Errorf("%d seen, want %d; %d lost", s.Seen, arrived, s.Lost)
	}
	records, _ := systest.ReadFile(t, file)
	seen := map[string]int{}
	for _, rec := range records {
		seen[string(rec.Data[34:36])]++ // the source port
	}
	// On a busy machine the receiver's queue is full for some packets, which never reach XDP.
	var incomplete uint64
	for port, n := range seen {
		if n > packets {
			t.Errorf("flow %x: %d packets, want %d", port, n, packets)
		}
		incomplete += uint64(packets - n)
	}
	if unseen := flows*packets - arrived; incomplete > unseen {
		t.Errorf("%d packets of the flows that are kept are missing, where XDP did not see %d", incomplete, unseen)
	}
	if sigma := math.Sqrt(flows * 0.1 * 0.9); math.Abs(float64(len(seen))-flows*0.1) > 5*sigma {
		t.Errorf("%d of %d flows", len(seen), flows)
	}
	if info := systest.OutputOf(t, "capinfos", file); !strings.Contains(info, "all packets of one flow in 10") {
		t.Errorf("the file does not say how it was sampled:\n%s", info)
	}
}

// Far more packets arrive than --max-rate allows. The rate of the kept packets is within 5 % of it,
// and all packets are accounted for.
func TestMaxRate(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--max-rate", "1000", "--json")
	stop := flood(t, testnet.MustGenerator(t, pair), testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Rate: 1e6})
	const second = 100_000 // about this many bytes of the file
	next := int64(5 * second)
	testnet.WaitFor(t, "two seconds at the rate", func() bool {
		if systest.FileSize(file) < next {
			return false
		}
		next += second
		_, growing := systest.OpenFile(t, file)
		begin, end := steady(recordsOf(growing))
		return end.CI.Timestamp.Sub(begin.CI.Timestamp) >= 2*time.Second
	})
	arrived := testnet.WaitArrived(t, pair, testnet.PairStats{}, stop())
	s := systest.Account(t, p.Interrupt())
	if s.Seen != arrived || s.Lost != 0 {
		t.Errorf("%d seen, want %d; %d lost", s.Seen, arrived, s.Lost)
	}
	records, _ := systest.ReadFile(t, file)
	begin, end := steady(records)
	took := end.CI.Timestamp.Sub(begin.CI.Timestamp)
	if rate := float64(end.index-begin.index) / took.Seconds(); rate < 950 || rate > 1050 {
		t.Errorf("%.0f packets per second over %v", rate, took)
	}
}

// An indexedRecord is a packet and its position in the file.
type indexedRecord struct {
	systest.Record
	index int
}

// steady returns two packets, from 200 ms on, that arrived about a millisecond after the packet
// before them. At 1000 packets per second this means that the token bucket was empty. Between the
// two packets the rate is exact, even if a busy machine paused and then a burst of saved-up packets
// was kept. The bucket saves up one second: the two packets are the first and the last of the
// longest time without such a pause.
func steady(records []systest.Record) (first, last indexedRecord) {
	begin := records[0].CI.Timestamp.Add(200 * time.Millisecond)
	since := 0 // the first packet after a long pause
	for i := 1; i < len(records); i++ {
		at := records[i].CI.Timestamp
		gap := at.Sub(records[i-1].CI.Timestamp)
		if gap > 900*time.Millisecond {
			since = 0
		}
		if at.Before(begin) || gap < 500*time.Microsecond || gap > 1500*time.Microsecond {
			continue
		}
		if since == 0 {
			since = i
		}
		if at.Sub(records[since].CI.Timestamp) >= last.CI.Timestamp.Sub(first.CI.Timestamp) {
			first, last = indexedRecord{records[since], since}, indexedRecord{records[i], i}
		}
	}
	return first, last
}

// --first keeps the first packets of each flow. For a flow on two interfaces each interface keeps
// them, and no two packets of a file have the same id.
func TestFirst(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	other := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "rx1", TxName: "tx1"})
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-i", other.RxName, "-w", file, "--first", "3", "--json")
	for i, to := range []*testnet.Pair{pair, other} {
		testnet.Generate(t, to, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 2000 * uint64(i+1), Flows: 100})
	}
	s := systest.Account(t, p.Interrupt())
	for i, own := range s.Interfaces {
		if own.Captured != 300 || own.NotSampled != own.Seen-300 || own.Seen < 1000*uint64(i+1) {
			t.Errorf("%s: %+v", own.Interface, own.AccountKeys)
		}
	}
	kept, ids := map[string]int{}, map[uint64]bool{}
	for _, packet := range systest.ReadTraced(t, file) {
		kept[packet.Hook]++
		if ids[packet.Id] {
			t.Errorf("two packets have the id %x", packet.Id)
		}
		ids[packet.Id] = true
	}
	if diff := cmp.Diff(map[string]int{"rx0": 300, "rx1": 300}, kept); diff != "" {
		t.Errorf("packets kept of each interface: %s", diff)
	}
}

// Each verdict has a rate of its own, and each packet has the number of packets it represents.
// Packets with another verdict are all kept.
func TestSampleVerdicts(t *testing.T) {
	t.Parallel()
	for i, transport := range []string{"perf", "ring"} {
		if testnet.Shared(i) {
			t.Run("hook map, "+transport, func(t *testing.T) {
				pair := testnet.MustPair(t, testnet.PairOptions{})
				hook := systest.PinHook(t, testnet.MustTarget(t, pair, testnet.Hooked).Hook())
				testSampleVerdicts(t, pair, "--transport", transport, "--hook", hook)
			})
		}
		if testnet.Shared(i + 1) {
			t.Run("exit, "+transport, func(t *testing.T) {
				testnet.RequireFentry(t)
				pair := testnet.MustPair(t, testnet.PairOptions{})
				testnet.MustTarget(t, pair, testnet.Rewriting)
				testSampleVerdicts(t, pair, "--transport", transport, "-i", pair.RxName)
			})
		}
	}
}

func testSampleVerdicts(t *testing.T, pair *testnet.Pair, args ...string) {
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, append(args, "-w", file, "--json", "--sample", "drop=1,pass=20,aborted=7")...)
	sent := map[string]int{"drop": 30, "aborted": 70, "tx": 10, "pass": 200}
	ports := map[string]uint16{"drop": 9, "aborted": 10, "tx": 11, "pass": 443}
	var frames [][]byte
	for verdict, n := range sent {
		for range n {
			frames = append(frames, testnet.TxToRx().UDP(1000, ports[verdict], []byte("payload")))
		}
	}
	testnet.Send(t, pair, frames...)
	s := systest.Account(t, p.Interrupt())
	if s.Seen != uint64(len(frames)) || s.Lost != 0 || s.Seen != s.Captured+s.NotSampled {
		t.Errorf("summary %+v", s)
	}
	kept, weights := map[string]int{}, map[string]uint32{}
	for _, packet := range systest.ReadTraced(t, file) {
		verdict := capture.Verdict(packet.Verdict).String()
		kept[verdict]++
		weight := uint32(1)
		for _, comment := range packet.Comments {
			fmt.Sscanf(comment, "weight %d", &weight)
		}
		weights[verdict] = weight
	}
	if diff := cmp.Diff(map[string]uint32{"drop": 1, "tx": 1, "aborted": 7, "pass": 20}, weights); diff != "" {
		t.Errorf("weights: %s", diff)
	}
	for verdict, n := range sent {
		oneIn := int(weights[verdict])
		more := 0
		if oneIn > 1 {
			more = runtime.NumCPU() // each CPU has its own groups
		}
		if got := kept[verdict]; got < n/oneIn-more || got > n/oneIn+more {
			t.Errorf("%d of %d packets with the verdict %s are kept, want one of %d", got, n, verdict, oneIn)
		}
	}
	if testnet.Emulated() {
		return // reading the file does not depend on the kernel
	}
	r := systest.StatsOf(t, file)
	for verdict, n := range sent {
		e := r.Verdicts[verdict].Estimate
		systest.CheckEstimate(t, verdict, uint64(n), e.Packets, e.PacketsLow, e.PacketsHigh)
	}
	info := systest.OutputOf(t, "capinfos", file)
	if want := "one of every 7 with the verdict aborted, one of every 1 with the verdict drop, one of every 20 with the verdict pass, at random, and all packets with another verdict"; !strings.Contains(info, want) {
		t.Errorf("the file does not say how it was sampled:\n%s", info)
	}
	lines := systest.MustRead(t, "-v", file)
	if n := strings.Count(lines, ", weight 20)"); n != kept["pass"] {
		t.Errorf("%d lines have the weight 20, want %d:\n%s", n, kept["pass"], lines)
	}
	out := systest.OutputOf(t, "tshark", "-r", file, "-Y", `frame.comment == "weight 20"`, "-T", "fields", "-e", "frame.number")
	if n := strings.Count(out, "\n"); n != kept["pass"] {
		t.Errorf("tshark finds %d packets of weight 20, want %d", n, kept["pass"])
	}
}

func TestSample(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--sample", "100", "--json")
	frames := testnet.Volume(200_000)
	_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: frames})
	s := systest.Account(t, p.Interrupt())
	if s.Seen != arrived || s.Lost != 0 {
		t.Errorf("%d seen, want %d; %d lost", s.Seen, arrived, s.Lost)
	}
	want, cpus := float64(s.Seen)/100, float64(runtime.NumCPU()) // each CPU counts its own hundreds
	if math.Abs(float64(s.Captured)-want) > cpus {
		t.Errorf("%d captured, want %.0f, one for each CPU more or less", s.Captured, want)
	}
	if info := systest.OutputOf(t, "capinfos", file); !strings.Contains(info, "one packet of every 100, at random") {
		t.Errorf("the file does not say how it was sampled:\n%s", info)
	}
}
