// Package set has the sets of filters, as in "host in @blocked". A set is read from a file, or is a
// pinned BPF map of another program. Programs in the kernel look up in BPF maps; all programs that
// are compiled with one Set share its maps.
package set

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/filter"
)

// A Set is a filter.Set. Its methods may be called concurrently, except Close.
type Set struct {
	name, path string
	pinned     *ebpf.Map // nil = the set is a file
	isRegular  bool      // the file can be read again

	mu    sync.Mutex
	read  *contents            // of the file
	maps  map[keyType]*Map     // in which programs look up
	index func() *elementIndex // of the first version of the file
}

// A keyType is the type of the keys in a map of a set.
type keyType struct {
	kind     filter.SetKind
	keyBytes int // 2 of a port, 4 or 16 of an address
}

// maxName is the maximum length of a set's name: the kernel keeps 15 characters of a map's name,
// and MapName puts up to 5 before it.
const maxName = 10

var goodName = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9_]{1,%d}$`, maxName))

// CheckName returns an error for a name that a set cannot have.
func CheckName(name string) error {
	if !goodName.MatchString(name) {
		return fmt.Errorf("%q is no name of a set: must be 1 to %d letters, digits and _", name, maxName)
	}
	return nil
}

// New reads a set. path is a pinned map, or a file with an address, a network or a port in each
// line, in which a # begins a comment. open opens the file.
func New(name, path string, open func(string) (io.ReadCloser, error)) (*Set, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	s := &Set{name: name, path: path, maps: make(map[keyType]*Map)}
	if isPinned(path) {
		m, err := ebpf.LoadPinnedMap(path, &ebpf.LoadPinOptions{ReadOnly: true})
		if err != nil {
			return nil, fmt.Errorf("open the pinned map %s: %w", path, err)
		}
		s.pinned = m
		return s, nil
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() // only read
	if info, err := os.Stat(path); err == nil {
		s.isRegular = info.Mode().IsRegular()
	}
	if s.read, err = parse(f, path); err != nil {
		return nil, err
	}
	read := s.read
	s.index = sync.OnceValue(func() *elementIndex { return newIndex(read) })
	return s, nil
}

// OpenFile opens a file for New.
func OpenFile(path string) (io.ReadCloser, error) { return os.Open(path) }

func isPinned(path string) bool {
	var fs unix.Statfs_t
	return unix.Statfs(path, &fs) == nil && fs.Type == unix.BPF_FS_MAGIC
}

// Name is the name of the set.
func (s *Set) Name() string { return s.name }

// Path is the path of its file.
func (s *Set) Path() string { return s.path }

// IsFile reports whether the set is read from a file, and is no pinned map.
func (s *Set) IsFile() bool { return s.pinned == nil }

// CanReload reports whether Reload can read the file again: it is no pipe and no pinned map.
func (s *Set) CanReload() bool { return s.isRegular }

// Use implements filter.Set.
func (s *Set) Use(kind filter.SetKind) (ipv4, ipv6 bool, err error) {
	if s.pinned == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		return true, true, s.read.check(kind, s.path)
	}
	bytes, err := pinnedKey(s.pinned, kind)
	if err != nil {
		return false, false, fmt.Errorf("%s %w", s.path, err)
	}
	return bytes == 4, bytes == 16, nil
}

// pinnedKey returns how many bytes a filter looks up in a pinned map.
func pinnedKey(m *ebpf.Map, kind filter.SetKind) (int, error) {
	size, hash := int(m.KeySize()), m.Type() == ebpf.Hash || m.Type() == ebpf.LRUHash
	switch {
	case kind == filter.Networks && m.Type() == ebpf.LPMTrie && (size == 8 || size == 20):
		return size - 4, nil
	case kind == filter.Addresses && hash && (size == 4 || size == 16):
		return size, nil
	case kind == filter.Ports && hash && size == 2:
		return size, nil
	}
	needs := map[filter.SetKind]string{
		filter.Addresses: "host in needs a hash map with keys of 4 or 16 bytes",
		filter.Networks:  "net in needs a LPM trie with keys of 8 or 20 bytes",
		filter.Ports:     "port in needs a hash map with keys of 2 bytes",
	}
	return 0, fmt.Errorf("is a map of type %v with keys of %d bytes: %s", m.Type(), size, needs[kind])
}

// Contains implements filter.Set. It uses the first version of the file, without later reloads.
func (s *Set) Contains(key []byte) bool {
	if s.pinned == nil {
		return s.index().contains(key)
	}
	if s.pinned.Type() == ebpf.LPMTrie {
		e := elementOf(key, filter.Addresses)
		key = e.appendKey(nil, filter.Networks)
	}
	value := make([]byte, s.pinned.ValueSize())
	return s.pinned.Lookup(key, value) == nil
}

// Map returns the map for keys of this kind and length. The first call makes it.
func (s *Set) Map(kind filter.SetKind, keyBytes int) (*ebpf.Map, error) {
	if s.pinned != nil {
		return s.pinned, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	typ := keyType{kind, keyBytes}
	if m, ok := s.maps[typ]; ok {
		return m.Map, nil
	}
	m, err := newMap(s.name, typ, s.read)
	if err != nil {
		return nil, fmt.Errorf("set %s: %w", s.name, err)
	}
	s.maps[typ] = m
	return m.Map, nil
}

// Reload reads the file again, and changes the maps accordingly. All additions come before the
// first deletion. An error in the file changes no map.
func (s *Set) Reload() (added, deleted int, err error) {
	f, err := os.Open(s.path)
	if err != nil {
		return 0, 0, fmt.Errorf("set %s: %w", s.name, err)
	}
	defer f.Close() // only read
	now, err := parse(f, s.path)
	if err != nil {
		return 0, 0, fmt.Errorf("set %s: %w", s.name, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*difference
	for typ, m := range s.maps {
		if err := now.check(typ.kind, s.path); err != nil {
			return 0, 0, fmt.Errorf("set %s: %w", s.name, err)
		}
		d, err := m.compare(now.keys(typ))
		if err != nil {
			return 0, 0, fmt.Errorf("set %s: %w", s.name, err)
		}
		all = append(all, d)
	}
	s.read = now
	if err := order((*difference).add, (*difference).delete, all); err != nil {
		return 0, 0, fmt.Errorf("set %s: %w", s.name, err)
	}
	for _, d := range all {
		added, deleted = added+len(d.missing), deleted+len(d.surplus)
	}
	return added, deleted, nil
}

// order adds for all differences before it deletes for the first one.
func order(add, remove func(*difference) error, all []*difference) error {
	for _, step := range []func(*difference) error{add, remove} {
		for _, d := range all {
			if err := step(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close closes the maps. Programs that are loaded keep theirs.
func (s *Set) Close() error {
	errs := []error{s.pinned.Close()} // Close accepts a nil map
	for _, m := range s.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// An elementIndex looks up in the elements of a file.
type elementIndex struct {
	ports    map[uint16]bool
	prefixes map[netip.Prefix]bool
	lengths  map[int][]int // the lengths of prefixes, by the length of an address: 32 or 128 bits
}

func newIndex(c *contents) *elementIndex {
	i := &elementIndex{ports: make(map[uint16]bool), prefixes: make(map[netip.Prefix]bool, len(c.elements)), lengths: make(map[int][]int)}
	for _, e := range c.elements {
		if e.kind == filter.Ports {
			i.ports[e.port] = true
			continue
		}
		i.prefixes[e.prefix] = true
		family := e.prefix.Addr().BitLen()
		if !slices.Contains(i.lengths[family], e.prefix.Bits()) {
			i.lengths[family] = append(i.lengths[family], e.prefix.Bits())
		}
	}
	return i
}

func (i *elementIndex) contains(key []byte) bool {
	if len(key) == 2 {
		return i.ports[uint16(key[0])<<8|uint16(key[1])]
	}
	a, _ := netip.AddrFromSlice(key)
	return slices.ContainsFunc(i.lengths[a.BitLen()], func(bits int) bool {
		p, _ := a.Prefix(bits)
		return i.prefixes[p]
	})
}
