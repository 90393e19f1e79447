package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Where a libxdp dispatcher runs, --program chooses one of its programs to count. Without it the
// dispatcher is counted, because its verdict decides about the packet. Counters that trace the
// dispatcher are not listed among its programs.
func TestCounterPrograms(t *testing.T) {
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	d, err := testnet.AttachDispatcher(pair.Rx, pair.RxName)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
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
		p, output := counting(t, pair, append(args, "-i", pair.RxName, "--interval", "1s", "--json")...)
		return func() string { p.interrupt(); return output() }
	}
	whole := run("stats")
	for args, want := range map[string]string{
		"-w " + os.DevNull:                        strings.Join(all, ", ") + ": choose with --program NAME, ID or all\n",
		"stats --program all":                     "program all: only one can be chosen here: " + strings.Join(all, ", ") + ": give --program the id of one\n",
		"count --program nosuch":                  "program nosuch: rx0 does not run it; it runs " + strings.Join(all, ", ") + ": --program also takes the id of one that runs elsewhere\n",
		"stats --program 4000000000":              "xdpcap: there is no BPF program with id 4000000000: see xdpcap interfaces, or bpftool prog\n",
		"stats --action drop --program firewall_": "program firewall_ decides by itself: leave --action away",
	} {
		status, stderr := start(t, pair.Rx, nil, append(strings.Fields(args), "-i", pair.RxName)...).wait()
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

	const frames = 5
	for i := range frames {
		testnet.Send(t, pair, testnet.UDPFrame(100, uint64(i)))
	}
	for i, test := range tests {
		r := lastObject[statsReport](t, test.output())
		if r.Verdicts[test.verdict].Packets != frames || r.Total.Packets != frames || r.Total.Bytes != 100*frames {
			t.Errorf("stats %d: %+v", i, r.verdictRates)
		}
	}
	if r := lastObject[countReport](t, counted()); r.Total.Packets != frames || r.Total.Bytes != 100*frames {
		t.Errorf("count: %+v", r)
	}
}

// Where a program runs for two interfaces, only packets that came in on the chosen one are counted
// and measured.
func TestCountOneOfTwo(t *testing.T) {
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	other := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "rx1", TxName: "tx1"})
	target := attachTarget(t, pair, testnet.Rewriting)
	if err := target.AttachAlso(pair.Rx, other.RxName); err != nil {
		t.Fatal(err)
	}
	outputs := map[string]func() string{}
	for _, command := range []string{"stats", "count", "latency"} {
		p, output := counting(t, pair, command, "-i", pair.RxName, "--interval", "1s", "--json")
		outputs[command] = func() string { p.interrupt(); return output() }
	}
	sendRound(t, other)
	sendRound(t, pair)
	want := uint64(len(answers))
	if r := lastObject[statsReport](t, outputs["stats"]()); r.Total.Packets != want {
		t.Errorf("stats: %+v, want %d packets", r.verdictRates, want)
	}
	if r := lastObject[countReport](t, outputs["count"]()); r.Total.Packets != want {
		t.Errorf("count: %+v, want %d packets", r.Total, want)
	}
	if r := lastObject[latencyReport](t, outputs["latency"]()); r.Total.Runs != want {
		t.Errorf("latency: %+v, want %d runs", r.Total, want)
	}
}
