package set

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/filter"
)

// A Live set consists of the maps in which the programs of a running process look up.
type Live struct {
	PIDs []int // the processes that have it open; empty if they are hidden from this one
	name string
	maps []*Map
}

// Find opens all live sets of a name, the oldest first. pid restricts them to the sets of one
// process; 0 = all. The caller closes them.
func Find(name string, pid int) (all []*Live, err error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	found, err := findMaps(name)
	if err != nil {
		return nil, err
	}
	holders := holdersOf(found)
	byHolders := make(map[string]*Live)
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if pid != 0 && !slices.Contains(holders[id], pid) {
			found[id].Close() // only read
			continue
		}
		key := fmt.Sprint(holders[id])
		l := byHolders[key]
		if l == nil {
			l = &Live{name: name, PIDs: holders[id]}
			byHolders[key], all = l, append(all, l)
		}
		l.maps = append(l.maps, found[id])
	}
	return all, nil
}

// findMaps opens all maps of the kernel that belong to sets of a name.
func findMaps(name string) (map[ebpf.MapID]*Map, error) {
	found := make(map[ebpf.MapID]*Map)
	for id := ebpf.MapID(0); ; {
		next, err := ebpf.MapGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return found, nil
		}
		if err != nil {
			return nil, fmt.Errorf("look for the sets of running captures: %w", err)
		}
		id = next
		m, err := ebpf.NewMapFromID(id)
		if errors.Is(err, os.ErrNotExist) {
			continue // it has gone meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("open the map %d: %w", id, err)
		}
		kind, err := kindOf(m, name)
		switch {
		case err != nil:
			return nil, errors.Join(err, m.Close())
		case kind == 0:
			m.Close() // only read
		default:
			found[id] = &Map{m, kind}
		}
	}
}

// kindOf returns the kind of the elements of a map, or 0 if it is no map of such a set.
func kindOf(m *ebpf.Map, name string) (filter.SetKind, error) {
	info, err := m.Info()
	if err != nil {
		return 0, fmt.Errorf("ask for the name of a map: %w", err)
	}
	for _, typ := range []keyType{{filter.Addresses, 4}, {filter.Addresses, 16}, {filter.Networks, 4}, {filter.Networks, 16}, {filter.Ports, 2}} {
		spec := specOf(name, typ, 0)
		if info.Name == spec.Name && info.Type == spec.Type && info.KeySize == spec.KeySize && info.ValueSize == spec.ValueSize {
			return typ.kind, nil
		}
	}
	return 0, nil
}

var mapID = regexp.MustCompile(`(?m)^map_id:\s*(\d+)$`)

// holdersOf returns the processes that have maps open.
func holdersOf(found map[ebpf.MapID]*Map) map[ebpf.MapID][]int {
	holders := make(map[ebpf.MapID][]int)
	files, _ := filepath.Glob("/proc/[0-9]*/fdinfo/*") // it fails only for a bad pattern
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the process has ended, or is hidden
		}
		number := mapID.FindSubmatch(text)
		if number == nil {
			continue
		}
		id, _ := strconv.ParseUint(string(number[1]), 10, 32)
		pid, _ := strconv.Atoi(strings.Split(name, "/")[2])
		if _, ok := found[ebpf.MapID(id)]; ok && pid != os.Getpid() && !slices.Contains(holders[ebpf.MapID(id)], pid) {
			holders[ebpf.MapID(id)] = append(holders[ebpf.MapID(id)], pid)
		}
	}
	for _, pids := range holders {
		slices.Sort(pids)
	}
	return holders
}

// placesFor returns the maps into which an element belongs.
func (l *Live) placesFor(e Element) (all []*Map, err error) {
	for _, m := range l.maps {
		if fits(e.kind, m.kind) && int(m.KeySize()) == len(e.appendKey(nil, m.kind)) {
			all = append(all, m)
		}
	}
	if all == nil {
		return nil, fmt.Errorf("%v does not fit into the set %s, in which filters look for %s", e, l.name, l.kinds())
	}
	return all, nil
}

func (l *Live) kinds() string {
	names := map[filter.SetKind]string{filter.Addresses: "addresses", filter.Networks: "networks", filter.Ports: "ports"}
	var all []string
	for _, m := range l.maps {
		if name := names[m.kind]; !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return strings.Join(all, " and ")
}

// Check returns an error if elements do not fit into the set.
func (l *Live) Check(elements []Element) error {
	for _, e := range elements {
		if _, err := l.placesFor(e); err != nil {
			return err
		}
	}
	return nil
}

// Add adds an element. It is no error if the set has it.
func (l *Live) Add(e Element) error {
	all, err := l.placesFor(e)
	for _, m := range all {
		err = errors.Join(err, m.put(string(e.appendKey(nil, m.kind))))
	}
	return err
}

// Delete deletes an element, and returns whether the set had it.
func (l *Live) Delete(e Element) (had bool, err error) {
	all, err := l.placesFor(e)
	for _, m := range all {
		switch failed := m.Map.Delete(e.appendKey(nil, m.kind)); {
		case failed == nil:
			had = true
		case !errors.Is(failed, ebpf.ErrKeyNotExist):
			err = errors.Join(err, fmt.Errorf("delete %v: %w", e, failed))
		}
	}
	return had, err
}

// Elements returns all elements, sorted. It may miss elements that another process changes
// meanwhile.
func (l *Live) Elements() ([]Element, error) {
	seen := make(map[Element]bool)
	for _, m := range l.maps {
		keys, err := m.batch().all()
		if err != nil {
			return nil, err
		}
		for key := range keys {
			seen[elementOf([]byte(key), m.kind)] = true
		}
	}
	return slices.SortedFunc(maps.Keys(seen), Element.compare), nil
}

// Close closes the maps.
func (l *Live) Close() error {
	var errs []error
	for _, m := range l.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// IsRefused reports whether Find failed because of missing privileges.
func IsRefused(err error) bool { return errors.Is(err, unix.EPERM) }
