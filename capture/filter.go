package capture

import (
	"fmt"
	"maps"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	filterebpf "github.com/xdpcap/xdpcap/filter/ebpf"
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

// A packetFilter is a filter as eBPF, with a body for each way in which a program reads packets.
// The zero value is no filter.
type packetFilter struct {
	bodies map[string]asm.Instructions // by the function of bpf/sampler.c that the body replaces
	reach  int                         // how many bytes of a packet's copy it reads at most
	length bool                        // whether it reads the packet's length
}

// headStub is the function of bpf/sampler.c for filters that look at a copy of a packet.
const headStub = "filter_head"

// direct is the filter for XDP programs, which read the packet itself.
func (f classicFilter) direct() (packetFilter, error) {
	if f == nil {
		return packetFilter{}, nil
	}
	body, err := filterebpf.Translate(f)
	return packetFilter{bodies: map[string]asm.Instructions{"filter": body}, length: filter.ReadsLength(f)}, err
}

// both is the filter for XDP programs that put stripped VLAN tags back. They read a copy of a
// packet that has such a tag, and any other packet itself.
func (f classicFilter) both() (packetFilter, error) {
	direct, err := f.direct()
	if f == nil || err != nil {
		return direct, err
	}
	both, err := f.copied()
	maps.Copy(both.bodies, direct.bodies)
	return both, err
}

// copied is the filter for programs that trace or are at egress. They read a copy of the packet's
// beginning.
func (f classicFilter) copied() (packetFilter, error) {
	if f == nil {
		return packetFilter{}, nil
	}
	const most = int(samplerHeadLimitHEAD_BYTES)
	body, err := filterebpf.TranslateBuffer(f, most)
	return packetFilter{
		bodies: map[string]asm.Instructions{headStub: body},
		reach:  min(filter.Reach(f), most),
		length: filter.ReadsLength(f),
	}, err
}
