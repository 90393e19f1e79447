package xdp_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func newMap(t *testing.T, spec ebpf.MapSpec) *ebpf.Map {
	t.Helper()
	testnet.RequireRoot(t)
	m, err := ebpf.NewMap(&spec)
	must(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

// pinned makes a BPF file system and pins what pin pins at a path there.
func pinned(t *testing.T, pin interface{ Pin(string) error }) (path string) {
	t.Helper()
	dir := t.TempDir()
	testnet.MustMount(t, "bpf", dir, 0, "")
	path = filepath.Join(dir, "hook")
	must(t, pin.Pin(path))
	return path
}

func newProgramArray(t *testing.T, slots uint32) *ebpf.Map {
	t.Helper()
	return newMap(t, ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: slots})
}

func openHookMap(t *testing.T, path string) *xdp.HookMap {
	t.Helper()
	h, err := xdp.OpenHookMap(path)
	must(t, err)
	t.Cleanup(func() { h.Close() })
	return h
}

// A killed process leaves programs in the slots. Only those that the caller calls its own are
// replaced, and those only where no process has the map locked.
func TestHookMapLock(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, inSlot string
		locked       bool
		want         string // in the error; "" = none
	}{
		{"empty", "", false, ""},
		{"empty, and locked by somebody who puts nothing into it", "", true, ""},
		{"ours", "ours", false, ""},
		{"ours, and locked by another process", "ours", true, "another xdpcap captures there: stop that first"},
		{"another's", "theirs", false, "slot tx holds program theirs (id "},
		{"another's, and locked", "theirs", true, "slot tx holds program theirs (id "},
	} {
		t.Run(test.name, func(t *testing.T) {
			m := newProgramArray(t, 5)
			path := pinned(t, m)
			if test.inSlot != "" {
				must(t, m.Put(uint32(xdp.Tx), testnet.MustPassing(t, test.inSlot)))
			}
			if test.locked {
				openHookMap(t, path).Lock("ours")
			}
			err := openHookMap(t, path).Lock("ours")
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), "hook map "+path+": "+test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

// Each of several maps in one directory has a lock of its own, and the directory can be locked with
// flock(2) meanwhile, as libxdp does it.
func TestHookMapsInOneDirectory(t *testing.T) {
	t.Parallel()
	first, second := newProgramArray(t, 5), newProgramArray(t, 5)
	path := pinned(t, first)
	must(t, second.Pin(path+"2"))
	for i, m := range []*ebpf.Map{first, second} {
		if err := openHookMap(t, path+[]string{"", "2"}[i]).Lock("ours"); err != nil {
			t.Errorf("map %d: %v", i, err)
		}
		must(t, m.Put(uint32(xdp.Tx), testnet.MustPassing(t, "ours")))
	}
	dir, err := os.Open(filepath.Dir(path))
	must(t, err)
	defer dir.Close()
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Errorf("flock: %v", err)
	}
}

func TestOpenHookMapErrors(t *testing.T) {
	t.Parallel()
	program := pinned(t, testnet.MustPassing(t, "program"))
	file := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(file, nil, 0o600))
	for path, want := range map[string]string{
		"/no/such/map":                   "it does not exist: the program that has it must pin it there",
		filepath.Dir(program):            "it is a directory, not a pinned map",
		filepath.Dir(file):               "it is a directory, not a pinned map",
		file:                             "it is not a pinned map, nor in a BPF file system",
		program:                          "it is a pinned program, not a map",
		pinned(t, newProgramArray(t, 3)): "is not a hook map: that is a program array with 5 slots, one for each verdict; this is a map of the type ProgramArray with 3",
	} {
		if _, err := xdp.OpenHookMap(path); err == nil || !strings.HasSuffix(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want ...%s", path, err, want)
		}
	}
}

// Close empties a slot that holds the program, and leaves alone one that somebody else has emptied
// or filled. Check tells these apart.
func TestHookMapSlot(t *testing.T) {
	t.Parallel()
	m := newProgramArray(t, 5)
	h := openHookMap(t, pinned(t, m))
	put := func(v xdp.Verdict) *xdp.Slot {
		slot, err := h.Put(v, testnet.MustPassing(t, "ours"))
		must(t, err)
		if err := slot.Check(); err != nil {
			t.Errorf("at first: %v", err)
		}
		return slot
	}
	kept, emptied, taken := put(xdp.Drop), put(xdp.Pass), put(xdp.Tx)
	must(t, m.Delete(uint32(xdp.Pass)))
	must(t, m.Put(uint32(xdp.Tx), testnet.MustPassing(t, "theirs")))
	if err := emptied.Check(); err == nil || err.Error() != "slot pass was emptied" {
		t.Errorf("an emptied slot: %v", err)
	}
	if err := taken.Check(); err == nil || !strings.HasPrefix(err.Error(), "slot tx holds program theirs (id ") {
		t.Errorf("a taken slot: %v", err)
	}
	for range 2 {
		for _, slot := range []*xdp.Slot{kept, emptied, taken} {
			if err := slot.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	var id uint32
	for _, v := range []xdp.Verdict{xdp.Drop, xdp.Pass} {
		if err := m.Lookup(uint32(v), &id); !errors.Is(err, ebpf.ErrKeyNotExist) {
			t.Errorf("slot %v holds program %d, %v", v, id, err)
		}
	}
	if err := m.Lookup(uint32(xdp.Tx), &id); err != nil {
		t.Errorf("the other's program has gone: %v", err)
	}
	late := put(xdp.Aborted)
	for range 2 {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := late.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a slot of a closed map: %v, want %v", err, os.ErrClosed)
	}
}
