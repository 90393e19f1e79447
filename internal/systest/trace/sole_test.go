package trace_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A single program that xdp-loader attaches takes the place of libxdp's dispatcher, which does not
// run itself. Every command takes that program without being told.
func TestDispatcherOfOne(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	const frames = 5
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustSole(t, pair)
	count := func(args ...string) (*systest.Process, func() string) {
		return systest.Counting(t, pair, append(args, "-i", pair.RxName, "--interval", "1h", "--json")...)
	}
	stats, counted := count("stats")
	latency, measured := count("latency")
	dropped, protocols := count("count", "--verdict", "drop")
	drops, causes := count("drops")
	capture := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--drops", "-w", os.DevNull, "--json", "udp")
	testnet.Send(t, pair, testnet.UDPFrame(100, 0), testnet.UDPFrame(100, 1), testnet.UDPFrame(100, 2), testnet.UDPFrame(100, 3), testnet.UDPFrame(100, 4))
	s := systest.Account(t, capture.Interrupt())
	for _, p := range []*systest.Process{stats, latency, dropped, drops} {
		p.Interrupt()
	}
	for what, n := range map[string]uint64{
		"stats":   systest.LastObject[systest.StatsReport](t, counted()).Verdicts["drop"].Packets,
		"latency": systest.LastObject[systest.LatencyReport](t, measured()).Total.Runs,
		"count":   systest.LastObject[systest.CountReport](t, protocols()).Total.Packets,
		"--drops": s.Captured,
	} {
		if n != frames {
			t.Errorf("%s: %d packets, want %d", what, n, frames)
		}
	}
	if text := causes(); !strings.Contains(text, "which runs "+testnet.SoleComponent) {
		t.Errorf("drops does not name the program: %s", text)
	}
	output := func(args ...string) string {
		cmd := systest.Command(args...)
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := pair.Rx.Start(cmd); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", args, err)
		}
		return out.String()
	}
	for _, args := range [][]string{{"interfaces"}, {"interfaces", "--json"}, {"probe", "-i", pair.RxName}} {
		if text := output(args...); !strings.Contains(text, testnet.SoleComponent) {
			t.Errorf("%s does not name the program: %s", args, text)
		}
	}
}
