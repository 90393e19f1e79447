package meter

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// makeMaps creates the maps of a collection that are nil in maps, and returns all of them. The
// caller closes them, also after an error.
func makeMaps(spec *ebpf.CollectionSpec, maps map[string]**ebpf.Map) (map[string]*ebpf.Map, error) {
	given := make(map[string]*ebpf.Map)
	for name, m := range maps {
		if *m == nil {
			made, err := ebpf.NewMap(spec.Maps[name])
			if err != nil {
				return nil, fmt.Errorf("create map %s: %w", name, err)
			}
			*m = made
		}
		given[name] = *m
	}
	return given, nil
}

// loadProgram loads one program of a collection, with the maps that makeMaps returns. The caller
// closes the program, and the maps also after an error.
func loadProgram(spec *ebpf.CollectionSpec, name string, maps map[string]**ebpf.Map) (*ebpf.Program, error) {
	given, err := makeMaps(spec, maps)
	if err != nil {
		return nil, err
	}
	only := spec.Copy()
	only.Programs = map[string]*ebpf.ProgramSpec{name: only.Programs[name]}
	if err := xdp.Alone(only.Programs[name]); err != nil {
		return nil, err
	}
	c, err := ebpf.NewCollectionWithOptions(only, ebpf.CollectionOptions{MapReplacements: given, Cache: xdp.KernelTypes()})
	if err != nil {
		return nil, err
	}
	prog := c.DetachProgram(name)
	c.Close()
	return prog, nil
}

// readArray reads a per-CPU array. The result is by index, then by CPU.
func readArray[V any](m *ebpf.Map) ([][]V, error) {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return nil, err
	}
	n := int(m.MaxEntries())
	keys, values := make([]uint32, n), make([]V, n*cpus)
	var cursor ebpf.MapBatchCursor
	got, err := m.BatchLookup(&cursor, keys, values, nil)
	if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, err
	}
	if got != n {
		return nil, fmt.Errorf("%d of %d slots", got, n)
	}
	slots := make([][]V, n)
	for i, key := range keys {
		slots[key] = values[i*cpus : (i+1)*cpus]
	}
	return slots, nil
}
