package counters_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A program that replaces the traced one is counted from then on, and the counters go on. If no
// program runs any more, a command ends with all its counts, even within a long interval, and a
// command that exports its counters waits for the next program.
func TestCountersFollow(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	first := testnet.MustTarget(t, pair, testnet.Rewriting)
	commands := []string{"stats --json", "count --json", "latency --json", "latency --kernel-stats --json", "stats --listen 127.0.0.1:0"}
	var processes []*systest.Process
	var outputs []func() string
	for _, command := range commands {
		p, output := systest.Counting(t, pair, append(strings.Fields(command), "-i", pair.RxName, "--interval", "1h")...)
		processes, outputs = append(processes, p), append(outputs, output)
	}
	systest.SendRound(t, pair)

	second, err := testnet.NewTarget(testnet.Rewriting)
	testnet.Must(t, err)
	defer second.Close()
	at := systest.LinkAt(t, pair)
	defer at.Close()
	testnet.Must(t, at.Update(second.Program()))
	for _, p := range processes {
		systest.WaitStderr(t, p, fmt.Sprintf("xdpcap: rx0 runs rewriting_target_program (id %s) instead of rewriting_target_program (id %s): ",
			systest.ProgramID(t, second), systest.ProgramID(t, first)))
	}
	systest.SendRound(t, pair)

	testnet.Must(t, at.Detach())
	exporter := len(processes) - 1
	left := fmt.Sprintf("xdpcap: rewriting_target_program (id %s) does not run on rx0 any more: rx0 runs no XDP program", systest.ProgramID(t, second))
	for i, p := range processes[:exporter] {
		status, stderr := p.Wait()
		if _, last, found := strings.Cut(stderr, left); status != 1 || !found || !strings.HasSuffix(last, "or add --listen, with which xdpcap waits for it\n") {
			t.Errorf("%s: exit status %d: %s", commands[i], status, stderr)
		}
	}
	want := 2 * uint64(len(systest.Answers))
	if r := systest.LastObject[systest.StatsReport](t, outputs[0]()); r.Total.Packets != want || r.Verdicts["pass"].Packets != 4 {
		t.Errorf("stats: %+v, want %d packets", r.VerdictRates, want)
	}
	if r := systest.LastObject[systest.CountReport](t, outputs[1]()); r.Total.Packets != want {
		t.Errorf("count: %+v, want %d packets", r.Total, want)
	}
	if r := systest.LastObject[systest.LatencyReport](t, outputs[2]()); r.Total.Runs != want || fmt.Sprint(r.ProgramID) != systest.ProgramID(t, second) {
		t.Errorf("latency: %+v of program %d, want %d runs", r.Total, r.ProgramID, want)
	}
	if r := systest.LastObject[systest.RuntimeReport](t, outputs[3]()); r.Runs != want || fmt.Sprint(r.ProgramID) != systest.ProgramID(t, second) {
		t.Errorf("kernel-stats: %+v, want %d runs", r, want)
	}

	p := processes[exporter]
	systest.WaitStderr(t, p, left)
	systest.WaitStderr(t, p, ": waiting for a program\n")
	err = pair.Rx.Do(func() (err error) {
		at, err = link.AttachXDP(link.XDPOptions{Program: systest.LoadDropping(t), Interface: pair.RxIndex, Flags: link.XDPDriverMode})
		return err
	})
	testnet.Must(t, err)
	systest.WaitStderr(t, p, "has no BTF") // and so cannot be traced
	at.Close()
	third := testnet.MustTarget(t, pair, testnet.Rewriting)
	systest.WaitStderr(t, p, fmt.Sprintf("(id %s) instead of ", systest.ProgramID(t, third)))
	systest.SendRound(t, pair)
	if text := systest.Scrape(t, pair, systest.MetricsURL(t, p)); !strings.Contains(text, `xdpcap_verdict_packets_total{interface="rx0",verdict="pass"} 6`) {
		t.Error(text)
	}
	p.Interrupt()
}

