package set

import (
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
)

// batchSize is the number of keys in a system call. With one key in each, a million take seconds.
const batchSize = 1 << 14

// A batch changes and reads many keys of a map.
type batch interface {
	put(keys []string) error
	delete(keys []string) error
	all() (map[string]bool, error)
}

func (m *Map) batch() batch {
	switch m.KeySize() {
	case 2:
		return batchOf[[2]byte]{m}
	case 4:
		return batchOf[[4]byte]{m}
	case 8:
		return batchOf[[8]byte]{m}
	case 16:
		return batchOf[[16]byte]{m}
	default:
		return batchOf[[20]byte]{m}
	}
}

// batchOf is a batch of keys of a size.
type batchOf[K interface {
	[2]byte | [4]byte | [8]byte | [16]byte | [20]byte
}] struct{ *Map }

// put adds keys.
func (b batchOf[K]) put(keys []string) error {
	return b.each(keys, func(some []K) (int, error) {
		return b.BatchUpdate(some, slices.Repeat([][1]byte{{present[0]}}, len(some)), nil)
	}, b.Map.put)
}

// delete deletes keys. Somebody else may have deleted some of them meanwhile.
func (b batchOf[K]) delete(keys []string) error {
	return b.each(keys, func(some []K) (int, error) { return b.BatchDelete(some, nil) }, func(key string) error {
		if err := b.Map.Map.Delete([]byte(key)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("delete %v: %w", elementOf([]byte(key), b.kind), err)
		}
		return nil
	})
}

// each changes many keys at a time. If the kernel refuses a chunk, each changes its keys singly:
// that finds the key to blame, and works on kernels without this system call for the map. It
// repeats the whole chunk, because after an error before the first key the kernel's count of
// changed keys is wrong: all keys.
func (b batchOf[K]) each(keys []string, many func([]K) (int, error), one func(string) error) error {
	for chunk := range slices.Chunk(keys, batchSize) {
		some := make([]K, len(chunk))
		for i, key := range chunk {
			some[i] = K([]byte(key))
		}
		if _, err := many(some); err == nil {
			continue
		}
		for _, key := range chunk {
			if err := one(key); err != nil {
				return err
			}
		}
	}
	return nil
}

// all reads all keys.
func (b batchOf[K]) all() (map[string]bool, error) {
	var cursor ebpf.MapBatchCursor
	found, values := make([]K, batchSize), make([][1]byte, batchSize)
	keys := make(map[string]bool)
	for {
		n, err := b.BatchLookup(&cursor, found, values, nil)
		for _, key := range found[:n] {
			text := make([]byte, 0, len(key))
			for i := range len(key) {
				text = append(text, key[i])
			}
			keys[string(text)] = true
		}
		switch {
		case errors.Is(err, ebpf.ErrKeyNotExist): // the end
			return keys, nil
		case err != nil:
			return nil, fmt.Errorf("read the set: %w", err)
		}
	}
}
