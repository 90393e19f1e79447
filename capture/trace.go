package capture

import (
	"io"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// addTracers adds fentry and, where exits are wanted, fexit on a running program. fentry decides for both and is
// therefore attached last and detached first: every exit that is recorded had its entry.
func (k *sampler) addTracers(p plan, passage uint32) error {
	entry, exit := slices.Contains(p.hooks, Entry), slices.Contains(p.hooks, Exit)
	c := constants{
		samplerVarPassage:        passage,
		samplerVarTracedIfindex:  uint32(p.ifi.Index),
		samplerVarDecidingAtExit: k.options.FilterAtExit,
		samplerVarRecordingEntry: entry,
	}
	// The order of the sources is that of a packet's way; the programs' is the other way round.
	sources := uint32(len(k.sources))
	if entry {
		k.sources = append(k.sources, Interface{Interface: p.ifi, Hook: Entry, Traced: p.target.Program})
	}
	tracer, err := k.loadTracer(samplerProgSampleFentry, p, c, sources)
	if err != nil {
		return err
	}
	if entry {
		sources++
		if err := k.name(tracer.prog); err != nil {
			return err
		}
	}
	if exit {
		k.sources = append(k.sources, Interface{Interface: p.ifi, Hook: Exit, Traced: p.target.Program})
		last, err := k.loadTracer(samplerProgSampleFexit, p, c, sources)
		if err != nil {
			tracer.prog.Close()
			return err
		}
		k.programs = append(k.programs, last)
		if err := k.name(last.prog); err != nil {
			tracer.prog.Close()
			return err
		}
	}
	k.programs = append(k.programs, tracer)
	return nil
}

func (k *sampler) loadTracer(name string, p plan, c constants, source uint32) (program, error) {
	c[samplerVarSource] = source
	spec := k.spec.Copy()
	spec.Programs[name].AttachTarget = p.target.Prog
	spec.Programs[name].AttachTo = p.target.Function
	f := p.filter
	if k.options.FilterAtExit != (name == samplerProgSampleFexit) {
		f = code{} // the other one filters
	}
	prog, err := k.load(spec, name, c, f)
	if err != nil {
		return program{}, support.ExplainTracer(err, p.target.Program)
	}
	return program{prog: prog, attach: func(prog *ebpf.Program) (io.Closer, error) {
		l, err := xdp.AttachTracer(prog)
		if err != nil {
			return nil, support.ExplainTracer(err, p.target.Program)
		}
		return l, nil
	}}, nil
}

// verdictBits is the program's mask: a bit for each verdict, the last one for all that are beyond.
func verdictBits(verdicts []Verdict) uint64 {
	if len(verdicts) == 0 {
		return ^uint64(0)
	}
	var mask uint64
	for _, v := range verdicts {
		mask |= 1 << min(v, 63)
	}
	return mask
}
