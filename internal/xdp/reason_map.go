package xdp

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// A ReasonMap is a map of an XDP program for its reasons to drop a packet: a per-CPU array. Before
// the program returns the verdict, it writes a number of 32 bits into the first entry. 0 is no
// reason.
type ReasonMap struct {
	*ebpf.Map
	id    ebpf.MapID
	name  string            // truncated by the kernel
	names map[uint32]string // of reasons
}

// OpenReasonMap opens the map into which a program writes its reasons. which is the path where the
// map is pinned, with a slash in it, or the map's id or name. A name is first looked up among the
// maps of the program, and then among all maps of the machine. The caller closes the map.
func OpenReasonMap(which string, by Target) (*ReasonMap, error) {
	program, err := by.Prog.Info()
	if err != nil {
		return nil, explainOpen(by.ID, err)
	}
	used, _ := program.MapIDs() // all kernels that can trace return them
	m, err := findReasonMap(which, by.Program, used)
	if err != nil {
		return nil, err
	}
	if err := m.check(by.Program, used); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	if m.names, err = enumNames(m.Map); err != nil {
		return nil, errors.Join(fmt.Errorf("read the BTF of %v: %w", m, err), m.Close())
	}
	return m, nil
}

func findReasonMap(which string, by Program, used []ebpf.MapID) (*ReasonMap, error) {
	if strings.Contains(which, "/") {
		m, err := ebpf.LoadPinnedMap(which, nil)
		if err != nil {
			return nil, fmt.Errorf("open the map %s: %w", which, explainPin(which, err))
		}
		return identifyMap(m)
	}
	if id, err := strconv.ParseUint(which, 10, 32); err == nil {
		m, err := openMap(ebpf.MapID(id))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("there is no BPF map with the id %d", id)
		}
		return m, err
	}
	m, err := namedMap(which, used)
	if m != nil || err != nil {
		return m, err
	}
	all, err := allMaps()
	if err != nil {
		return nil, err
	}
	m, err = namedMap(which, all)
	if m == nil && err == nil {
		err = fmt.Errorf("no BPF map is named %s: %s", which, describeMaps(by, used))
	}
	return m, err
}

// namedMap opens the map with a name among these maps; nil = there is none. Several are an error.
func namedMap(name string, ids []ebpf.MapID) (*ReasonMap, error) {
	name = name[:min(len(name), unix.BPF_OBJ_NAME_LEN-1)]
	var found []*ReasonMap
	for _, id := range ids {
		m, err := openMap(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed meanwhile
		}
		if err != nil {
			closeMaps(found)
			return nil, err
		}
		if m.name != name {
			m.Close()
			continue
		}
		found = append(found, m)
	}
	switch len(found) {
	case 0:
		return nil, nil
	case 1:
		return found[0], nil
	}
	defer closeMaps(found)
	var texts []string
	for _, m := range found {
		texts = append(texts, fmt.Sprint(m.id))
	}
	return nil, fmt.Errorf("%d BPF maps are named %s: give the id of one: %s", len(found), name, strings.Join(texts, ", "))
}

func closeMaps(all []*ReasonMap) {
	for _, m := range all {
		m.Close()
	}
}

// describeMaps lists the maps that a program uses, for an error.
func describeMaps(by Program, used []ebpf.MapID) string {
	var names []string
	for _, id := range used {
		if m, err := openMap(id); err == nil {
			names = append(names, m.name)
			m.Close()
		}
	}
	if names == nil {
		return fmt.Sprintf("XDP program %s uses no maps", by)
	}
	return fmt.Sprintf("XDP program %s uses %s", by, strings.Join(names, ", "))
}

// openMap opens a map by its id. The error is an fs.ErrNotExist if it does not exist.
func openMap(id ebpf.MapID) (*ReasonMap, error) {
	m, err := ebpf.NewMapFromID(id)
	if err != nil {
		return nil, fmt.Errorf("open BPF map %d: %w", id, err)
	}
	return identifyMap(m)
}

// identifyMap makes a ReasonMap of a map, without its names. After an error it closes the map.
func identifyMap(m *ebpf.Map) (*ReasonMap, error) {
	info, err := m.Info()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("look at a BPF map: %w", err), m.Close())
	}
	id, _ := info.ID()
	return &ReasonMap{Map: m, id: id, name: info.Name}, nil
}

func allMaps() (ids []ebpf.MapID, err error) {
	for id := ebpf.MapID(0); ; {
		if id, err = ebpf.MapGetNextID(id); errors.Is(err, fs.ErrNotExist) {
			return ids, nil
		}
		if err != nil {
			return nil, fmt.Errorf("list the BPF maps: %w", err)
		}
		ids = append(ids, id)
	}
}

