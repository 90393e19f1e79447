package set

import (
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"syscall"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/filter"
	filterebpf "github.com/xdpcap/xdpcap/filter/ebpf"
)

// A Map is a map of the kernel with the elements of a set that have the same kind of key.
type Map struct {
	*ebpf.Map
	kind filter.SetKind
}

// present is the value of each key.
var present = []byte{1}

// roomFor returns the number of elements in a map for a set of n elements at first: at least twice
// as many, because elements may be added later and a map cannot grow.
func roomFor(n int) uint32 { return max(leastRoom, 2<<bits.Len32(uint32(max(n, 1)-1))) }

const leastRoom uint32 = 1 << 16

// specOf returns the specification of a map of a set. room is the maximum number of elements.
func specOf(name string, typ keyType, room uint32) *ebpf.MapSpec {
	spec := &ebpf.MapSpec{
		Name: filterebpf.MapName(name, typ.kind, typ.keyBytes), Type: ebpf.Hash, KeySize: uint32(typ.keyBytes), ValueSize: uint32(len(present)),
		MaxEntries: room, Flags: noPrealloc,
	}
	if typ.kind == filter.Networks {
		spec.Type, spec.KeySize = ebpf.LPMTrie, spec.KeySize+4
	}
	return spec
}

// newMap makes a map with the elements of a file that belong into it.
func newMap(name string, typ keyType, c *contents) (*Map, error) {
	keys := c.keys(typ)
	spec := specOf(name, typ, roomFor(len(keys)))
	made, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("create the map %s: %w", spec.Name, err)
	}
	m := &Map{made, typ.kind}
	if err := m.batch().put(slices.Collect(maps.Keys(keys))); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// noPrealloc is BPF_F_NO_PREALLOC: a map uses memory for its elements, and not for its room.
const noPrealloc = 1

// keys returns the keys of the elements that belong into a map.
func (c *contents) keys(typ keyType) map[string]bool {
	keys := make(map[string]bool)
	var key []byte
	for _, e := range c.elements {
		if e.keyBytes() == typ.keyBytes {
			key = e.appendKey(key[:0], typ.kind)
			keys[string(key)] = true
		}
	}
	return keys
}

func (m *Map) put(key string) error {
	if err := m.Update([]byte(key), present, ebpf.UpdateAny); err != nil {
		if errors.Is(err, syscall.E2BIG) || errors.Is(err, syscall.ENOSPC) {
			return fmt.Errorf("the set is full: it has room for %d elements", m.MaxEntries())
		}
		return fmt.Errorf("add %v: %w", elementOf([]byte(key), m.kind), err)
	}
	return nil
}

// A difference between a map and the keys that it should have.
type difference struct {
	*Map
	missing, surplus []string // keys
}

// compare compares a map with the keys that it should have.
func (m *Map) compare(want map[string]bool) (*difference, error) {
	have, err := m.batch().all()
	if err != nil {
		return nil, err
	}
	d := &difference{Map: m}
	for key := range want {
		if !have[key] {
			d.missing = append(d.missing, key)
		}
	}
	for key := range have {
		if !want[key] {
			d.surplus = append(d.surplus, key)
		}
	}
	if room := int(m.MaxEntries()); len(have)+len(d.missing) > room {
		return nil, fmt.Errorf("it has room for %d elements, and %d new ones come before old ones go", room, len(d.missing))
	}
	return d, nil
}

func (d *difference) add() error { return d.batch().put(d.missing) }

func (d *difference) delete() error { return d.batch().delete(d.surplus) }