// Counting goes on for a program behind a dispatcher if the dispatcher is replaced and the program
// runs behind the new one.
func TestCountersDispatcherChanges(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	d := testnet.MustDispatcher(t, pair)
	names := testnet.DispatcherComponents
	id, err := d.ID(0)
	testnet.Must(t, err)
	run := func(args ...string) (*systest.Process, func() string) {
		return systest.Counting(t, pair, append(args, "-i", pair.RxName, "--interval", "1h", "--json")...)
	}
	whole, wholeOutput := run("stats")
	leaves, leavesOutput := run("count", "--program", fmt.Sprint(id))
	stays, staysOutput := run("stats", "--program", names[1])
	testnet.Send(t, pair, testnet.UDPFrame(100, 0))
	testnet.Must(t, d.Replace(1))
	const notice = "xdpcap: rx0 runs xdp_dispatcher (id "
	systest.WaitStderr(t, whole, notice)
	status, stderr := leaves.Wait()
	if want := fmt.Sprintf("xdpcap: %s (id %d) does not run on rx0 any more: ", names[0], id); status != 1 || !strings.Contains(stderr, want) {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	testnet.Send(t, pair, testnet.UDPFrame(100, 1))
	if stderr := stays.Interrupt(); strings.Contains(stderr, "any more") || strings.Contains(stderr, notice) {
		t.Error(stderr)
	}
	whole.Interrupt()
	for what, got := range map[string]uint64{
		"the dispatcher":                     systest.LastObject[systest.StatsReport](t, wholeOutput()).Verdicts["drop"].Packets,
		"the program that stays":             systest.LastObject[systest.StatsReport](t, staysOutput()).Verdicts["pass"].Packets,
		"the program that leaves, and later": systest.LastObject[systest.CountReport](t, leavesOutput()).Total.Packets + 1,
	} {
		if got != 2 {
			t.Errorf("%s: %d packets, want 2", what, got)
		}
	}
}

// If a libxdp dispatcher runs, --program selects one of its programs to count. Without it the
// dispatcher is counted, because its verdict applies to the packet. Counters that trace the
// dispatcher are not listed among its programs.
func TestCounterPrograms(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	d := testnet.MustDispatcher(t, pair)
	names := testnet.DispatcherComponents
	var all []string
	for i, name := range names {
		id, err := d.ID(i)
		testnet.Must(t, err)
		all = append(all, fmt.Sprintf("%s (id %d)", name, id))
	}
	last, err := d.ID(len(names) - 1)
	testnet.Must(t, err)
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
	systest.SendNumbered(t, pair, frames, 100)
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

// Flows are counted by the traced program's verdict, with the packets as they arrived: the program
// inserts a tag into packets that it passes. --verdict counts only packets with these verdicts.
func TestFlowVerdicts(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := testnet.MustTarget(t, pair, testnet.Rewriting)
	program, err := xdp.Identify(target.Program())
	testnet.Must(t, err)
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
		slices.SortFunc(r.Flows, func(a, b counters.FlowRate) int { return int(a.DestinationPort) - int(b.DestinationPort) })
		for _, f := range r.Flows {
			got += fmt.Sprintf(" %d/%s:%d", f.DestinationPort, f.Verdict, f.Packets)
		}
		if got != test.want || r.Total.Bytes != 100*r.Total.Packets || r.Program != program.Name || r.ProgramID != program.ID {
			t.Errorf("%s: %s, want %s; %+v", what, got, test.want, r)
		}
	}
}

// A command that exports and names no interface counts on all, also on later ones.
func TestAllInterfaces(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p, output := systest.Counting(t, pair, "stats", "--listen", "127.0.0.1:0", "--interval", "100ms", "--json")
	has := func(words string) bool {
		return strings.Contains(systest.Scrape(t, pair, systest.MetricsURL(t, p)), words)
	}
	const pass = `xdpcap_verdict_packets_total{interface="rx0",verdict="pass"} `
	systest.SendNumbered(t, pair, 3, 100)
	systest.WaitMetric(t, pair, p, pass+"3\n")
	late := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "late0", TxName: "late1"})
	testnet.WaitFor(t, "a new interface", func() bool { return has(`interface="late0"`) })
	systest.InRx(t, late, netlink.LinkDel)
	testnet.WaitFor(t, "the interface to go", func() bool { return !has(`interface="late0"`) })
	systest.SendNumbered(t, pair, 3, 100)
	systest.WaitMetric(t, pair, p, pass+"6\n")
	if has(`interface="lo"`) {
		t.Error("loopback is counted")
	}
	p.Interrupt()
	if last := systest.LastObject[systest.StatsReport](t, output()); last.Interface != "rx0" || last.Total.Packets != 6 {
		t.Errorf("%+v", last)
	}
	systest.CheckDetached(t, pair)
}

