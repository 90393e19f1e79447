package capture

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// No interface is faster, and the token bucket can still tell two packets apart.
const maxRate = 1e9

// withDefaults checks the options and fills in what was left out.
func (o Options) withDefaults() (Options, error) {
	if len(o.Interfaces) == 0 && o.HookMap == "" {
		return o, errors.New("no interface to capture on")
	}
	if o.HookMap != "" && (len(o.Interfaces) > 0 || len(o.Hooks) > 0 || len(o.Programs) > 0 || o.Sink || o.Mode != Auto) {
		return o, errors.New("a hook map is captured alone: interfaces, their hooks and programs, modes and a sink do not go with it")
	}
	o.Interfaces = slices.Clone(o.Interfaces)
	for i, name := range o.Interfaces {
		if slices.Contains(o.Interfaces[:i], name) {
			return o, fmt.Errorf("interface %s is given twice", name)
		}
	}
	if o.SnapLen == 0 {
		o.SnapLen = MaxSnapLen
	}
	if o.SnapLen < 0 || o.SnapLen > MaxSnapLen {
		return o, fmt.Errorf("snapshot length %d: must be 1 to %d, what one record of a perf ring holds; 0 asks for the most",
			o.SnapLen, MaxSnapLen)
	}
	o.Sample = max(o.Sample, 1)
	o.SampleFlows = max(o.SampleFlows, 1)
	if o.MaxRate > maxRate {
		return o, fmt.Errorf("rate of %d packets per second: must be at most %d", o.MaxRate, uint64(maxRate))
	}
	if o.Buffer == 0 {
		o.Buffer = DefaultBuffer
	}
	if o.Buffer < MinBuffer || o.Buffer > MaxBuffer {
		return o, fmt.Errorf("buffer of %d bytes per CPU: must be %d KiB to %d MiB", o.Buffer, MinBuffer>>10, MaxBuffer>>20)
	}
	o.Buffer = ringSize(o.Buffer)
	exits := slices.Contains(o.Hooks, Exit)
	switch {
	case slices.Contains(o.Hooks, XDP) || slices.Contains(o.Hooks, TailCall):
		return o, errors.New("hooks: only Entry and Exit can be asked for")
	case len(o.Verdicts) > 0 && o.HookMap == "" && !exits:
		return o, errors.New("verdicts are known at a program's exit only: capture that (--rx-capture exit)")
	case o.FilterAtExit && (!exits || len(o.Hooks) > 1):
		return o, errors.New("a filter at the exit can choose exits only: capture these alone (--rx-capture exit)")
	}
	return o, nil
}

// lookUp finds the interfaces and refuses those on which nothing could be captured.
func (o Options) lookUp() ([]xdp.Interface, error) {
	if o.HookMap != "" {
		return []xdp.Interface{{Name: o.HookMap, Type: "ether"}}, nil
	}
	var ifis []xdp.Interface
	for _, name := range o.Interfaces {
		ifi, err := xdp.InterfaceByName(name)
		if err != nil {
			return nil, err
		}
		if ifi.Type != "ether" && ifi.Type != "loopback" {
			return nil, fmt.Errorf("%s is not an Ethernet interface (its link type is %q): XDP packets without an "+
				"Ethernet header cannot be captured", ifi.Name, ifi.Type)
		}
		if !ifi.Up {
			return nil, fmt.Errorf("%s is down: bring it up first, ip link set dev %s up", ifi.Name, ifi.Name)
		}
		ifis = append(ifis, ifi)
	}
	return ifis, nil
}

// filters compiles the filter for each interface, since "ip broadcast" depends on its netmask; nil = every packet.
func (o Options) filters(ifis []xdp.Interface) ([][]bpf.RawInstruction, error) {
	filters := make([][]bpf.RawInstruction, len(ifis))
	if o.Filter == "" && o.Program == nil {
		return filters, nil
	}
	for i, ifi := range ifis {
		var err error
		if filters[i], err = o.classic(ifi); err != nil {
			return nil, err
		}
	}
	return filters, nil
}

func (o Options) classic(ifi xdp.Interface) ([]bpf.RawInstruction, error) {
	if o.Program != nil {
		return o.Program, nil
	}
	var mask net.IPMask
	if ifi.Index != 0 { // a hook map is of any interface
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
