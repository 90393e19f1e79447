package read_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/read"
	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// writeSampled writes packets of 100 bytes with these facts, and returns the file.
func writeSampled(t *testing.T, o capture.Options, packets []capture.Packet, sources ...capture.Source) string {
	t.Helper()
	var b bytes.Buffer
	out := file.NewWriter(&b, file.Options{})
	o.SnapLen = 65535
	err := out.Begin(capture.Description{Sources: sources, Options: o, Started: time.Unix(1700000000, 0)})
	for _, p := range packets {
		p.WireLen, p.Data = 100, testnet.UDPFrame(100, 0)
		err = errors.Join(err, out.Write([]capture.Packet{p}))
	}
	_, failed := out.End(make(capture.Accounts, len(sources)))
	testnet.Must(t, errors.Join(err, failed))
	return writeBytes(t, b.Bytes())
}

// passedAndDropped returns this many passed packets with this weight, and three dropped packets,
// each with these losses before it.
func passedAndDropped(n int, weight uint32, losses uint64) []capture.Packet {
	passed := capture.Packet{Facts: &capture.Facts{Verdict: capture.Pass, Weight: weight, Dropped: losses}}
	dropped := capture.Packet{Facts: &capture.Facts{Verdict: capture.Drop, Weight: 1, Dropped: losses}}
	return append(slices.Repeat([]capture.Packet{passed}, n), dropped, dropped, dropped)
}

// The time and memory for a comment with many parts are proportional to its length, not to its
// square: the report lists as many ways of sampling as a real capture can have, and counts the
// others.
func TestReadSamplingComments(t *testing.T) {
	t.Parallel()
	const (
		ways      = 5000
		maxPassed = 64 // are listed
	)
	comment := capture.SamplingComment + "one packet in 2"
	for i := range ways {
		comment += fmt.Sprintf("%sat most %d", capture.SamplingSeparator, i)
	}
	b := pcapng.AppendSection(nil, &pcapng.Section{Comment: comment[:min(len(comment), math.MaxUint16-3)]})
	told := strings.Count(comment[:min(len(comment), math.MaxUint16-3)], "at most ")
	b = append(b, b...)
	got := systest.StatsOf(t, writeBytes(t, b)).NotEstimated
	if len(got) != maxPassed+1 || got[0] != "at most 0" {
		t.Fatalf("%d ways, the first %v", len(got), got[:1])
	}
	// The second section repeats ways that are already listed.
	if want := fmt.Sprintf("%d further remarks", 2*(told-maxPassed)); !strings.Contains(got[maxPassed], want) {
		t.Errorf("%q, want %q", got[maxPassed], want)
	}
}

