package xdp_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func loadNamed(t *testing.T, name string) *ebpf.Program {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         name,
		Type:         ebpf.XDP,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, int32(xdp.Pass)), asm.Return()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	return prog
}

// newHookMap makes a hook map that is not pinned anywhere.
func newHookMap(t *testing.T) *xdp.HookMap {
	t.Helper()
	testnet.RequireRoot(t)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.ProgramArray, KeySize: 4, ValueSize: 4, MaxEntries: xdp.Slots})
	if err != nil {
		t.Fatal(err)
	}
	h := xdp.NewHookMap("/hook", m)
	t.Cleanup(func() { h.Close() })
	return h
}

// A killed process leaves programs in the slots. Only those that the caller calls its own are
// replaced.
func TestHookMapLeftovers(t *testing.T) {
	for _, test := range []struct {
		name, inSlot string
		want         string // in the error; "" = none
	}{
		{"empty", "", ""},
		{"ours", "ours", ""},
		{"another's", "theirs", "hook map /hook: slot tx holds program theirs (id "},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newHookMap(t)
			if test.inSlot != "" {
				if err := h.Map().Put(uint32(xdp.Tx), loadNamed(t, test.inSlot)); err != nil {
					t.Fatal(err)
				}
			}
			err := h.Take("ours")
			if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}

func TestHookMapLock(t *testing.T) {
	h := newHookMap(t)
	if err := h.Take(""); err != nil {
		t.Fatal(err)
	}
	m, err := h.Map().Clone()
	if err != nil {
		t.Fatal(err)
	}
	again := xdp.NewHookMap("/hook", m)
	defer again.Close()
	if err := again.Take(""); err == nil || !strings.Contains(err.Error(), "another xdpcap captures there") {
		t.Errorf("a second one: %v", err)
	}
}

// Close empties a slot, or returns an error where the slot cannot be emptied. A second Close does
// nothing.
func TestHookMapClose(t *testing.T) {
	h := newHookMap(t)
	drop, err := h.Put(xdp.Drop, loadNamed(t, "ours"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := drop.Close(); err != nil {
			t.Error(err)
		}
	}
	var id uint32
	if err := h.Map().Lookup(uint32(xdp.Drop), &id); !errors.Is(err, ebpf.ErrKeyNotExist) {
		t.Errorf("the slot holds program %d, %v", id, err)
	}

	pass, err := h.Put(xdp.Pass, loadNamed(t, "ours"))
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Map().Delete(uint32(xdp.Pass)); err != nil {
		t.Fatal(err)
	}
	const want = "empty slot pass of hook map /hook: "
	if err := pass.Close(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("a slot that somebody else emptied: %v, want %s...", err, want)
	}
	for range 2 {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := pass.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a slot of a closed map: %v, want %v", err, os.ErrClosed)
	}
}
