package probe

import (
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
)

// What cannot be a companion is refused before it is loaded.
func TestCompanionsRefused(t *testing.T) {
	t.Parallel()
	program := func(change func(*ebpf.ProgramSpec)) companions {
		spec := &ebpf.ProgramSpec{Name: "p", Type: ebpf.XDP, Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 0).WithSymbol("p"), asm.Return()}}
		change(spec)
		return companions{first: []*ebpf.ProgramSpec{spec}}
	}
	last := program(func(*ebpf.ProgramSpec) {})
	last.first, last.last = nil, last.first
	for name, c := range map[string]struct {
		with companions
		want string
	}{
		"type":    {program(func(p *ebpf.ProgramSpec) { p.Type = ebpf.SchedCLS }), "it has type SchedCLS"},
		"nothing": {program(func(p *ebpf.ProgramSpec) { p.Instructions = nil }), "it does not begin with a function"},
		"map": {program(func(p *ebpf.ProgramSpec) {
			p.Instructions[0] = asm.LoadMapPtr(asm.R1, 0).WithReference("flows").WithSymbol("p")
		}), "instruction 0 has no map for flows"},
		"no place": {last, "no such function"},
	} {
		spec, err := kernel.LoadSampler()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.with.join(spec.Programs[kernel.SamplerProgXdpcapXdp]); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// fexit is detached before fentry. If it were attached alone, it would record a packet by what
// fentry had decided about an earlier one.
func TestTracersEnd(t *testing.T) {
	t.Parallel()
	h := &TraceHook{fentry: new(ebpf.Program), fexit: new(ebpf.Program)}
	if all := h.Tracers(); len(all) != 2 || all[0] != h.fexit || all[1] != h.fentry {
		t.Errorf("they are attached and detached in another order: %v", all)
	}
}
