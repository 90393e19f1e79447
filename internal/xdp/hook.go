package xdp

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A HookMap is a pinned program array with one slot for each verdict, which an XDP program calls into before it
// returns that verdict: the convention of github.com/cloudflare/xdpcap. One process at a time may have it.
type HookMap struct {
	path string
	m    *ebpf.Map
	lock int // a socket: its name is held until the process ends, however it ends
}

// Slots is how many verdicts a hook map has slots for.
const Slots = uint32(UnknownVerdict)

// OpenHookMap takes hold of a hook map. It refuses one whose slots are in use; what a killed xdpcap left there does not
// count.
func OpenHookMap(path string) (*HookMap, error) {
	m, err := ebpf.LoadPinnedMap(path, nil)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("hook map %s does not exist: the program that has it must pin it there", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open hook map %s: %w", path, err)
	}
	h := &HookMap{path: path, m: m, lock: -1}
	if err := h.take(); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

func (h *HookMap) take() error {
	if h.m.Type() != ebpf.ProgramArray || h.m.MaxEntries() < Slots {
		return fmt.Errorf("%s is not a hook map: that is a program array with %d slots, one for each verdict; this is a %s with %d",
			h.path, Slots, h.m.Type(), h.m.MaxEntries())
	}
	info, err := h.m.Info()
	if err != nil {
		return fmt.Errorf("look at hook map %s: %w", h.path, err)
	}
	id, _ := info.ID()
	if h.lock, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("lock hook map %s: %w", h.path, err)
	}
	name := fmt.Sprintf("@xdpcap-hook-%d", id)
	if err := unix.Bind(h.lock, &unix.SockaddrUnix{Name: name}); err != nil {
		return fmt.Errorf("hook map %s: another xdpcap captures there: end that first", h.path)
	}
	for v := range Verdict(Slots) {
		var id uint32
		if err := h.m.Lookup(uint32(v), &id); err != nil {
			continue // empty
		}
		if name := programName(id); name != sampler {
			return fmt.Errorf("hook map %s: slot %s holds program %s: end what put it there first", h.path, v, Program{id, name})
		}
	}
	return nil
}

// sampler is what our programs are called in bpf/sampler.c.
const sampler = "sample_xdp"

// Put has the program called for packets with a verdict, until the slot is closed. The error wraps EINVAL where the map's
// owner takes packets of several buffers and the program does not, or the other way round.
func (h *HookMap) Put(verdict Verdict, prog *ebpf.Program) (io.Closer, error) {
	if err := h.m.Put(uint32(verdict), prog); err != nil {
		return nil, fmt.Errorf("put a program into slot %s of hook map %s: %w", verdict, h.path, err)
	}
	return slot{h, verdict}, nil
}

// A slot is one that holds a program of ours.
type slot struct {
	h       *HookMap
	verdict Verdict
}

// Close empties it, as it was before.
func (s slot) Close() error {
	if err := s.h.m.Delete(uint32(s.verdict)); err != nil {
		return fmt.Errorf("empty slot %s of hook map %s: %w", s.verdict, s.h.path, err)
	}
	return nil
}

// Close lets go of the map. Its slots come first.
func (h *HookMap) Close() error {
	var err error
	if h.lock >= 0 {
		err = unix.Close(h.lock)
		h.lock = -1
	}
	return errors.Join(err, h.m.Close())
}
