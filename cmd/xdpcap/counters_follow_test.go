package main_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A program that takes the place of the traced one is counted from then on, and the counters go on.
// When none runs any more, a command ends with everything that it counted, however long its
// interval is, and one that exports its counters waits for the next program.
func TestCountersFollow(t *testing.T) {
	testnet.LeaveTo(t, "6.1")
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	first := attachTarget(t, pair, testnet.Rewriting)
	commands := []string{"stats --json", "count --json", "latency --json", "latency --kernel-stats --json", "stats --listen 127.0.0.1:0"}
	var processes []*process
	var outputs []func() string
	for _, command := range commands {
		p, output := counting(t, pair, append(strings.Fields(command), "-i", pair.RxName, "--interval", "1h")...)
		processes, outputs = append(processes, p), append(outputs, output)
	}
	expect := func(p *process, words string) {
		t.Helper()
		testnet.WaitFor(t, "the words "+words, func() bool { return strings.Contains(p.said(), words) })
	}
	sendRound(t, pair)

	second, err := testnet.NewTarget(testnet.Rewriting)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	at := linkAt(t, pair)
	defer at.Close()
	if err := at.Update(second.Program()); err != nil {
		t.Fatal(err)
	}
	for _, p := range processes {
		expect(p, fmt.Sprintf("xdpcap: rx0 runs rewriting_target_program (id %s) instead of rewriting_target_program (id %s): ",
			programID(t, second), programID(t, first)))
	}
	sendRound(t, pair)

	if err := at.Detach(); err != nil {
		t.Fatal(err)
	}
	exporter := len(processes) - 1
	left := fmt.Sprintf("xdpcap: rewriting_target_program (id %s) does not run on rx0 any more: rx0 runs no XDP program", programID(t, second))
	for i, p := range processes[:exporter] {
		status, stderr := p.wait()
		if _, last, found := strings.Cut(stderr, left); status != 1 || !found || !strings.HasSuffix(last, "or add --listen, with which xdpcap waits for it\n") {
			t.Errorf("%s: exit status %d: %s", commands[i], status, stderr)
		}
	}
	want := 2 * uint64(len(answers))
	if r := lastObject[statsReport](t, outputs[0]()); r.Total.Packets != want || r.Verdicts["pass"].Packets != 4 {
		t.Errorf("stats: %+v, want %d packets", r.VerdictRates, want)
	}
	if r := lastObject[countReport](t, outputs[1]()); r.Total.Packets != want {
		t.Errorf("count: %+v, want %d packets", r.Total, want)
	}
	if r := lastObject[latencyReport](t, outputs[2]()); r.Total.Runs != want || fmt.Sprint(r.ProgramID) != programID(t, second) {
		t.Errorf("latency: %+v of program %d, want %d runs", r.Total, r.ProgramID, want)
	}
	if r := lastObject[runtimeReport](t, outputs[3]()); r.Runs != want || fmt.Sprint(r.ProgramID) != programID(t, second) {
		t.Errorf("kernel-stats: %+v, want %d runs", r, want)
	}

	p := processes[exporter]
	expect(p, left)
	expect(p, ": waiting for a program\n")
	err = pair.Rx.Do(func() (err error) {
		at, err = link.AttachXDP(link.XDPOptions{Program: loadDropping(t), Interface: pair.RxIndex, Flags: link.XDPDriverMode})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	expect(p, "has no BTF") // and so it cannot be traced
	at.Close()
	third := attachTarget(t, pair, testnet.Rewriting)
	expect(p, fmt.Sprintf("(id %s) instead of ", programID(t, third)))
	sendRound(t, pair)
	_, after, _ := strings.Cut(p.said(), "metrics at ")
	url, _, _ := strings.Cut(after, "\n")
	if text := scrape(t, pair, url); !strings.Contains(text, `xdpcap_verdict_packets_total{interface="rx0",verdict="pass"} 6`) {
		t.Error(text)
	}
	p.interrupt()
}

// Counting goes on for a program behind a dispatcher when the dispatcher is replaced and the
// program runs behind the new one.
func TestCountersDispatcherChanges(t *testing.T) {
	testnet.LeaveTo(t, "6.12")
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	d := testnet.MustDispatcher(t, pair)
	names := testnet.DispatcherComponents
	id, err := d.ID(0)
	if err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (*process, func() string) {
		return counting(t, pair, append(args, "-i", pair.RxName, "--interval", "1h", "--json")...)
	}
	whole, wholeOutput := run("stats")
	leaves, leavesOutput := run("count", "--program", fmt.Sprint(id))
	stays, staysOutput := run("stats", "--program", names[1])
	testnet.Send(t, pair, testnet.UDPFrame(100, 0))
	if err := d.Replace(1); err != nil {
		t.Fatal(err)
	}
	const notice = "xdpcap: rx0 runs xdp_dispatcher (id "
	testnet.WaitFor(t, "the word of the new dispatcher", func() bool { return strings.Contains(whole.said(), notice) })
	status, stderr := leaves.wait()
	if want := fmt.Sprintf("xdpcap: %s (id %d) does not run on rx0 any more: ", names[0], id); status != 1 || !strings.Contains(stderr, want) {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	testnet.Send(t, pair, testnet.UDPFrame(100, 1))
	if stderr := stays.interrupt(); strings.Contains(stderr, "any more") || strings.Contains(stderr, notice) {
		t.Error(stderr)
	}
	whole.interrupt()
	for what, got := range map[string]uint64{
		"the dispatcher":                     lastObject[statsReport](t, wholeOutput()).Verdicts["drop"].Packets,
		"the program that stays":             lastObject[statsReport](t, staysOutput()).Verdicts["pass"].Packets,
		"the program that leaves, and later": lastObject[countReport](t, leavesOutput()).Total.Packets + 1,
	} {
		if got != 2 {
			t.Errorf("%s: %d packets, want 2", what, got)
		}
	}
}
