package replay

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
)

// setConstants sets global variables before the program is loaded.
func (r Recipe) setConstants(spec *ebpf.CollectionSpec) error {
	for _, given := range r.Constants {
		v, _, text, err := assigned(given, "global variable", "VALUE", spec.Variables)
		if err != nil {
			return err
		}
		value, err := number(text, int(v.Size()))
		if err == nil {
			err = v.Set(value)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", given, err)
		}
	}
	return nil
}

// assigned splits NAME=TEXT, and returns the object with that name. kind and value are words for
// errors: the kind of object, and the meaning of TEXT.
func assigned[T any](given, kind, value string, all map[string]*T) (object *T, name, text string, err error) {
	name, text, ok := strings.Cut(given, "=")
	switch object = all[name]; {
	case !ok:
		return nil, "", "", fmt.Errorf("%s: must be NAME=%s", given, value)
	case object == nil:
		return nil, "", "", fmt.Errorf("%s: the program has no %s %s, but %s", given, kind, name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	return object, name, text, nil
}

// number returns the bytes of a number, "true" or "false" in the CPU's order.
func number(text string, size int) ([]byte, error) {
	text = cmp.Or(map[string]string{"true": "1", "false": "0"}[text], text)
	if size > 8 {
		return nil, fmt.Errorf("the variable has %d bytes, and only numbers of up to 8 can be set", size)
	}
	n, err := strconv.ParseUint(text, 0, size*8)
	if err != nil {
		signed, err := strconv.ParseInt(text, 0, size*8)
		if err != nil {
			return nil, fmt.Errorf("%q is no number of %d bytes", text, size)
		}
		n = uint64(signed)
	}
	return binary.NativeEndian.AppendUint64(nil, n)[:size], nil
}

// A dumped is an entry as `bpftool -j map dump` prints it, with one value or one for each CPU.
type dumped struct {
	Key    []string
	Value  []string
	Values []struct{ Value []string }
}

// fillMaps puts entries into maps.
func (r Recipe) fillMaps(loaded *ebpf.Collection) error {
	for _, given := range r.Maps {
		m, name, file, err := assigned(given, "map", "FILE", loaded.Maps)
		if err != nil {
			return err
		}
		if err := fill(m, file); err != nil {
			return fmt.Errorf("fill the map %s from %s: %w", name, file, err)
		}
	}
	return nil
}

func fill(m *ebpf.Map, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var entries []dumped
	if err := json.Unmarshal(text, &entries); err != nil {
		return fmt.Errorf("it is not what bpftool -j map dump prints: %w", err)
	}
	for i, e := range entries {
		if err := e.put(m); err != nil {
			return fmt.Errorf("entry %d of %d: %w", i+1, len(entries), err)
		}
	}
	return nil
}

// put puts an entry into a map. If it has a value for each CPU, each goes to the CPU with the same
// number, and the values of CPUs that this machine does not have are ignored.
func (e *dumped) put(m *ebpf.Map) error {
	key, err := bytesOf(e.Key)
	if err != nil {
		return err
	}
	if e.Values == nil {
		value, err := bytesOf(e.Value)
		if err != nil {
			return err
		}
		return m.Put(key, value)
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		return err
	}
	all := make([][]byte, cpus)
	for i := range all {
		all[i] = make([]byte, m.ValueSize())
		if i < len(e.Values) {
			if all[i], err = bytesOf(e.Values[i].Value); err != nil {
				return err
			}
		}
	}
	return m.Put(key, all)
}

// bytesOf reads bytes as bpftool prints them: "0x0a".
func bytesOf(texts []string) ([]byte, error) {
	b := make([]byte, len(texts))
	for i, t := range texts {
		n, err := strconv.ParseUint(strings.TrimPrefix(t, "0x"), 16, 8)
		if err != nil {
			return nil, fmt.Errorf("%q is no byte", t)
		}
		b[i] = byte(n)
	}
	return b, nil
}
