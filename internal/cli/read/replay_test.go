package read

import (
	"bytes"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/cli/clitest"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/replay"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Tables have local times, and those of golden files are UTC.
func init() { time.Local = time.UTC }

func TestMeasuredReport(t *testing.T) {
	t.Parallel()
	m := &replay.Measured{Total: replay.Cost{Packets: 200, Changed: 150, OnceNs: 123.4, Ns: 12.25, Repeated: 50, Hardware: true, Cycles: 33.3, NativeInstructions: 99}}
	m.Verdicts[xdp.Tx] = replay.Cost{Packets: 150, Changed: 150, OnceNs: 140}
	m.Verdicts[xdp.Drop] = replay.Cost{Packets: 50, OnceNs: -0.5, Ns: 12.25, Repeated: 50, Hardware: true, Cycles: 33.3, NativeInstructions: 99}
	p := &replay.Program{Named: xdp.Program{ID: 7, Name: "lb"}}
	clitest.CheckReport(t, "replay-measured", newMeasuredReport(p, m, &replay.Sample{Cut: 3, NotRun: replay.NotRun{Short: 1, Long: 1}, More: true}, 1))
}

func TestReplayReport(t *testing.T) {
	t.Parallel()
	r := &replay.Result{NotRun: replay.NotRun{NotReceived: 4, Short: 1}, Cut: 3, AsLeft: 1, Compared: 90}
	for range 100 {
		r.Total.Times.Observe(40 * time.Nanosecond)
	}
	r.Total.Packets, r.Total.Bytes, r.Total.Changed = 100, 6400, 20
	r.Verdicts[xdp.Drop] = replay.Tally{Packets: 25, Bytes: 1600}
	r.Verdicts[xdp.Pass] = replay.Tally{Packets: 75, Bytes: 4800, Changed: 20, Times: r.Total.Times}
	flow := meter.Flow{Class: meter.IPv6(17), Source: netip.MustParseAddrPort("[2001:db8::1]:40000"), Destination: netip.MustParseAddrPort("[2001:db8::2]:53")}
	first := time.Date(2026, 7, 1, 12, 0, 0, 5000, time.Local)
	r.Differences = []replay.Difference{
		{Was: xdp.Pass, Now: xdp.Drop, Packets: 20, First: first, Flows: []replay.FlowPackets{{Flow: flow, Packets: 12}}, MoreFlows: 8},
		{Was: xdp.Pass, Now: xdp.Pass, OtherBytes: true, Packets: 1, First: first},
	}
	o := &replayOptions{options: replay.Options{
		Program: &replay.Program{Named: xdp.Program{ID: 7, Name: "lb"}, File: "new.o"},
		Expect:  &replay.Expectations{All: []replay.Expectation{{Line: 2, Filter: "udp", Verdict: xdp.Pass, Packets: 9}, {Line: 3, Filter: "tcp", Verdict: xdp.Drop, Packets: 2, Wrong: 1}}},
	}}
	clitest.CheckReport(t, "replay", newReplayReport(o, r))
}

// A missing or wrong flag is one clear line, before anything is loaded.
func TestReplayFlags(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"":                  "--program is missing: which program?",
		"--program= x.pcap": "--program is missing: which program?",
		"--program lb":      "which packets? xdpcap replay --program lb FILE",
		"--program lb --measure --duration 1ms x.pcap": "--duration 1ms: must be at least 10ms",
		"--program lb --measure --against old x.pcap":  "--measure runs the program over and over",
		"--program lb --measure -w out.pcapng x.pcap":  "--measure runs the program over and over",
		"--program lb --verdict accept x.pcap":         `verdict "accept"`,
	} {
		root := NewReplay(frame.NewProcess(os.Stdout, os.Stderr))
		root.SetArgs(strings.Fields(args))
		root.SetOut(&bytes.Buffer{})
		root.SilenceErrors, root.SilenceUsage = true, true
		if err := root.Execute(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("replay %s: %v, want %q", args, err, want)
		}
	}
}
