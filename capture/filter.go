package capture

import (
	"fmt"
	"net"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	filterebpf "github.com/xdpcap/xdpcap/filter/ebpf"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A classicFilter is a filter as classic BPF; nil = every packet.
type classicFilter []bpf.RawInstruction

// filter compiles the filter for one interface, since "ip broadcast" depends on its netmask.
func (o *Options) filter(ifi xdp.Interface) (classicFilter, error) {
	if o.FilterProgram != nil {
		return o.FilterProgram, nil
	}
	if o.Filter == "" {
		return nil, nil
	}
	var mask net.IPMask
	if ifi.Index != 0 { // packets of a hook map may be from any interface
		var err error
		if mask, err = ifi.Netmask(); err != nil {
			return nil, err
		}
	}
	prog, err := filter.CompileRaw(o.Filter, filter.Options{Netmask: mask, VLANAware: o.VLANAware})
	if err != nil {
		return nil, fmt.Errorf("filter expression: %w", err)
	}
	return prog, nil
}

// A packetFilter is a filter as eBPF, for one way of looking at packets. The zero value is none.
type packetFilter struct {
	stub   string // the function of bpf/sampler.c in whose place it is put
	body   asm.Instructions
	reach  int  // where it gets a copy of the packet: how many bytes it may ask for
	length bool // whether it asks for a packet's length
}

// direct is the filter for XDP programs, which look at the packet itself.
func (f classicFilter) direct() (packetFilter, error) {
	if f == nil {
		return packetFilter{}, nil
	}
	body, err := filterebpf.Translate(f)
	return packetFilter{stub: "filter", body: body, length: filter.ReadsLength(f)}, err
}

// copied is the filter for tracing programs, which look at a copy of the packet's beginning.
func (f classicFilter) copied() (packetFilter, error) {
	if f == nil {
		return packetFilter{}, nil
	}
	const most = int(samplerLimitHEAD_BYTES)
	body, err := filterebpf.TranslateBuffer(f, most)
	return packetFilter{
		stub:   "filter_head",
		body:   body,
		reach:  min(filter.Reach(f), most),
		length: filter.ReadsLength(f),
	}, err
}