// If packets represent several, totals are estimated by interface, verdict and flow. The report
// states that sampling without a fixed rate, and lost packets, are not in the estimate.
func TestReadEstimates(t *testing.T) {
	t.Parallel()
	byVerdict := capture.Options{SampleVerdicts: map[capture.Verdict]uint32{capture.Pass: 100, capture.Drop: 1}}
	file := writeSampled(t, byVerdict, passedAndDropped(400, 100, 0), exitSource)
	r := systest.StatsOf(t, file)
	if diff := cmp.Diff(&read.EstimateKeys{Packets: 3, PacketsLow: 3, PacketsHigh: 3, Bytes: 300, BytesLow: 300, BytesHigh: 300}, r.Verdicts["drop"].Estimate); diff != "" {
		t.Errorf("all dropped packets were kept: %s", diff)
	}
	for name, got := range map[string]*read.EstimateKeys{"total": r.Total.Estimate, "interface": r.Interfaces[0].Estimate, "flow": r.Flows[0].Estimate} {
		if got.Packets != 40_003 || got.Bytes != 4_000_300 || got.PacketsLow > 36_300 || got.PacketsLow < 36_000 || got.PacketsHigh < 44_000 || got.PacketsHigh > 44_300 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if r.Total.Packets != 403 || r.NotEstimated != nil {
		t.Errorf("%+v", r)
	}
	text := systest.MustRead(t, "--stats", file)
	for _, says := range []string{"ESTIMATE ", "eth0:prog@exit   40.0 k    36.3 k   44.1 k", "total            40.0 k", "3         3        3    300       300      300", "AT MOST"} {
		if !strings.Contains(text, says) {
			t.Errorf("the text has no %q:\n%s", says, text)
		}
	}
	for line := range strings.Lines(text) {
		if n := len([]rune(line)); n > 100+1 {
			t.Errorf("%d columns: %s", n, line)
		}
	}

	// In an adaptive capture, a verdict whose packets in the file all have weight 1 may have had
	// other packets while not all were kept.
	file = writeSampled(t, capture.Options{}, passedAndDropped(400, 100, 2), exitSource)
	r = systest.StatsOf(t, file)
	if e := r.Verdicts["drop"].Estimate; e.Packets != 3 || e.PacketsLow != 3 || e.PacketsHigh < 300 {
		t.Errorf("%+v", e)
	}
	if diff := cmp.Diff([]string{"the weight of 806 packets that were drawn and lost"}, r.NotEstimated); diff != "" {
		t.Error(diff)
	}

	file = writeSampled(t, capture.Options{SampleFlows: 10, First: 5, MaxRate: 1000}, []capture.Packet{{Facts: &capture.Facts{}}, {Facts: &capture.Facts{}}}, exitSource)
	if r = systest.StatsOf(t, file); r.Total.Estimate != nil {
		t.Errorf("%+v", r.Total)
	}
	want := []string{"all packets of one flow in 10", "the first 5 packets of each flow", "at most 1000 packets per second"}
	if diff := cmp.Diff(want, r.NotEstimated); diff != "" {
		t.Error(diff)
	}
}

// If each verdict has its own rate, packets without a verdict in the file do not show the rate of
// packets with one.
func TestReadEstimatesUnknownVerdicts(t *testing.T) {
	t.Parallel()
	o := capture.Options{SampleVerdicts: map[capture.Verdict]uint32{capture.Pass: 100, capture.Aborted: 1}}
	var packets []capture.Packet
	for i := range uint16(6) {
		packets = append(packets, capture.Packet{Source: i % 2, Facts: &capture.Facts{Verdict: capture.Aborted, Weight: 1 + 99*uint32(1-i%2)}})
	}
	r := systest.StatsOf(t, writeSampled(t, o, packets, entrySource, exitSource))
	want := &read.EstimateKeys{Packets: 3, PacketsLow: 3, PacketsHigh: 3, Bytes: 300, BytesLow: 300, BytesHigh: 300}
	if diff := cmp.Diff(want, r.Verdicts["aborted"].Estimate); diff != "" || r.Total.Packets != 6 {
		t.Errorf("%+v: %s", r.Total, diff)
	}
}

// The estimates from a sampled file match the sent packets, in total and for each flow.
func TestEstimateCapture(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--transport", "perf"}, {"--transport", "ring"}, {"--ring", "16M", "--trigger", "end"}, {"-C", "20k"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			file := systest.TempFile(t)
			p := systest.Listening(t, pair.Rx, nil, append(args, "-i", pair.RxName, "-w", file, "--sample", "20", "--json")...)
			const flows, frames = 5, 40_000
			_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(100, 0), Count: frames, Flows: flows})
			s := systest.Account(t, p.Interrupt())
			if s.Seen != arrived || s.Lost != 0 {
				t.Errorf("%d arrived: %+v", arrived, s)
			}
			r := systest.StatsOf(t, writtenBy(t, file))
			e := r.Total.Estimate
			if e == nil || e.Packets != 20*s.Captured || len(r.Flows) != flows {
				t.Fatalf("%+v", r)
			}
			systest.CheckEstimate(t, "packets", arrived, e.Packets, e.PacketsLow, e.PacketsHigh)
			systest.CheckEstimate(t, "bytes", 100*arrived, e.Bytes, e.BytesLow, e.BytesHigh)
			for _, f := range r.Flows {
				e := f.Estimate
				systest.CheckEstimate(t, "packets of a flow", arrived/flows, e.Packets, e.PacketsLow, e.PacketsHigh)
			}
		})
	}
}

// writtenBy merges the files that a capture has written under the name of its -w.
func writtenBy(t *testing.T, file string) string {
	t.Helper()
	files, err := os.ReadDir(strings.TrimSuffix(file, "/out.pcapng"))
	testnet.Must(t, err)
	args := []string{"-w", systest.TempFile(t)}
	for _, f := range files {
		args = append(args, strings.TrimSuffix(file, "out.pcapng")+f.Name())
	}
	systest.MustRead(t, args...)
	return args[1]
}
