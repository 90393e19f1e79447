package capture

import "github.com/xdpcap/xdpcap/capture"

// session are the options of the session that the flags ask for.
func (o *Options) session() capture.Options {
	names, patterns := o.splitInterfaces()
	return capture.Options{
		Interfaces: names,
		Patterns:   patterns,
		Except:     o.except,
		Direction:  o.direction,
		Mode:       o.xdpMode,
		HookMap:    o.hookMap,

		Hooks:        o.hooks,
		Targets:      o.programs,
		Verdicts:     o.verdicts,
		SlowerThan:   o.slowerThan,
		ReasonMap:    o.reasonMap,
		FilterAtExit: o.filterAt == "exit",

		StackDrops: o.drops.on,
		Reasons:    o.drops.reasons,

		Filter:        o.filter.Text,
		VLANAware:     o.filter.VLANAware,
		FilterProgram: o.filter.Program,
		Stamp:         o.card.stamp,
		VLANRestore:   o.card.restore,
		Hash:          o.printing.Verbose > 0,
		SnapLen:       int(o.snapLen.Bytes),
		HeadersOnly:   o.snapLen.headers,
		Payload:       int(o.snapLen.payload),
		Count:         o.Count,
		SampleFlows:   o.sampleFlows,
		First:         o.first,
		Sample:        o.sample.oneIn,
		MaxRate:       o.maxRate,

		SampleVerdicts: o.sample.verdicts,
		Adaptive:       o.sample.auto,

		Sink:        o.sink,
		Promiscuous: o.promiscuity(),
		Transport:   o.transport,
		Buffer:      int(o.buffer.Bytes),
		Immediate:   o.Unbuffer,
	}
}

func (o *Options) promiscuity() capture.Promiscuity {
	switch {
	case o.promiscuous:
		return capture.PromiscuousOn
	case o.notPromiscuous:
		return capture.PromiscuousOff
	}
	return capture.PromiscuousAuto
}
