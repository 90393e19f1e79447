package counters_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/cli/counters"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The real command counts the events on its interface, and SIGINT prints the totals.
func TestMonitor(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	receiver := testnet.MustReceiver(t, pair, xdp.Aborted, testnet.ReceiverOptions{Count: true})
	id, err := receiver.ID()
	testnet.Must(t, err)
	tables, objects := systest.NewPipe(t), systest.NewPipe(t)
	p := systest.Listening(t, pair.Rx, tables.In, "monitor", "-i", pair.RxName, "-v", "--interval", "100ms")
	q := systest.Listening(t, pair.Rx, objects.In, "monitor", "--program", fmt.Sprint(id), "-i", pair.RxName, "--json")
	const sent = 50
	testnet.Send(t, pair, slices.Repeat([][]byte{testnet.UDPFrame(100, 0)}, sent)...)
	if stderr := p.Interrupt(); !strings.Contains(stderr, "listening on xdp tracepoints of rx0") {
		t.Error(stderr)
	}
	q.Interrupt()
	_, totals, ok := strings.Cut(tables.Read(t), "total  xdp tracepoints of rx0, over ")
	if !ok || !strings.Contains(totals, "XDP_ABORTED rx0 [50]") {
		t.Errorf("totals %q", totals)
	}
	last := systest.LastObject[systest.MonitorReport](t, objects.Read(t))
	if len(last.Events) != 1 || last.Events[0].Events != sent || last.Events[0].Drops != sent || last.Interface != "rx0" || last.Program == 0 {
		t.Errorf("%+v", last)
	}
}

// --record prints this many events and ends by itself, or without a number goes on until it is
// stopped.
func TestMonitorRecord(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustReceiver(t, pair, xdp.Aborted, testnet.ReceiverOptions{})
	lines, objects, none := systest.NewPipe(t), systest.NewPipe(t), systest.NewPipe(t)
	text := systest.Listening(t, pair.Rx, lines.In, "monitor", "-i", pair.RxName, "--record", "3")
	asJSON := systest.Listening(t, pair.Rx, objects.In, "monitor", "-i", pair.RxName, "--record", "3", "--json")
	more := systest.Listening(t, pair.Rx, none.In, "monitor", "--record", "-i", pair.RxName)
	systest.StopProcess(t, more) // it also prints events that it had not printed when it was interrupted
	systest.SendNumbered(t, pair, 5, 100)
	more.Cmd.Process.Signal(os.Interrupt)
	systest.ContinueProcess(t, more)
	for _, p := range []*systest.Process{text, asJSON} {
		if status, stderr := p.Wait(); status != 0 || strings.Count(stderr, "\n") != 1 {
			t.Errorf("exit status %d: %s", status, stderr)
		}
	}
	if status, stderr := more.Wait(); status != 0 {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	if n := strings.Count(none.Read(t), "\n"); n != 5 {
		t.Errorf("%d lines of 5 events", n)
	}
	got := strings.Split(strings.TrimSpace(lines.Read(t)), "\n")
	if len(got) != 3 || !strings.Contains(got[0], " xdp_exception XDP_ABORTED rx0 verdict 0 program ") {
		t.Errorf("%q", got)
	}
	all := systest.Objects[systest.RecordLine](t, objects.Read(t))
	if len(all) != 3 {
		t.Errorf("%d objects of 3 events", len(all))
	}
	for _, l := range all {
		if time.Since(l.Time).Abs() > testnet.Patience || l.Program == 0 || l.Verdict == nil || *l.Verdict != 0 {
			t.Errorf("%+v", l)
		}
		l.Time, l.CPU, l.Program, l.Verdict = time.Time{}, 0, 0, nil
		want := systest.RecordLine{EventCase: counters.EventCase{Event: "xdp_exception", Reason: "aborted", From: "rx0"}, Drops: 1}
		if diff := cmp.Diff(want, l, cmp.AllowUnexported(systest.RecordLine{})); diff != "" {
			t.Error(diff)
		}
	}
}

// When a program replaces another of the same name, its events are counted from then on. A program
// that was selected by its id has no successor.
func TestMonitorFollows(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	name := fmt.Sprintf("m%d", os.Getpid()) // no other program on this machine has it
	load := func() (*ebpf.Program, xdp.Program) {
		t.Helper()
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Name:         name,
			Type:         ebpf.XDP,
			AttachType:   ebpf.AttachXDP,
			Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, int32(xdp.Aborted)), asm.Return()},
		})
		testnet.Must(t, err)
		t.Cleanup(func() { prog.Close() })
		p, err := xdp.Identify(prog)
		testnet.Must(t, err)
		return prog, p
	}
	prog, first := load()
	var at link.Link
	testnet.Must(t, pair.Rx.Do(func() (err error) {
		at, err = link.AttachXDP(link.XDPOptions{Program: prog, Interface: pair.RxIndex, Flags: link.XDPDriverMode})
		return err
	}))
	defer at.Close()
	byName, nameOutput := systest.Counting(t, pair, "monitor", "--program", name, "--interval", "1h", "--json")
	here, hereOutput := systest.Counting(t, pair, "monitor", "--program", name, "-i", pair.RxName, "--interval", "1h", "--json")
	byID, idOutput := systest.Counting(t, pair, "monitor", "--program", fmt.Sprint(first.ID), "--interval", "1h", "--json")
	testnet.Send(t, pair, testnet.UDPFrame(100, 0), testnet.UDPFrame(100, 1), testnet.UDPFrame(100, 2))

	next, second := load()
	testnet.Must(t, at.Update(next))
	for _, p := range []*systest.Process{byName, here} {
		systest.WaitStderr(t, p, fmt.Sprintf("xdpcap: %v has replaced %v: now counting its events\n", second, first))
	}
	status, stderr := byID.Wait()
	if want := fmt.Sprintf("xdpcap: %v does not run any more: a program gets a new id when it is loaded again; ", first); status != 1 || !strings.Contains(stderr, want) {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	testnet.Send(t, pair, testnet.UDPFrame(100, 3), testnet.UDPFrame(100, 4))
	testnet.Must(t, at.Close())
	for _, p := range []*systest.Process{byName, here} {
		status, stderr := p.Wait()
		if want := fmt.Sprintf("xdpcap: %v does not run any more: ", second); status != 1 || !strings.Contains(stderr, want) {
			t.Errorf("exit status %d: %s", status, stderr)
		}
	}
	for what, test := range map[string]struct {
		output string
		want   uint64
	}{
		"by name":           {nameOutput(), 5},
		"on this interface": {hereOutput(), 5},
		"by id":             {idOutput(), 3},
	} {
		r := systest.LastObject[systest.MonitorReport](t, test.output)
		if len(r.Events) != 1 || r.Events[0].Events != test.want || r.Events[0].Reason != "aborted" {
			t.Errorf("%s: %+v, want %d aborted", what, r.Events, test.want)
		}
	}
}
