package drops

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
)

// symbols finds the kernel's functions by address. The kernel shows addresses to whoever had
// CAP_SYSLOG when the file was opened. Concurrent calls are allowed.
type symbols struct {
	mu    sync.Mutex
	file  io.ReadSeekCloser
	known map[uint64]string
}

// openSymbols opens the kernel's list of functions. They are read when a name is asked for.
func openSymbols() (*symbols, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, fmt.Errorf("open the kernel's list of functions: %w", err)
	}
	return &symbols{file: f, known: make(map[uint64]string)}, nil
}

func (s *symbols) close() error { return s.file.Close() }

// symbolsHidden tells whether the kernel shows this process all functions at address 0.
func symbolsHidden() bool {
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

// find returns the name of the function at each address. An address without a name is omitted:
// where the kernel hides addresses, all are.
func (s *symbols) find(addresses []uint64) (map[uint64]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var unknown []uint64
	for _, a := range addresses {
		if _, ok := s.known[a]; !ok {
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

// read looks for the last function at or before each address. The list is ordered within the
// kernel and within each module only.
func (s *symbols) read(addresses []uint64) error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	slices.Sort(addresses)
	addresses = slices.Compact(addresses)
	best := make([]uint64, len(addresses))
	names := make([]string, len(addresses))
	lines := bufio.NewScanner(s.file)
	for lines.Scan() {
		address, kind, name, ok := parseSymbol(lines.Bytes())
		if !ok || address == 0 || !bytes.ContainsRune([]byte("tTwW"), rune(kind)) {
			continue
		}
		first, _ := slices.BinarySearch(addresses, address)
		for i := first; i < len(addresses) && best[i] <= address; i++ {
			best[i], names[i] = address, string(name)
		}
	}
	for i, a := range addresses {
		s.known[a] = names[i]
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
