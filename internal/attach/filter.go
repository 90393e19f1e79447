package attach

import (
	"fmt"
	"maps"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/filter"
	filterebpf "github.com/xdpcap/xdpcap/filter/ebpf"
)

// A Filter is a filter as eBPF for programs that include bpf/include/filter.h, with a body for each
// way in which they read packets. The zero value is no filter.
type Filter struct {
	bodies map[string]asm.Instructions // by the function of filter.h that the body replaces
	reach  int                         // how many bytes of a packet's copy it reads at most
	length bool                        // whether it reads the packet's length
}

// The functions of filter.h: the first reads the packet itself, as XDP programs can, the second a
// copy of its beginning, as all other programs do.
const (
	inPlaceStub = "filter"
	copyStub    = "filter_head"
)

// InPlace is the filter for XDP programs, which read the packet itself; nil = no filter.
func InPlace(f []bpf.RawInstruction) (Filter, error) {
	if f == nil {
		return Filter{}, nil
	}
	body, err := filterebpf.Translate(f)
	return Filter{bodies: map[string]asm.Instructions{inPlaceStub: body}, length: filter.ReadsLength(f)}, err
}

// OfCopy is the filter for programs that read a copy of the packet's beginning, of `most` bytes at
// most; nil = no filter.
func OfCopy(f []bpf.RawInstruction, most int) (Filter, error) {
	if f == nil {
		return Filter{}, nil
	}
	body, err := filterebpf.TranslateBuffer(f, most)
	return Filter{
		bodies: map[string]asm.Instructions{copyStub: body},
		reach:  min(filter.Reach(f), most),
		length: filter.ReadsLength(f),
	}, err
}

// Both is the filter for XDP programs that put stripped VLAN tags back. They read a copy of a
// packet that has such a tag, and any other packet itself.
func Both(f []bpf.RawInstruction, most int) (Filter, error) {
	inPlace, err := InPlace(f)
	if f == nil || err != nil {
		return inPlace, err
	}
	both, err := OfCopy(f, most)
	maps.Copy(both.bodies, inPlace.bodies)
	return both, err
}

// WithoutCopy is the part of the filter that reads the packet itself.
func (f Filter) WithoutCopy() Filter {
	f.bodies = maps.Clone(f.bodies)
	delete(f.bodies, copyStub)
	return f
}

// Put puts the filter into a program.
func (f Filter) Put(into *ebpf.ProgramSpec) error {
	for stub, body := range f.bodies {
		if err := filterebpf.Inline(into, stub, body); err != nil {
			return err
		}
	}
	return nil
}

// Constants are what filter.h needs to know about the filter, for Set.
func (f Filter) Constants() map[string]any {
	return map[string]any{
		"filtering":        f.bodies != nil,
		"filtering_length": f.length,
		"reach":            uint32(f.reach),
	}
}

// Set gives the constants of a collection, which are its `volatile const` variables, their values by
// their names.
func Set(spec *ebpf.CollectionSpec, constants map[string]any) error {
	for name, value := range constants {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}
