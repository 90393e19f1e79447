package replay

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// newTarget loads a program of testdata/target.c.
func newTarget(t *testing.T, kind testnet.TargetKind) (*testnet.Target, *Program) {
	t.Helper()
	testnet.RequireRoot(t)
	target, err := testnet.NewTarget(kind)
	must(t, err)
	t.Cleanup(func() { target.Close() })
	return target, of(t, target.Program())
}

// of describes a loaded program.
func of(t *testing.T, prog *ebpf.Program) *Program {
	t.Helper()
	named, err := xdp.Identify(prog)
	must(t, err)
	return &Program{Kernel: prog, Named: named, IsShared: true}
}

// A program is measured by its verdicts, and its maps change. Packets that it changes are only
// measured in single runs, each with the original packet.
func TestMeasure(t *testing.T) {
	t.Parallel()
	target, p := newTarget(t, testnet.Rewriting)
	packets := [][]byte{
		udpTo(9999, 64), udpTo(testnet.DropPort, 64), udpTo(testnet.DropPort, 1500), udpTo(testnet.UnknownPort, 64),
		udpTo(9999, 9000), // in several buffers
	}
	b, err := Measure(t.Context(), MeasureOptions{Program: p, Packets: packets, Duration: 20 * time.Millisecond})
	must(t, err)
	type cost struct{ packets, changed, repeated int }
	want := [xdp.VerdictSlots]cost{xdp.Pass: {2, 2, 0}, xdp.Drop: {2, 0, 2}, xdp.UnknownVerdict: {1, 0, 1}}
	for v, c := range b.Verdicts {
		if got := (cost{c.Packets, c.Changed, c.Repeated}); got != want[v] {
			t.Errorf("%s: %+v, want %+v", xdp.Verdict(v).SlotName(), got, want[v])
		}
	}
	if got := (cost{b.Total.Packets, b.Total.Changed, b.Total.Repeated}); got != (cost{5, 2, 3}) {
		t.Errorf("%+v", got)
	}
	counted, err := target.Verdicts()
	must(t, err)
	if counted[xdp.Drop] < 2000 || counted[xdp.Pass] < 2 || counted[xdp.Redirect] > 0 {
		t.Errorf("the program counted %v", counted)
	}
}

// A program that leaves the first packets unchanged and changes all later ones has no figures of
// repeated runs, because most runs had a changed packet.
func TestMeasureChangesLater(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	runs, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	must(t, err)
	defer runs.Close()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "later", Type: ebpf.XDP, License: "Dual BSD/GPL", Instructions: asm.Instructions{
		asm.Mov.Reg(asm.R6, asm.R1),
		asm.StoreImm(asm.RFP, -4, 0, asm.Word),
		asm.LoadMapPtr(asm.R1, runs.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, -4),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
		asm.Add.Imm(asm.R1, 1),
		asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
		asm.JLT.Imm(asm.R1, 10, "pass"),
		asm.LoadMem(asm.R2, asm.R6, 0, asm.Word), // data
		asm.LoadMem(asm.R3, asm.R6, 4, asm.Word), // data_end
		asm.Mov.Reg(asm.R4, asm.R2),
		asm.Add.Imm(asm.R4, 14),
		asm.JGT.Reg(asm.R4, asm.R3, "pass"),
		asm.StoreImm(asm.R2, 0, 0x55, asm.Byte),
		asm.Mov.Imm(asm.R0, int32(xdp.Pass)).WithSymbol("pass"),
		asm.Return(),
	}})
	must(t, err)
	defer prog.Close()
	p := of(t, prog)
	b, err := Measure(t.Context(), MeasureOptions{Program: p, Packets: [][]byte{make([]byte, 64)}, Duration: 20 * time.Millisecond})
	must(t, err)
	if c := b.Total; c.Packets != 1 || c.Changed != 1 || c.Repeated != 0 {
		t.Errorf("%+v", c)
	}
}

// A program that counts costs more than an empty one, on the packets that --measure uses by
// default.
func TestMeasureOwnPackets(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	receiver := testnet.MustReceiver(t, pair, xdp.Pass, testnet.ReceiverOptions{Count: true})
	p := of(t, receiver.Program())
	b, err := Measure(t.Context(), MeasureOptions{Program: p, Duration: 100 * time.Millisecond})
	must(t, err)
	if c := b.Total; c.Packets != len(commonPackets()) || c.Changed > 0 || c.Repeated != c.Packets || c != b.Verdicts[xdp.Pass] {
		t.Errorf("%+v", c)
	}
	// The times of an empty program are subtracted. On a busy machine the result can be negative.
	if c := b.Total; !testnet.Emulated() && (c.Ns == 0 || c.OnceNs == 0) { // where times say nothing
		t.Errorf("%+v", c)
	}
	t.Logf("%+v", b.Total)
}

// The kernel does not run programs for entries of maps in this way; the error names the program.
func TestMeasureRefused(t *testing.T) {
	t.Parallel()
	for _, kind := range []testnet.TargetKind{testnet.InDevmap, testnet.InCPUMap} {
		_, p := newTarget(t, kind)
		_, err := Measure(t.Context(), MeasureOptions{Program: p, Duration: time.Millisecond})
		if !errors.Is(err, errNotRunnable) || !strings.Contains(err.Error(), p.String()) {
			t.Error(err)
		}
	}
	_, p := newTarget(t, testnet.Rewriting)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Measure(ctx, MeasureOptions{Program: p, Duration: time.Millisecond}); err == nil {
		t.Error("stopped, and no error")
	}
}
