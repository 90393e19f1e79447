package meter

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// ReadArray reads a per-CPU array. The result is indexed by the array's index, then by CPU.
func ReadArray[V any](m *ebpf.Map) ([][]V, error) {
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

// eachHash calls f for each entry of a hash map with the given slots per value. An entry that is
// inserted or deleted meanwhile may be missing.
func eachHash[K, V any](m *ebpf.Map, slots int, f func(K, []V)) error {
	const chunk = 1024
	keys, values := make([]K, chunk), make([]V, chunk*slots)
	var cursor ebpf.MapBatchCursor
	for {
		n, err := m.BatchLookup(&cursor, keys, values, nil)
		if err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return err
		}
		for i, key := range keys[:n] {
			f(key, values[i*slots:(i+1)*slots])
		}
		if err != nil {
			return nil
		}
	}
}
