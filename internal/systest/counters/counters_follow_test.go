package counters_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A program that takes the place of the traced one is counted from then on, and the counters go on.
// When none runs any more, a command ends with everything that it counted, however long its
// interval is, and one that exports its counters waits for the next program.
func TestCountersFollow(t *testing.T) {
	t.Parallel()
	testnet.LeaveTo(t, "6.1")
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	first := systest.AttachTarget(t, pair, testnet.Rewriting)
	commands := []string{"stats --json", "count --json", "latency --json", "latency --kernel-stats --json", "stats --listen 127.0.0.1:0"}
	var processes []*systest.Process
	var outputs []func() string
	for _, command := range commands {
		p, output := systest.Counting(t, pair, append(strings.Fields(command), "-i", pair.RxName, "--interval", "1h")...)
		processes, outputs = append(processes, p), append(outputs, output)
	}
	expect := func(p *systest.Process, words string) {
		t.Helper()
		testnet.WaitFor(t, "the words "+words, func() bool { return strings.Contains(p.Said(), words) })
	}
	systest.SendRound(t, pair)

	second, err := testnet.NewTarget(testnet.Rewriting)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	at := systest.LinkAt(t, pair)
	defer at.Close()
	if err := at.Update(second.Program()); err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		expect(p, fmt.Sprintf("xdpcap: rx0 runs rewriting_target_program (id %s) instead of rewriting_target_program (id %s): ",
			systest.ProgramID(t, second), systest.ProgramID(t, first)))
	}
	systest.SendRound(t, pair)

	if err := at.Detach(); err != nil {
		t.Fatal(err)
	}
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
	expect(p, left)
	expect(p, ": waiting for a program\n")
	err = pair.Rx.Do(func() (err error) {
		at, err = link.AttachXDP(link.XDPOptions{Program: systest.LoadDropping(t), Interface: pair.RxIndex, Flags: link.XDPDriverMode})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(p, "has no BTF") // and so it cannot be traced
	at.Close()
	third := systest.AttachTarget(t, pair, testnet.Rewriting)
	expect(p, fmt.Sprintf("(id %s) instead of ", systest.ProgramID(t, third)))
	systest.SendRound(t, pair)
	url := systest.MetricsURL(t, p)
	if text := systest.Scrape(t, pair, url); !strings.Contains(text, `xdpcap_verdict_packets_total{interface="rx0",verdict="pass"} 6`) {
		t.Error(text)
	}
	p.Interrupt()
}

// Counting goes on for a program behind a dispatcher when the dispatcher is replaced and the
// program runs behind the new one.
func TestCountersDispatcherChanges(t *testing.T) {
	t.Parallel()
	testnet.LeaveTo(t, "6.12")
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	d := testnet.MustDispatcher(t, pair)
	names := testnet.DispatcherComponents
	id, err := d.ID(0)
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (*systest.Process, func() string) {
		return systest.Counting(t, pair, append(args, "-i", pair.RxName, "--interval", "1h", "--json")...)
	}
	whole, wholeOutput := run("stats")
	leaves, leavesOutput := run("count", "--program", fmt.Sprint(id))
	stays, staysOutput := run("stats", "--program", names[1])
	testnet.Send(t, pair, testnet.UDPFrame(100, 0))
	if err := d.Replace(1); err != nil {
		t.Fatal(err)
	}
	const notice = "xdpcap: rx0 runs xdp_dispatcher (id "
	testnet.WaitFor(t, "the word of the new dispatcher", func() bool { return strings.Contains(whole.Said(), notice) })
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
