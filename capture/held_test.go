package capture

import (
	"runtime"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	filterebpf "github.com/xdpcap/xdpcap/filter/ebpf"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A heldHook is an XDP program that one packet goes through, and that its filter holds up for
// long, while the session ends.
type heldHook struct {
	stillHook
	t       *testing.T
	program *ebpf.Program
	sampler *probe.Sampler
	ended   chan error // what running the program came to
}

func (h *heldHook) Load(k *probe.Sampler, slot, number uint32) error {
	h.sampler = k
	var err error
	h.program, err = k.Load(probe.Loading{
		Name: kernel.SamplerProgXdpcapXdp, Slot: slot, Number: number,
		Own:    probe.Constants{kernel.SamplerVarVerdict: uint32(Pass), kernel.SamplerVarFiltering: true},
		Adjust: func(spec *ebpf.ProgramSpec) { must(h.t, filterebpf.Inline(spec, "filter", slowFilter())) },
	})
	return err
}

// Attach returns when the program is at work, on another CPU than the session.
func (h *heldHook) Attach() error {
	program, err := h.program.Clone() // the session closes its own meanwhile
	if err != nil {
		return err
	}
	go func() {
		defer program.Close()
		h.ended <- machine.Quiet(1, func() error {
			_, err := program.Run(&ebpf.RunOptions{Data: packetOf(60, 0)})
			return err
		})
	}()
	testnet.WaitFor(h.t, "the program to run", func() bool {
		counted, err := h.sampler.Counted(0)
		return err != nil || counted.Seen == 1
	})
	return nil
}

func (h *heldHook) Close() error { return h.program.Close() }

// slowFilter matches after it has asked for the time a million times, which takes 20 ms and more.
func slowFilter() asm.Instructions {
	integer := &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}
	callback := &btf.Func{Name: "ask", Linkage: btf.StaticFunc, Type: &btf.FuncProto{Return: integer}}
	function := asm.Instruction{OpCode: asm.LoadImmOp(asm.DWord), Dst: asm.R2, Src: asm.PseudoFunc, Constant: -1}
	return asm.Instructions{
		asm.Mov.Imm(asm.R1, 1<<20),
		function.WithReference("ask"),
		asm.Mov.Imm(asm.R3, 0),
		asm.Mov.Imm(asm.R4, 0),
		asm.FnLoop.Call(),
		asm.Mov.Imm(asm.R0, 1),
		asm.Return(),
		btf.WithFuncMetadata(asm.FnKtimeGetNs.Call().WithSymbol("ask").WithSource(asm.Comment("ask")), callback),
		asm.Mov.Imm(asm.R0, 0),
		asm.Return(),
	}
}

// A packet that a program still works on when the session ends is in the account, and is captured.
func TestHeldUp(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU cannot hold up a program and end the session at the same time")
	}
	o, err := Options{Interfaces: []string{"unused"}}.withDefaults()
	must(t, err)
	held := &heldHook{t: t, ended: make(chan error, 1)}
	var accounts []Accounts
	err = machine.Quiet(0, func() error {
		s, err := open(o, []probe.Hook{held}, ring.New)
		if err != nil {
			return err
		}
		s.Stop()
		accounts, err = s.Run(t.Context(), new(memory))
		return err
	})
	must(t, err)
	if err := <-held.ended; err != nil {
		t.Error(err)
	}
	if want := (Account{Seen: 1, Captured: 1, Bytes: 60}); accounts[0][0] != want {
		t.Errorf("the account %+v, want %+v", accounts[0][0], want)
	}
}
