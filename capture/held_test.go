package capture

import (
	"runtime"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/ring"
	filterebpf "github.com/xdpcap/xdpcap/filter/ebpf"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A heldHook is an XDP program that one packet goes through, and that its filter holds up for
// long, while the session ends.
type heldHook struct {
	interfaceHook
	t       *testing.T
	sampler *sampler
	ended   chan error // what running the program came to
}

func (h *heldHook) load(k *sampler, first, index uint32) error {
	h.sampler = k
	p, err := k.load(loading{
		name: kernel.SamplerProgXdpcapXdp, first: first, index: index,
		own:    constants{kernel.SamplerVarVerdict: uint32(Pass), kernel.SamplerVarFiltering: true},
		adjust: func(spec *ebpf.ProgramSpec) { must(h.t, filterebpf.Inline(spec, "filter", slowFilter())) },
	})
	if err != nil {
		return err
	}
	return h.take(p)
}

// attach returns when the program is at work, on another CPU than the session.
func (h *heldHook) attach() error {
	program, err := h.programs[0].Clone() // the session closes its own meanwhile
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
		accounts, err := h.sampler.accounts()
		return err != nil || accounts[0].Seen == 1
	})
	return nil
}

// check finds nothing, because the program is at no interface.
func (h *heldHook) check() error { return nil }

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
		s, err := open(o, []hook{held}, ring.New)
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
