package set

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// file writes a file of a set.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "blocked")
	write(t, path, text)
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, path string) *Set {
	t.Helper()
	s, err := New("blocked", path, OpenFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A faulty file is refused with its name and the line.
func TestFaultyFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"10.0.0.1\n\n10.0.0\n":              `line 3 of PATH: "10.0.0": must be an IP address, a network such as 192.0.2.0/24, or a port`,
		"10.0.0.1 10.0.0.2":                 `line 1 of PATH: "10.0.0.1 10.0.0.2": must be an IP address, a network such as 192.0.2.0/24, or a port`,
		"# nets\n10.0.0.1/8":                `line 2 of PATH: 10.0.0.1/8 has host bits set: did you mean 10.0.0.0/8?`,
		"10.0.0.0/33":                       `line 1 of PATH: "10.0.0.0/33" is no network: must be an address and the length of its prefix, such as 192.0.2.0/24`,
		"fe80::1%eth0":                      `line 1 of PATH: "fe80::1%eth0": must be an IP address, a network such as 192.0.2.0/24, or a port`,
		"80\n65536":                         `line 2 of PATH: "65536": must be an IP address, a network such as 192.0.2.0/24, or a port`,
		"80\n" + strings.Repeat("8", 1<<17): `read line 2 of PATH: bufio.Scanner: token too long`,
	} {
		path := file(t, text)
		_, err := New("blocked", path, OpenFile)
		if want = strings.ReplaceAll(want, "PATH", path); err == nil || err.Error() != want {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
	for _, name := range []string{"", "a-b", "elevenbytes", "ü"} {
		if _, err := New(name, file(t, ""), OpenFile); err == nil {
			t.Errorf("%q is taken as a name", name)
		}
	}
}

// A set is refused where its elements do not fit, with the line of the first one.
func TestUse(t *testing.T) {
	t.Parallel()
	names := map[filter.SetKind]string{filter.Addresses: "host", filter.Networks: "net", filter.Ports: "port"}
	for text, want := range map[string]string{
		"":                           "host net port",
		"10.0.0.1 # one\n2001:db8::": "host net",
		"10.0.0.1\n10.0.0.0/8":       "net",
		"\t80 \r\n":                  "port",
		"80\n10.0.0.1":               "",
	} {
		s := open(t, file(t, text))
		var got []string
		for _, kind := range []filter.SetKind{filter.Addresses, filter.Networks, filter.Ports} {
			if _, _, err := s.Use(kind); err == nil {
				got = append(got, names[kind])
			} else if !strings.Contains(err.Error(), "line ") || !strings.Contains(err.Error(), s.path) {
				t.Errorf("%q: %v", text, err)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q can be used for %v, want %s", text, got, want)
		}
	}
}

// elementsOf are those of a running set, as text.
func elementsOf(t *testing.T, l *Live) (all []string) {
	t.Helper()
	elements, err := l.Elements()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range elements {
		all = append(all, e.String())
	}
	return all
}

// A reload makes the maps as the file is, whatever they were, and leaves them as they are if the
// file is faulty or too long.
func TestReload(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	path := file(t, "10.0.0.1\n10.0.0.2\n2001:db8::1\n")
	name := fmt.Sprint("r", os.Getpid())
	s, err := New(name, path, OpenFile)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, typ := range []keyType{{filter.Addresses, 4}, {filter.Addresses, 16}, {filter.Networks, 4}} {
		if _, err := s.Map(typ.kind, typ.keyBytes); err != nil {
			t.Fatal(err)
		}
	}
	l := &Live{name: name}
	for _, m := range s.maps {
		l.maps = append(l.maps, m)
	}
	added, err := ParseElement("10.0.0.9")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Add(added); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"10.0.0.1", "10.0.0.2", "10.0.0.9", "2001:db8::1"}, elementsOf(t, l)); diff != "" {
		t.Fatal(diff)
	}
	for text, want := range map[string]string{
		"10.0.0.1\n10.0.0.": "line 2 of ",
		"10.0.0.1\n80":      "line 2 of ",
		"10.0.0.0/8":        "is a network: write net in", // it does not fit into one of the maps
	} {
		write(t, path, text)
		if _, _, err := s.Reload(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	if diff := cmp.Diff([]string{"10.0.0.1", "10.0.0.2", "10.0.0.9", "2001:db8::1"}, elementsOf(t, l)); diff != "" {
		t.Errorf("after faulty files: %s", diff)
	}
	write(t, path, "10.0.0.2\n10.0.0.3\n2001:db8::1\n2001:db8::2\n")
	if added, deleted, err := s.Reload(); err != nil || added != 3 || deleted != 4 { // those of IPv4 are in two maps
		t.Errorf("%d added, %d deleted, %v", added, deleted, err)
	}
	if diff := cmp.Diff([]string{"10.0.0.2", "10.0.0.3", "2001:db8::1", "2001:db8::2"}, elementsOf(t, l)); diff != "" {
		t.Errorf("after a reload: %s", diff)
	}
}

// A reload for which there is no room, with new elements beside the old ones, changes nothing.
func TestReloadFull(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	list := func(network, n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%d.%d.%d.%d\n", network, i>>16, i>>8&0xff, i&0xff)
		}
		return b.String()
	}
	const n = 40_000 // twice as many are more than the set has room for
	path := file(t, list(1, n))
	s := open(t, path)
	m, err := s.Map(filter.Addresses, 4)
	if err != nil {
		t.Fatal(err)
	}
	size := func() int {
		keys, err := (&Map{m, filter.Addresses}).batch().all()
		if err != nil {
			t.Fatal(err)
		}
		return len(keys)
	}
	write(t, path, list(2, 100_000))
	if _, _, err := s.Reload(); err == nil || !strings.Contains(err.Error(), "it has room for 131072 elements") || size() != n {
		t.Errorf("%v, %d elements", err, size())
	}
	write(t, path, list(2, n))
	if _, _, err := s.Reload(); err != nil || size() != n {
		t.Errorf("%v, %d elements", err, size())
	}
}

// A change that the kernel refuses as a whole is an error, although its count of changed keys is
// then that of all keys.
func TestRefused(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	path := file(t, "192.0.2.1\n")
	s := open(t, path)
	m, err := s.Map(filter.Addresses, 4)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Freeze(); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"192.0.2.1\n192.0.2.2\n", ""} {
		write(t, path, text)
		if added, deleted, err := s.Reload(); !errors.Is(err, unix.EPERM) {
			t.Errorf("%q: %d added, %d deleted, %v", text, added, deleted, err)
		}
	}
}

// The error for a file with elements of two wrong kinds is about the first of them, each time.
func TestUseOfMixedFile(t *testing.T) {
	t.Parallel()
	s := open(t, file(t, "80\n192.0.2.0/24\n"))
	for range 50 { // enough for a map's random order to differ
		if _, _, err := s.Use(filter.Addresses); err == nil || !strings.Contains(err.Error(), "line 1 ") {
			t.Fatal(err)
		}
	}
}

// While a reload runs, no element that is in the set before and after is missing, and no packet
// sees a set without new elements and old ones: new ones come before old ones go.
func TestReloadOrder(t *testing.T) {
	t.Parallel()
	var steps []string
	d := &difference{missing: []string{"new"}, surplus: []string{"old"}}
	order(func(got *difference) error { steps = append(steps, "add "+got.missing[0]); return nil },
		func(got *difference) error { steps = append(steps, "delete "+got.surplus[0]); return nil }, []*difference{d, d})
	if want := []string{"add new", "add new", "delete old", "delete old"}; !slices.Equal(steps, want) {
		t.Errorf("%q, want %q", steps, want)
	}
}

// Pinned maps of others are used with the keys that they have, and refused with other keys.
func TestPinned(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	for _, test := range []struct {
		spec ebpf.MapSpec
		want string
	}{
		{ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8}, "host of IPv4"},
		{ebpf.MapSpec{Type: ebpf.LRUHash, KeySize: 16, ValueSize: 1}, "host of IPv6"},
		{ebpf.MapSpec{Type: ebpf.LPMTrie, KeySize: 8, ValueSize: 1, Flags: noPrealloc}, "net of IPv4"},
		{ebpf.MapSpec{Type: ebpf.LPMTrie, KeySize: 20, ValueSize: 1, Flags: noPrealloc}, "net of IPv6"},
		{ebpf.MapSpec{Type: ebpf.Hash, KeySize: 2, ValueSize: 4}, "port"},
		{ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 4}, ""},
		{ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4}, ""},
	} {
		test.spec.MaxEntries = 8
		m, err := ebpf.NewMap(&test.spec)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		s := &Set{name: "theirs", path: "/sys/fs/bpf/theirs", pinned: m}
		var got []string
		for kind, name := range map[filter.SetKind]string{filter.Addresses: "host", filter.Networks: "net", filter.Ports: "port"} {
			v4, v6, err := s.Use(kind)
			switch {
			case err != nil:
				if !strings.HasPrefix(err.Error(), "/sys/fs/bpf/theirs is a map of type ") {
					t.Error(err)
				}
			case v4:
				got = append(got, name+" of IPv4")
			case v6:
				got = append(got, name+" of IPv6")
			default:
				got = append(got, name)
			}
		}
		if strings.Join(got, ", ") != test.want {
			t.Errorf("%v with keys of %d bytes: %q, want %q", test.spec.Type, test.spec.KeySize, got, test.want)
		}
	}
}
