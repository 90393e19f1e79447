package capture

import "github.com/xdpcap/xdpcap/capture"

// sessionOptions are the options of the session that the flags ask for.
func (o *Options) sessionOptions() capture.Options {
	s := o.session
	s.Interfaces, s.Patterns = o.splitInterfaces()
	s.FilterAtExit = o.filterAt == "exit"
	s.Filter, s.FilterSets, s.VLANAware = o.filter.Text, o.filter.Sets.Known(), o.filter.VLANAware
	if o.filter.Program != nil {
		s.FilterProgram = o.filter.Program.Instructions
	}
	s.Fragments, s.VXLANPort = o.filter.Fragments, o.filter.VXLANPort()
	s.Hash = o.printing.Verbose > 0
	s.SnapLen, s.HeadersOnly, s.Payload = int(o.snapLen.Bytes), o.snapLen.headers, int(o.snapLen.payload)
	s.Count = o.Count
	s.Sample, s.SampleVerdicts, s.Adaptive = o.sample.oneIn, o.sample.verdicts, o.sample.auto
	s.Promiscuous = o.promiscuity()
	s.Buffer, s.Immediate = int(o.buffer.Bytes), o.Unbuffer
	return s
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
