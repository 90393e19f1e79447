package attach

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/filter"
	filterebpf "github.com/xdpcap/xdpcap/filter/ebpf"
)

// A Filter is a filter as eBPF for programs that include bpf/include/filter.h, with a body for each
// way in which they read packets. The zero value is no filter.
type Filter struct {
	bodies map[string]asm.Instructions // by the function of filter.h that the body replaces
	reach  int                         // how many bytes of a packet's copy it reads at most
	length bool                        // whether it reads the packet's length
	sets   []filter.NamedSet           // in which it looks up
}

// NewFilter translates a filter; nil = no filter. Of a copy of a packet's beginning, programs have
// `most` bytes at most.
func NewFilter(f *filter.Program, most int) (Filter, error) {
	if f == nil {
		return Filter{}, nil
	}
	inPlace, err := filterebpf.Translate(f)
	ofCopy, failed := filterebpf.TranslateBuffer(f, most)
	if err != nil && failed != nil { // of a very long filter, one may be too long and the other not
		return Filter{}, err
	}
	return Filter{
		// XDP programs read the packet itself, unless the card has removed a VLAN tag from it. All
		// others read a copy of its beginning.
		bodies: map[string]asm.Instructions{"filter": inPlace, "filter_head": ofCopy},
		reach:  min(filter.Reach(f.Instructions), most),
		length: filter.ReadsLength(f.Instructions),
		sets:   f.Sets,
	}, nil
}

// A mapped set has its elements in the kernel.
type mapped interface {
	Map(kind filter.SetKind, keyBytes int) (*ebpf.Map, error)
}

// useSets lets the look-ups of a filter find the maps of its sets.
func useSets(body asm.Instructions, sets []filter.NamedSet) error {
	for i := range body {
		if !body[i].IsLoadFromMap() {
			continue
		}
		m, err := mapNamed(body[i].Reference(), sets)
		if err != nil {
			return err
		}
		if err := body[i].AssociateMap(m); err != nil {
			return err
		}
	}
	return nil
}

// mapNamed returns the map of a set that a look-up refers to.
func mapNamed(name string, sets []filter.NamedSet) (*ebpf.Map, error) {
	for _, s := range sets {
		for _, keyBytes := range []int{2, 4, 16} {
			if filterebpf.MapName(s.Name, s.Kind, keyBytes) != name {
				continue
			}
			if m, ok := s.Set.(mapped); ok {
				return m.Map(s.Kind, keyBytes)
			}
		}
	}
	return nil, fmt.Errorf("the filter looks up in %s, which is no map: use the sets of package filter/set", name)
}

// Put puts the filter into a program, in each way in which that reads packets. It makes the maps of
// its sets.
func (f Filter) Put(into *ebpf.ProgramSpec) error {
	for stub, body := range f.bodies {
		if !slices.ContainsFunc(into.Instructions, func(ins asm.Instruction) bool { return ins.Symbol() == stub }) {
			continue
		}
		body = slices.Clone(body)
		if err := useSets(body, f.sets); err != nil {
			return err
		}
		if err := filterebpf.Inline(into, stub, body); err != nil {
			return err
		}
	}
	return nil
}

// Constants are the filter's part of the constants of filter.h, for Set.
func (f Filter) Constants() map[string]any {
	return map[string]any{
		"filtering":        f.bodies != nil,
		"filtering_length": f.length,
		"reach":            uint32(f.reach),
	}
}

// Set gives the constants of a collection, which are its `volatile const` variables, their values
// by their names.
func Set(spec *ebpf.CollectionSpec, constants map[string]any) error {
	for name, value := range constants {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}
