package capture

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	filterebpf "github.com/xdpcap/xdpcap/filter/ebpf"
)

// Companions are BPF programs of the caller's that run within those of a session, for every packet
// of a source, also for one that is filtered out or not sampled: where an interface has room for
// one program only, they count there beside a capture. They get what a program of their type gets,
// and what they return is ignored. Their type is that of the hook's program: ebpf.XDP at XDP,
// ebpf.SchedCLS at Egress, ebpf.Tracing at Entry and Exit, with AttachTraceFEntry and
// AttachTraceFExit.
//
// Each of their instructions that loads from a map has it: see asm.Instruction.AssociateMap. The
// maps stay the caller's, and once Session.Run has returned they do not change any more. Two
// companions may have functions of the same name.
type Companions struct {
	// First run before anything else is done with a packet. At Exit they run for every packet of
	// the traced program, whose entry may not have been seen.
	First []*ebpf.ProgramSpec

	// Last run when everything else is done. There are none at XDP and Egress. At Exit they run for
	// the packets whose entry was seen, as the account of the source has them.
	Last []*ebpf.ProgramSpec
}

func (c *Companions) isNone() bool { return len(c.First)+len(c.Last) == 0 }

// program chooses between a program of bpf/sampler.c and its twin that has companions.
func (c *Companions) program(sample, count string) string {
	if c.isNone() {
		return sample
	}
	return count
}

// The functions of bpf/sampler.c that call companions.
const (
	firstStub = "run_first"
	lastStub  = "run_last"
)

// join puts the companions into a program.
func (c *Companions) join(spec *ebpf.ProgramSpec) error {
	if err := joinAt(spec, firstStub, c.First); err != nil {
		return err
	}
	return joinAt(spec, lastStub, c.Last)
}

// joinAt lets a function of a program call other programs, one after the other.
func joinAt(spec *ebpf.ProgramSpec, stub string, programs []*ebpf.ProgramSpec) error {
	if len(programs) == 0 {
		return nil
	}
	call := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	var bodies asm.Instructions
	for i, p := range programs {
		if p.Type != spec.Type || p.Type == ebpf.Tracing && p.AttachType != spec.AttachType {
			return fmt.Errorf("companion %s of program %s: it is a program of type %v for %v", p.Name, spec.Name, p.Type, p.AttachType)
		}
		body, err := asFunction(p, fmt.Sprintf("%s%d.", stub, i))
		if err != nil {
			return fmt.Errorf("companion %s of program %s: %w", p.Name, spec.Name, err)
		}
		call = append(call, asm.Mov.Reg(asm.R1, asm.R6), asm.Call.Label(body[0].Symbol()))
		bodies = append(bodies, body...)
	}
	call = append(call, asm.Mov.Imm(asm.R0, 0), asm.Return())
	if err := filterebpf.Replace(spec, stub, call); err != nil {
		return err
	}
	spec.Instructions = append(spec.Instructions, bodies...)
	return nil
}

// asFunction returns the instructions of a program as a function of another one. A prefix tells its
// functions from those of others. It becomes a static function, whose argument the verifier does
// not check by its type, which for the context of a tracer Linux 6.1 could not.
func asFunction(p *ebpf.ProgramSpec, prefix string) (asm.Instructions, error) {
	body := slices.Clone(p.Instructions)
	if len(body) == 0 || body[0].Symbol() == "" {
		return nil, fmt.Errorf("it does not begin with a function")
	}
	for i := range body {
		ins := &body[i]
		if ins.IsLoadFromMap() {
			if name := ins.Reference(); name != "" {
				return nil, fmt.Errorf("instruction %d has no map for %s", i, name)
			}
			continue
		}
		if name := ins.Symbol(); name != "" {
			*ins = ins.WithSymbol(prefix + name)
		}
		if to := ins.Reference(); to != "" {
			*ins = ins.WithReference(prefix + to)
		}
		// Where one function of a program tells its source lines, the kernel wants all to.
		if f := btf.FuncMetadata(ins); f != nil && ins.Source() == nil {
			*ins = ins.WithSource(asm.Comment(f.Name))
		}
	}
	if f := btf.FuncMetadata(&body[0]); f != nil {
		static := *f
		static.Linkage = btf.StaticFunc
		body[0] = btf.WithFuncMetadata(body[0], &static)
	}
	return body, nil
}
