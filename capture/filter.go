package capture

import (
	"fmt"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/attach"
)

// A classicFilter is a filter as classic BPF; nil = every packet.
type classicFilter []bpf.RawInstruction

// compile compiles the filter for one interface, because "ip broadcast" depends on its netmask, and
// for each direction, because of "inbound" and "outbound". With two directions, the filter may
// match nothing in one of them.
func (o *Options) compile(p *point) (err error) {
	if o.FilterProgram != nil || o.Filter == "" {
		p.filter, p.sent = o.FilterProgram, o.FilterProgram
		return nil
	}
	of := filter.Options{VLANAware: o.VLANAware, Outbound: o.Direction == Out}
	if p.ifi.Index != 0 { // packets of a hook map may be from any interface
		if of.Netmask, err = p.ifi.Netmask(); err != nil {
			return err
		}
	}
	switch o.Direction {
	case In:
		p.filter, err = filter.CompileRaw(o.Filter, of)
	case Out:
		p.sent, err = filter.CompileRaw(o.Filter, of)
	default:
		p.filter, p.sent, err = filter.CompileBoth(o.Filter, of)
	}
	if err != nil {
		return fmt.Errorf("filter expression: %w", err)
	}
	return nil
}

// headBytes is how much of a packet's beginning programs copy at most.
const headBytes = int(samplerHeadLimitHEAD_BYTES)

// copied is the filter for programs that trace or are at egress. They read a copy of the packet's
// beginning.
func (f classicFilter) copied() (attach.Filter, error) { return attach.OfCopy(f, headBytes) }
