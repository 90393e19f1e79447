package capture

import (
	"fmt"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/attach"
)

// compile compiles the filter for one interface, because "ip broadcast" depends on its netmask, and
// for each direction, because of "inbound" and "outbound". With two directions, the filter may
// match nothing in one of them.
func (o *Options) compile(p *point) (err error) {
	received, sent, err := o.classicFilters(p)
	if err != nil {
		return err
	}
	const headBytes = int(kernel.SamplerHeadLimitHEAD_BYTES)
	if p.filter, err = attach.NewFilter(received, headBytes); err != nil {
		return err
	}
	p.sent, err = attach.NewFilter(sent, headBytes)
	return err
}

// classicFilters returns the filters as classic BPF; nil = every packet.
func (o *Options) classicFilters(p *point) (received, sent []bpf.RawInstruction, err error) {
	if o.FilterProgram != nil || o.Filter == "" {
		return o.FilterProgram, o.FilterProgram, nil
	}
	of := filter.Options{VLANAware: o.VLANAware, Outbound: o.Direction == Out}
	if p.ifi.Index != 0 { // packets of a hook map may be from any interface
		if of.Netmask, err = p.ifi.Netmask(); err != nil {
			return nil, nil, err
		}
	}
	switch o.Direction {
	case In:
		received, err = filter.CompileRaw(o.Filter, of)
	case Out:
		sent, err = filter.CompileRaw(o.Filter, of)
	default:
		received, sent, err = filter.CompileBoth(o.Filter, of)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("filter expression: %w", err)
	}
	return received, sent, nil
}
