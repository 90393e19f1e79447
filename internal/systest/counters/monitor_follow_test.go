package counters_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// When a program replaces one with the same name, its events are counted from then on. A program
// that was chosen by its id has no successor.
func TestMonitorFollows(t *testing.T) {
	t.Parallel()
	testnet.LeaveTo(t, "6.12")
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
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { prog.Close() })
		p, err := xdp.Identify(prog)
		if err != nil {
			t.Fatal(err)
		}
		return prog, p
	}
	prog, first := load()
	var at link.Link
	err := pair.Rx.Do(func() (err error) {
		at, err = link.AttachXDP(link.XDPOptions{Program: prog, Interface: pair.RxIndex, Flags: link.XDPDriverMode})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer at.Close()
	byName, nameOutput := systest.Counting(t, pair, "monitor", "--program", name, "--interval", "1h", "--json")
	here, hereOutput := systest.Counting(t, pair, "monitor", "--program", name, "-i", pair.RxName, "--interval", "1h", "--json")
	byID, idOutput := systest.Counting(t, pair, "monitor", "--program", fmt.Sprint(first.ID), "--interval", "1h", "--json")
	testnet.Send(t, pair, testnet.UDPFrame(100, 0), testnet.UDPFrame(100, 1), testnet.UDPFrame(100, 2))

	next, second := load()
	if err := at.Update(next); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*systest.Process{byName, here} {
		want := fmt.Sprintf("xdpcap: %v has replaced %v: now counting its events\n", second, first)
		testnet.WaitFor(t, "the word of the new program", func() bool { return strings.Contains(p.Said(), want) })
	}
	status, stderr := byID.Wait()
	if want := fmt.Sprintf("xdpcap: %v does not run any more: a program gets a new id when it is loaded again; ", first); status != 1 || !strings.Contains(stderr, want) {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	testnet.Send(t, pair, testnet.UDPFrame(100, 3), testnet.UDPFrame(100, 4))
	if err := at.Close(); err != nil {
		t.Fatal(err)
	}
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
		if len(r.Events) != 1 || r.Events[0].Count != test.want || r.Events[0].Reason != "aborted" {
			t.Errorf("%s: %+v, want %d aborted", what, r.Events, test.want)
		}
	}
}
