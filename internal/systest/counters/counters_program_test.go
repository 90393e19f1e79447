package counters_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Where a libxdp dispatcher runs, --program chooses one of its programs to count. Without it the
// dispatcher is counted, because its verdict decides about the packet. Counters that trace the
// dispatcher are not listed among its programs.
func TestCounterPrograms(t *testing.T) {
	t.Parallel()
	testnet.LeaveTo(t, "6.1")
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	d := testnet.MustDispatcher(t, pair)
	names := testnet.DispatcherComponents
	var all []string
	for i, name := range names {
		id, err := d.ID(i)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, fmt.Sprintf("%s (id %d)", name, id))
	}
	last, err := d.ID(len(names) - 1)
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) func() string {
		p, output := systest.Counting(t, pair, append(args, "-i", pair.RxName, "--interval", "1s", "--json")...)
		return func() string { p.Interrupt(); return output() }
	}
	whole := run("stats")
	for args, want := range map[string]string{
		"-w " + os.DevNull:                        strings.Join(all, ", ") + ": choose with --program NAME, ID or all\n",
		"stats --program all":                     "program all: only one can be chosen here: " + strings.Join(all, ", ") + ": give --program the id of one\n",
		"count --program nosuch":                  "program nosuch: rx0 does not run it; it runs " + strings.Join(all, ", ") + ": --program also takes the id of one that runs elsewhere\n",
		"latency --program nosuch":                "program nosuch: rx0 does not run it; it runs ",
		"stats --program 4000000000":              "xdpcap: there is no BPF program with id 4000000000: see xdpcap interfaces, or bpftool prog\n",
		"stats --action drop --program firewall_": "program firewall_ decides by itself: omit --action",
	} {
		status, stderr := systest.Start(t, pair.Rx, nil, append(strings.Fields(args), "-i", pair.RxName)...).Wait()
		if status != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit status %d: %s", args, status, stderr)
		}
	}

	tests := []struct {
		verdict string
		output  func() string
	}{
		{"drop", whole},
		{"pass", run("stats", "--program", names[1])},
		{"drop", run("stats", "--program", fmt.Sprint(last))},
	}
	counted := run("count", "--program", names[0])
	measured := run("latency", "--program", names[1])

	const frames = 5
	for i := range frames {
		testnet.Send(t, pair, testnet.UDPFrame(100, uint64(i)))
	}
	for i, test := range tests {
		r := systest.LastObject[systest.StatsReport](t, test.output())
		if r.Verdicts[test.verdict].Packets != frames || r.Total.Packets != frames || r.Total.Bytes != 100*frames {
			t.Errorf("stats %d: %+v", i, r.VerdictRates)
		}
	}
	if r := systest.LastObject[systest.CountReport](t, counted()); r.Total.Packets != frames || r.Total.Bytes != 100*frames {
		t.Errorf("count: %+v", r)
	}
	r := systest.LastObject[systest.LatencyReport](t, measured())
	if r.Total.Runs != frames || r.Verdicts["pass"].Runs != frames || r.Program != names[1] {
		t.Errorf("latency: %+v", r)
	}
}

// Flows are counted by the verdict that the traced program gives their packets, as they came in:
// the program inserts a tag into those that it passes. --verdict counts only packets with these
// verdicts.
func TestFlowVerdicts(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := systest.AttachTarget(t, pair, testnet.Rewriting)
	program, err := xdp.Identify(target.Program())
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) func() string {
		p, output := systest.Counting(t, pair, append([]string{"count", "-i", pair.RxName, "-q", "--json", "--sizes"}, args...)...)
		return func() string { p.Interrupt(); return output() }
	}
	all, some := run("--flows", "9"), run("--flows", "9", "--verdict", "drop,unknown")
	protocols := run("--verdict", "drop", "--variant", "ultra")
	for packets, port := range []uint16{1: testnet.DropPort, 2: testnet.UnknownPort, 3: 7, 4: testnet.AbortPort} {
		for range packets {
			testnet.Send(t, pair, testnet.TxToRx().UDP(1000, port, make([]byte, 58)))
		}
	}
	for what, test := range map[string]struct{ output, want string }{
		"all":       {all(), "10 10 UDP 7/pass:3 9/drop:1 10/aborted:4 12/unknown:2"},
		"some":      {some(), "3 3 UDP 9/drop:1 12/unknown:2"},
		"protocols": {protocols(), "1 1 UDP"},
	} {
		r := systest.LastObject[systest.CountReport](t, test.output)
		got := fmt.Sprint(r.Total.Packets, " ", r.Sizes[1].Packets, " ", strings.ToUpper(r.Protocols[0].Protocol))
		slices.SortFunc(r.Flows, func(a, b flowRate) int { return cmp.Compare(a.DestinationPort, b.DestinationPort) })
		for _, f := range r.Flows {
			got += fmt.Sprintf(" %d/%s:%d", f.DestinationPort, f.Verdict, f.Packets)
		}
		if got != test.want || r.Total.Bytes != 100*r.Total.Packets || r.Program != program.Name || r.ProgramID != program.ID {
			t.Errorf("%s: %s, want %s; %+v", what, got, test.want, r)
		}
	}
}
