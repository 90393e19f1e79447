package probe

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	filterebpf "github.com/xdpcap/xdpcap/filter/ebpf"
)

// companions are programs of the caller that run inside those of a session: first before the
// session's own code, and last after it.
type companions struct{ first, last []*ebpf.ProgramSpec }

func (c *companions) isNone() bool { return len(c.first)+len(c.last) == 0 }

// The functions of bpf/sampler.c that call companions.
const (
	firstStub = "run_first"
	lastStub  = "run_last"
)

// join puts the companions into a program.
func (c *companions) join(spec *ebpf.ProgramSpec) error {
	if err := joinAt(spec, firstStub, c.first); err != nil {
		return err
	}
	return joinAt(spec, lastStub, c.last)
}

// joinAt replaces the function `stub` of a program by calls of other programs, one after the other.
func joinAt(spec *ebpf.ProgramSpec, stub string, programs []*ebpf.ProgramSpec) error {
	if len(programs) == 0 {
		return nil
	}
	call := asm.Instructions{asm.Mov.Reg(asm.R6, asm.R1)}
	var bodies asm.Instructions
	for i, p := range programs {
		if p.Type != spec.Type || p.Type == ebpf.Tracing && p.AttachType != spec.AttachType {
			return fmt.Errorf("companion %s of program %s: it has type %v for %v, unlike the program", p.Name, spec.Name, p.Type, p.AttachType)
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

// asFunction returns the instructions of a program as a function of another program. The names of
// its functions get the prefix, so that they are unique there. The function is static, so that the
// verifier does not check its argument by type: Linux 6.1 cannot do that for a tracer's context.
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
		// If one function of a program has source lines, the kernel wants all to have them.
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
