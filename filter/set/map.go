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

// roomFor returns the size of the map for a set that has n elements at first. It leaves room for at
// least as many more, because elements may be added later and a map cannot grow.
func roomFor(n int) uint32 { return max(leastRoom, 2<<bits.Len32(uint32(max(n, 1)-1))) }

const leastRoom uint32 = 1 << 16

// specOf is a map of a set, with room for so many elements.
func specOf(name string, at place, room uint32) *ebpf.MapSpec {
	spec := &ebpf.MapSpec{
		Name: filterebpf.MapName(name, at.kind, at.keyBytes), Type: ebpf.Hash, KeySize: uint32(at.keyBytes), ValueSize: uint32(len(present)),
		MaxEntries: room, Flags: noPrealloc,
	}
	if at.kind == filter.Networks {
		spec.Type, spec.KeySize = ebpf.LPMTrie, spec.KeySize+4
	}
	return spec
}

// newMap makes a map with the elements of a file that belong into it.
func newMap(name string, at place, c *contents) (*Map, error) {
	keys := c.keys(at)
	spec := specOf(name, at, roomFor(len(keys)))
	made, err := ebpf.NewMap(spec)
	if err != nil {
		return nil, fmt.Errorf("create the map %s: %w", spec.Name, err)
	}
	m := &Map{made, at.kind}
	if err := m.batch().put(slices.Collect(maps.Keys(keys))); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// noPrealloc is BPF_F_NO_PREALLOC: a set takes memory for the elements that it has.
const noPrealloc = 1

// keys are those of the elements that belong into a map.
func (c *contents) keys(at place) map[string]bool {
	keys := make(map[string]bool)
	var key []byte
	for _, e := range c.elements {
		if e.keyBytes() == at.keyBytes {
			key = e.appendKey(key[:0], at.kind)
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

// A difference is what a map lacks, and what it has too much.
type difference struct {
	*Map
	missing, surplus []string
}

// compare compares a map with the keys that it shall have.
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
	if most := int(m.MaxEntries()); len(have)+len(d.missing) > most {
		return nil, fmt.Errorf("it has room for %d elements, and %d new ones come before old ones go", most, len(d.missing))
	}
	return d, nil
}

func (d *difference) add() error { return d.batch().put(d.missing) }

func (d *difference) delete() error { return d.batch().delete(d.surplus) }
