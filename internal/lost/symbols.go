package lost

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"sync"
)

// Symbols finds the kernel's functions by address. The kernel shows addresses if the process had
// CAP_SYSLOG when it opened the file. Symbols is safe for concurrent use.
type Symbols struct {
	mu     sync.Mutex        // guards file and known
	file   io.ReadSeekCloser // /proc/kallsyms
	known  map[uint64]string // the results of all look-ups; "" = without a name
	shared *sync.Map         // names by address that any Symbols of this process has found
}

// foundInKernel is Symbols.shared: to read the kernel's list of functions takes longer than all
// other work of reading the counters.
var foundInKernel sync.Map

// OpenSymbols opens the kernel's list of functions, which is read when a name is looked up. If this
// process may not open the list, as in a unit with ProtectKernelTunables=, no function has a name,
// as if the kernel hid the addresses.
func OpenSymbols() (*Symbols, error) {
	s := &Symbols{file: emptyList{}, known: make(map[uint64]string), shared: &foundInKernel}
	switch f, err := os.Open("/proc/kallsyms"); {
	case err == nil:
		s.file = f
	case !errors.Is(err, fs.ErrPermission):
		return nil, fmt.Errorf("open the kernel's list of functions: %w", err)
	}
	return s, nil
}

// An emptyList replaces the kernel's list if it cannot be opened.
type emptyList struct{}

func (emptyList) Read([]byte) (int, error)       { return 0, io.EOF }
func (emptyList) Seek(int64, int) (int64, error) { return 0, nil }
func (emptyList) Close() error                   { return nil }

// SymbolsHidden reports whether the kernel shows this process all functions at address 0.
func SymbolsHidden() bool {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return true
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		address, kind, _, ok := parseSymbol(lines.Bytes())
		if ok && (kind == 't' || kind == 'T') {
			return address == 0
		}
	}
	return true
}

// Close closes the list.
func (s *Symbols) Close() error { return s.file.Close() }

// Find returns the name of the function at each address, without the suffix that the compiler
// appends to the name of a copy, as in tcp_rcv.isra.0. Addresses without a name are omitted. If the
// kernel hides addresses, all are.
func (s *Symbols) Find(addresses []uint64) (map[uint64]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var unknown []uint64
	for _, a := range addresses {
		if _, ok := s.known[a]; ok {
			continue
		}
		if name, ok := s.shared.Load(a); ok {
			s.known[a] = name.(string)
		} else {
			unknown = append(unknown, a)
		}
	}
	if len(unknown) > 0 {
		if err := s.read(unknown); err != nil {
			return nil, fmt.Errorf("read the kernel's list of functions: %w", err)
		}
	}
	names := make(map[uint64]string, len(addresses))
	for _, a := range addresses {
		if name := s.known[a]; name != "" {
			names[a] = name
		}
	}
	return names, nil
}

// read finds the last function at or before each address. The list is ordered only within the
// kernel and within each module.
func (s *Symbols) read(addresses []uint64) error {
	slices.Sort(addresses)
	addresses = slices.Compact(addresses)
	starts := make([]uint64, len(addresses)) // of the best function so far for each address
	names := make([][]byte, len(addresses))
	err := s.each(func(start uint64, name []byte) {
		first, _ := slices.BinarySearch(addresses, start)
		for i := first; i < len(addresses) && starts[i] <= start; i++ {
			starts[i], names[i] = start, append(names[i][:0], name...)
		}
	})
	for i, a := range addresses {
		name, _, _ := bytes.Cut(names[i], []byte("."))
		if s.known[a] = string(name); len(name) > 0 {
			s.shared.Store(a, string(name))
		}
	}
	return err
}

// Name returns the name of the function at an address, or the address in hexadecimal.
func (s *Symbols) Name(address uint64) string {
	names, err := s.Find([]uint64{address})
	if name := names[address]; err == nil && name != "" {
		return name
	}
	return fmt.Sprintf("%#x", address)
}

// A Range is the addresses of a function; To is the first address after them.
type Range struct{ From, To uint64 }

// findRanges adds the address ranges of the functions that are the map's keys. A function has
// several ranges if the compiler has split or copied it, and none if the kernel does not have it or
// hides its address.
func (s *Symbols) findRanges(functions map[string][]Range) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []uint64
	starts := make(map[uint64]string)
	err := s.each(func(address uint64, name []byte) {
		all = append(all, address)
		name, _, _ = bytes.Cut(name, []byte("."))
		if _, wanted := functions[string(name)]; wanted {
			starts[address] = string(name)
		}
	})
	if err != nil {
		return fmt.Errorf("read the kernel's list of functions: %w", err)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for i, start := range all {
		if name, ok := starts[start]; ok && i+1 < len(all) {
			functions[name] = append(functions[name], Range{start, all[i+1]})
		}
	}
	return nil
}

// each calls do with all functions whose addresses are visible.
func (s *Symbols) each(do func(address uint64, name []byte)) error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	lines := bufio.NewScanner(s.file)
	for lines.Scan() {
		address, kind, name, ok := parseSymbol(lines.Bytes())
		if ok && address != 0 && bytes.ContainsRune([]byte("tTwW"), rune(kind)) {
			do(address, name)
		}
	}
	return lines.Err()
}

// parseSymbol parses a line: "ffffffff81234560 T kfree_skb	[module]".
func parseSymbol(line []byte) (address uint64, kind byte, name []byte, ok bool) {
	hex, rest, found := bytes.Cut(line, []byte(" "))
	if !found || len(rest) < 3 || rest[1] != ' ' {
		return 0, 0, nil, false
	}
	address, err := strconv.ParseUint(string(hex), 16, 64)
	if err != nil {
		return 0, 0, nil, false
	}
	name, _, _ = bytes.Cut(rest[2:], []byte("\t"))
	return address, rest[0], name, true
}