// check returns an error if the program cannot write reasons into the map: it does not use the map,
// and calls no other program that may do so, by a tail call or as a dispatcher of libxdp.
func (m *ReasonMap) check(by Program, used []ebpf.MapID) error {
	if m.Type() != ebpf.PerCPUArray || m.ValueSize() != 4 {
		return fmt.Errorf("%v is a map of the type %s whose values have %d bytes: reasons are read from a PerCPUArray whose values have 4",
			m, m.Type(), m.ValueSize())
	}
	if slices.Contains(used, m.id) || by.Name == dispatcher || slices.ContainsFunc(used, holdsPrograms) {
		return nil
	}
	return fmt.Errorf("XDP program %s does not use %v, so it writes no reasons there: %s", by, m, describeMaps(by, used))
}

func holdsPrograms(id ebpf.MapID) bool {
	m, err := ebpf.NewMapFromID(id)
	if err != nil {
		return false
	}
	defer m.Close()
	return m.Type() == ebpf.ProgramArray
}

// longestReason is the maximum length of a reason's name in bytes, for the comments of pcapng.
const longestReason = 128

// enumNames returns the names of a map's values, if their type is an enum; otherwise nil.
func enumNames(m *ebpf.Map) (map[uint32]string, error) {
	types, value, err := typeOfValue(m)
	if err != nil || types == 0 || value == 0 {
		return nil, err
	}
	handle, err := btf.NewHandleFromID(types)
	if err != nil {
		return nil, err
	}
	defer handle.Close()
	spec, err := handle.Spec(nil)
	if err != nil {
		return nil, err
	}
	typ, err := spec.TypeByID(value)
	if err != nil {
		return nil, err
	}
	enum, ok := btf.As[*btf.Enum](typ)
	if !ok {
		return nil, nil
	}
	names := make(map[uint32]string)
	for _, v := range slices.Backward(enum.Values) { // the first of several names of a value remains
		names[uint32(v.Value)] = v.Name[:min(len(v.Name), longestReason)]
	}
	return names, nil
}

// Parse returns the numbers of reasons. reasons are names or numbers.
func (m *ReasonMap) Parse(reasons []string) (numbers []uint32, err error) {
	byName := make(map[string]uint32)
	for number, name := range m.names {
		byName[strings.ToLower(name)] = number
	}
	for _, text := range reasons {
		number, ok := byName[strings.ToLower(text)]
		if !ok {
			parsed, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				return nil, fmt.Errorf("reason %q: %s", text, m.describeReasons())
			}
			number = uint32(parsed)
		}
		numbers = append(numbers, number)
	}
	return numbers, nil
}

// describeReasons lists the names of reasons, for an error.
func (m *ReasonMap) describeReasons() string {
	if len(m.names) == 0 {
		return fmt.Sprintf("the values of %v have no names: give numbers", m)
	}
	var names []string
	for _, number := range slices.Sorted(maps.Keys(m.names)) {
		names = append(names, m.names[number])
	}
	return fmt.Sprintf("must be a number, or one of the names of %v: %s", m, strings.Join(names, ", "))
}

// typeOfValue returns the id of a map's BTF, and the id of the value's type in it. Both are 0 if
// the map has no BTF.
func typeOfValue(m *ebpf.Map) (types btf.ID, value btf.TypeID, err error) {
	var info struct { // the beginning of struct bpf_map_info in linux/bpf.h
		_            [64]byte
		btf, _, kind uint32 // btf_id, btf_key_type_id, btf_value_type_id
		_            uint32
	}
	attr := struct { // of union bpf_attr
		fd, length uint32
		info       unsafe.Pointer
	}{uint32(m.FD()), uint32(unsafe.Sizeof(info)), unsafe.Pointer(&info)}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_OBJ_GET_INFO_BY_FD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	runtime.KeepAlive(m)
	if errno != 0 {
		return 0, 0, fmt.Errorf("ask for the type of its values: %w", errno)
	}
	return btf.ID(info.btf), btf.TypeID(info.kind), nil
}

// String names the map, with its id.
func (m *ReasonMap) String() string { return fmt.Sprintf("map %s (id %d)", m.name, m.id) }

// Name is the map's name, truncated as the kernel does it.
func (m *ReasonMap) Name() string { return m.name }

// Reason returns the name of a reason, or the number if it has no name. Any goroutine may call it,
// even after Close.
func (m *ReasonMap) Reason(number uint32) string {
	if name, ok := m.names[number]; ok {
		return name
	}
	return strconv.FormatUint(uint64(number), 10)
}

// ReplaceIn adapts the specification of a map, so that m can replace that map.
func (m *ReasonMap) ReplaceIn(spec *ebpf.MapSpec) {
	spec.MaxEntries, spec.Flags = m.MaxEntries(), m.Flags()
}
