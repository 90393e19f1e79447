package capture

import (
	"slices"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
)

// slotsPerHook is how many sources a hook can have if sources come and go; 0 = they do not.
func (o *Options) slotsPerHook() int {
	switch {
	case !o.sourcesChange():
		return 0
	case slices.Contains(o.Hooks, Entry) && slices.Contains(o.Hooks, Exit):
		return 2
	}
	return 1
}

// probe returns the options of the programs and their hooks.
func (o *Options) probe() *probe.Options {
	p := &probe.Options{
		Interfaces: o.Interfaces, Patterns: o.Patterns, Except: o.Except, SourcesChange: o.sourcesChange(), Filter: o.Filter, FilterSets: o.FilterSets, VLANAware: o.VLANAware, Fragments: o.Fragments, VXLANPort: o.VXLANPort, FilterProgram: o.FilterProgram, FilterChanges: o.FilterChanges,
		At: o.At, NeedsXDP: o.needsXDP(), Mode: o.Mode, Direction: o.Direction,
		HookMap: o.HookMap, Hooks: o.Hooks, Targets: o.Targets, StackDrops: o.StackDrops, Reasons: o.Reasons, ReasonMap: o.ReasonMap,
		FilterAtExit: o.FilterAtExit, Sink: o.Sink, Stamp: o.Stamp, VLANRestore: o.VLANRestore, Hash: o.Hash,
		SnapLen: o.SnapLen, HeadersOnly: o.HeadersOnly, Payload: o.Payload, Verdicts: o.Verdicts, TCVerdicts: o.TCVerdicts, SlowerThan: o.SlowerThan,
		SampleFlows: o.SampleFlows, First: o.First, Sample: o.Sample, SampleVerdicts: o.SampleVerdicts, Adaptive: o.Adaptive, MaxRate: o.MaxRate,
		Notice: o.notice,
	}
	if o.Companions != nil {
		p.Companions = func(src Source) (first, last []*ebpf.ProgramSpec, err error) {
			c, err := o.Companions(src)
			return c.First, c.Last, err
		}
	}
	return p
}
