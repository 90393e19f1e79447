package xdp_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// newReasoner loads a program that writes its reasons into a map.
func newReasoner(t *testing.T) (r *testnet.Target, target xdp.Target) {
	t.Helper()
	testnet.RequireRoot(t)
	r, err := testnet.NewTarget(testnet.Reasoning)
	must(t, err)
	t.Cleanup(func() { r.Close() })
	own, err := xdp.Identify(r.Program())
	must(t, err)
	return r, xdp.Target{Program: own, Prog: r.Program()}
}

func idOf(t *testing.T, m *ebpf.Map) string {
	t.Helper()
	info, err := m.Info()
	must(t, err)
	id, _ := info.ID()
	return fmt.Sprint(id)
}

// goneMap returns the id of a map that is gone.
func goneMap(t *testing.T, spec ebpf.MapSpec) (id string) {
	t.Helper()
	m := newMap(t, spec)
	info, err := m.Info()
	must(t, err)
	number, _ := info.ID()
	m.Close()
	// Another process that looks at all maps may have it open for a moment.
	testnet.WaitFor(t, "the map to be gone", func() bool {
		held, err := ebpf.NewMapFromID(number)
		if err == nil {
			held.Close()
		}
		return errors.Is(err, os.ErrNotExist)
	})
	return fmt.Sprint(number)
}

// A map is found by its pin, its id and its name, and its enum names the reasons. Where several
// maps have the name, it is the one that the program uses.
func TestReasonMap(t *testing.T) {
	t.Parallel()
	r, target := newReasoner(t)
	other, _ := newReasoner(t)
	for _, which := range []string{pinned(t, r.Reasons()), idOf(t, r.Reasons()), "reasons"} {
		m, err := xdp.OpenReasonMap(which, target)
		if err != nil {
			t.Errorf("%s: %v", which, err)
			continue
		}
		if id := idOf(t, m.Map); id != idOf(t, r.Reasons()) || id == idOf(t, other.Reasons()) || m.Name() != "reasons" {
			t.Errorf("%s: %v", which, m)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		if got := strings.Join([]string{m.Reason(0), m.Reason(1), m.Reason(2), m.Reason(3), m.Reason(1<<32 - 1)}, " "); got != "REASON_NONE REASON_BLOCKED REASON_NO_BACKEND 3 4294967295" {
			t.Errorf("%s: %s", which, got)
		}
	}
}

// A map whose values are no enum has numbers, and a program that calls others need not use the map
// itself.
func TestReasonMapElsewhere(t *testing.T) {
	t.Parallel()
	testnet.RequireRoot(t)
	hooked, err := testnet.NewTarget(testnet.Hooked)
	must(t, err)
	defer hooked.Close()
	own, err := xdp.Identify(hooked.Program())
	must(t, err)
	name := fmt.Sprintf("why%d_truncated_by_the_kernel", os.Getpid())
	newMap(t, ebpf.MapSpec{Name: name, Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 4, MaxEntries: 3})
	m, err := xdp.OpenReasonMap(name, xdp.Target{Program: own, Prog: hooked.Program()})
	must(t, err)
	defer m.Close()
	spec := ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	m.ReplaceIn(&spec)
	if err := spec.Compatible(m.Map); err != nil || m.Reason(7) != "7" {
		t.Errorf("%v: reason %s, %v", m, m.Reason(7), err)
	}
}

// What is no map of reasons is refused with a line that says why.
func TestReasonMapErrors(t *testing.T) {
	t.Parallel()
	r, target := newReasoner(t)
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	twice, array, wide, unused := fmt.Sprintf("two%d", os.Getpid()), ebpf.MapSpec{Name: "array", Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1},
		ebpf.MapSpec{Name: "wide", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 1},
		ebpf.MapSpec{Name: "unused", Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 4, MaxEntries: 1}
	unused.Name = twice
	first, second := newMap(t, unused), newMap(t, unused)
	program := fmt.Sprintf("XDP program reasoning_target (id %d)", target.ID)
	uses := program + " uses reasons"
	gone := goneMap(t, array)
	for _, test := range []struct{ which, want string }{
		{"/no/such/map", "open the map /no/such/map: it does not exist: the program that has it must pin it there"},
		{file, "open the map " + file + ": it is not a pinned map, nor in a BPF file system"},
		{pinned(t, r.Program()), "it is a pinned program, not a map"},
		{gone, "there is no BPF map with the id " + gone},
		{"no_such_map_" + twice, "no BPF map is named no_such_map_" + twice + ": " + uses},
		{twice, "2 BPF maps are named " + twice + ": give the id of one: " + idOf(t, first) + ", " + idOf(t, second)},
		{idOf(t, newMap(t, array)), " is a map of the type Array whose values have 4 bytes: reasons are read from a PerCPUArray whose values have 4"},
		{idOf(t, newMap(t, wide)), " is a map of the type PerCPUArray whose values have 8 bytes: reasons are read from a PerCPUArray whose values have 4"},
		{idOf(t, first), program + " does not use map " + twice + " (id " + idOf(t, first) + "), so it writes no reasons there: " + uses},
	} {
		m, err := xdp.OpenReasonMap(test.which, target)
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want ...%s", test.which, err, test.want)
		}
	}
}

// A failure leaves no descriptor open.
func TestReasonMapLeavesNothing(t *testing.T) {
	_, target := newReasoner(t)
	open := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		must(t, err)
		return len(all)
	}
	array := newMap(t, ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	which := []string{"reasons", "no_such_map", idOf(t, array)}
	before := -1
	for range 2 { // the first time, this process keeps what it then uses again
		for _, one := range which {
			if m, err := xdp.OpenReasonMap(one, target); err == nil {
				m.Close()
			}
		}
		if before < 0 {
			before = open()
		}
	}
	if now := open(); now > before {
		t.Errorf("%d files are open, and %d before", now, before)
	}
}
