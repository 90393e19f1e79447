package attach

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/filter"
	filterebpf "github.com/xdpcap/xdpcap/filter/ebpf"
)

// A Filter is a filter as eBPF for programs that include bpf/include/filter.h. The zero value is no
// filter.
type Filter struct {
	bodies      map[string]asm.Instructions // by the function of filter.h that each replaces
	reach       int                         // the maximum number of bytes that it reads of a copy
	readsLength bool                        // it reads the packet's length
	sets        []filter.NamedSet           // the sets in which it looks up
}

// NewFilter translates a filter; nil = no filter. Some programs read a copy of a packet's
// beginning; copySize is its maximum size in bytes.
func NewFilter(f *filter.Program, copySize int) (Filter, error) {
	if f == nil {
		return Filter{}, nil
	}
	inPlace, err := filterebpf.Translate(f)
	ofCopy, copyErr := filterebpf.TranslateBuffer(f, copySize)
	if err != nil && copyErr != nil { // only one of the bodies of a very long filter may be too long
		return Filter{}, err
	}
	return Filter{
		// XDP programs read the packet itself, unless the card has removed a VLAN tag from it. All
		// others read a copy of its beginning.
		bodies:      map[string]asm.Instructions{"filter": inPlace, "filter_head": ofCopy},
		reach:       min(filter.Reach(f.Instructions), copySize),
		readsLength: filter.ReadsLength(f.Instructions),
		sets:        f.Sets,
	}, nil
}

// A mapped set has its elements in BPF maps.
type mapped interface {
	Map(kind filter.SetKind, keyBytes int) (*ebpf.Map, error)
}

// useSets puts the maps of the sets into the look-ups of a filter.
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

// mapNamed returns the map to which a look-up refers by name.
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

// Put replaces the functions of filter.h in a program by the filter. It makes the maps of its sets.
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

// Constants returns the values of filter.h's constants, for Set.
func (f Filter) Constants() map[string]any {
	return map[string]any{
		"filtering":        f.bodies != nil,
		"filtering_length": f.readsLength,
		"reach":            uint32(f.reach),
	}
}

// Set sets the constants of a collection, its `volatile const` variables, by their names.
func Set(spec *ebpf.CollectionSpec, constants map[string]any) error {
	for name, value := range constants {
		if err := spec.Variables[name].Set(value); err != nil {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}