// A pattern counts on every interface with such a name, also on later ones, at tc where XDP would
// cost more. Commands about programs count only where one runs.
func TestCounterPatterns(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	systest.AddPair(t, pair, "other0", 1, 1)
	p, output := systest.Counting(t, pair, "count", "-i", "rx*", "-i", "la*", "--interval", "50ms")
	late := testnet.MustPair(t, testnet.PairOptions{Rx: pair.Rx, RxName: "late0", TxName: "late1"})
	testnet.WaitFor(t, "a new interface", func() bool { return strings.Contains(p.Stderr(), "listening on late0, received, tc") })
	systest.SendNumbered(t, pair, 3, 100)
	total := regexp.MustCompile(`(?m)^total +3 +300 `)
	testnet.WaitFor(t, "the packets", func() bool { return total.MatchString(output()) })
	p.Interrupt()
	if text := output(); !regexp.MustCompile(`(?s)\nand 1 idle\n.*\ntotal  rx0, .*total +3 +300 `).MatchString(text) || strings.Contains(text, "other0") {
		t.Error(text)
	}
	systest.CheckDetached(t, pair)

	file, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	testnet.Must(t, err)
	defer file.Close()
	p = systest.Start(t, pair.Rx, file, "latency", "--kernel-stats", "-i", "any", "--interval", "50ms")
	testnet.WaitFor(t, "the beginning", func() bool { return strings.Contains(p.Stderr(), "no XDP program to count yet: waiting for one") })
	testnet.MustReceiver(t, late, xdp.Pass, testnet.ReceiverOptions{Count: true})
	testnet.WaitFor(t, "the program", func() bool { return strings.Contains(p.Stderr(), "listening on late0") })
	systest.SendNumbered(t, late, 3, 100)
	p.Interrupt()
	text, err := os.ReadFile(file.Name())
	if all := p.Stderr() + string(text); err != nil || !strings.Contains(all, "\ntotal  late0, ") || strings.Contains(all, "rx0") {
		t.Error(err, all)
	}
}

// If a card's driver loses the program that counts, it is attached again, and its counters go on.
func TestDriverLosesCounter(t *testing.T) {
	t.Parallel()
	for command, total := range map[string]func(output string) uint64{
		"stats":          func(output string) uint64 { return systest.LastObject[systest.StatsReport](t, output).Total.Packets },
		"count --at xdp": func(output string) uint64 { return systest.LastObject[systest.CountReport](t, output).Total.Packets },
	} {
		t.Run(command, func(t *testing.T) {
			const before, after = 400, 50
			card := systest.MustLosingCard(t)
			p, output := systest.Counting(t, card.Pair, append(strings.Fields(command), "-i", "rx0", "--interval", "1h", "--json")...)
			card.Send(t, before, testnet.DropPort)
			missed := card.Lose(t, p, systest.Ways["down and up"])
			card.Send(t, after, testnet.DropPort)
			said := p.Interrupt()
			if n := total(output()); n < before+after || n+missed > card.Sent || strings.Count(said, "has seen none") != 1 {
				t.Errorf("%d sent, %d missed, %d counted: %s", card.Sent, missed, n, said)
			}
		})
	}
}
