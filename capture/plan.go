package capture

import (
	"fmt"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	filterebpf "github.com/xdpcap/xdpcap/filter/ebpf"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A plan is what a session does on one interface: a program of its own, or tracers of one that runs there.
type plan struct {
	ifi    xdp.Interface
	hooks  []Hook      // the sources to make
	target *xdp.Target // nil = a program of our own
	filter code
}

// code is a filter for one way of looking at packets; none is the zero value.
type code struct {
	stub   string // the function in whose place it is put
	body   asm.Instructions
	reach  int  // how much of a packet it may ask for, where it gets a copy
	length bool // whether it asks for a packet's length
}

// plan decides for each interface how to capture there. filters are by interface, nil = every packet. The
// plans are to be closed also after an error.
func (o Options) plan(ifis []xdp.Interface, filters [][]bpf.RawInstruction) (plans []plan, err error) {
	for i, ifi := range ifis {
		if o.HookMap != "" {
			plans = append(plans, plan{ifi: ifi, hooks: []Hook{TailCall}})
		} else if len(ifi.Programs) == 0 && len(o.Hooks) == 0 && len(o.Programs) == 0 {
			plans = append(plans, plan{ifi: ifi, hooks: []Hook{XDP}})
		} else {
			traces, err := o.planTraces(ifi)
			plans = append(plans, traces...)
			if err != nil {
				return plans, err
			}
		}
		for p := range plans {
			if plans[p].ifi.Index == ifi.Index && filters[i] != nil {
				if err := plans[p].translate(filters[i]); err != nil {
					return plans, err
				}
			}
		}
	}
	return plans, nil
}

func (o Options) planTraces(ifi xdp.Interface) ([]plan, error) {
	if o.Sink || o.Mode != Auto {
		return nil, fmt.Errorf("%s is captured by tracing the XDP program that runs there: neither a sink nor an XDP mode "+
			"can be had (--sink, --xdp-mode)", ifi.Name)
	}
	hooks := o.Hooks
	if len(hooks) == 0 {
		hooks = []Hook{Entry}
	}
	targets, err := xdp.Targets(ifi, o.Programs)
	if err != nil {
		return nil, err
	}
	var plans []plan
	for i := range targets {
		plans = append(plans, plan{ifi: ifi, hooks: hooks, target: &targets[i]})
	}
	return plans, nil
}

func (p *plan) translate(prog []bpf.RawInstruction) (err error) {
	const most = int(samplerLimitHEAD_BYTES)
	f := code{stub: "filter", length: filter.ReadsLength(prog)}
	if p.target == nil {
		f.body, err = filterebpf.Translate(prog)
	} else {
		f.stub, f.reach = "filter_head", min(filter.Reach(prog), most)
		f.body, err = filterebpf.TranslateBuffer(prog, most)
	}
	p.filter = f
	return err
}

func closePlans(plans []plan) {
	for _, p := range plans {
		if p.target != nil {
			p.target.Prog.Close()
		}
	}
}
