package xdp

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A HookMap is a pinned program array with one slot for each verdict. An XDP program makes a tail
// call into the slot of the verdict that it is about to return: the convention of
// github.com/cloudflare/xdpcap. One process at a time may hold a hook map. One goroutine may use it
// at a time.
type HookMap struct {
	path string
	m    *ebpf.Map // nil = closed

	// lock is a socket with a name that belongs to the map; -1 = none. The kernel frees the name
	// when the process ends, however it ends.
	lock int
}

// Slots is how many verdicts a hook map has slots for.
const Slots = uint32(UnknownVerdict)

// OpenHookMap takes hold of the hook map that is pinned at path. It refuses one whose slots are in
// use. Slots that hold a program with the name leftover do not count as in use, because a killed
// process of ours left it there.
func OpenHookMap(path, leftover string) (*HookMap, error) {
	m, err := ebpf.LoadPinnedMap(path, nil)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("hook map %s does not exist: the program that has it must pin it there", path)
	}
	if err != nil {
		return nil, fmt.Errorf("open hook map %s: %w", path, err)
	}
	h := &HookMap{path: path, m: m, lock: -1}
	if err := h.take(leftover); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

func (h *HookMap) take(leftover string) error {
	if h.m.Type() != ebpf.ProgramArray || h.m.MaxEntries() < Slots {
		return fmt.Errorf("%s is not a hook map: that is a program array with %d slots, one for each verdict; this is a %s with %d",
			h.path, Slots, h.m.Type(), h.m.MaxEntries())
	}
	if err := h.takeLock(); err != nil {
		return err
	}
	for v := range Verdict(Slots) {
		var id uint32
		err := h.m.Lookup(uint32(v), &id)
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("look at slot %s of hook map %s: %w", v, h.path, err)
		}
		if name := programName(id); name != leftover {
			return fmt.Errorf("hook map %s: slot %s holds program %s: end what put it there first", h.path, v, Program{id, name})
		}
	}
	return nil
}

// takeLock binds a socket to a name that belongs to the map. The kernel gives a name to one socket
// at a time.
func (h *HookMap) takeLock() error {
	info, err := h.m.Info()
	if err != nil {
		return fmt.Errorf("look at hook map %s: %w", h.path, err)
	}
	id, _ := info.ID()
	if h.lock, err = unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("lock hook map %s: %w", h.path, err)
	}
	err = unix.Bind(h.lock, &unix.SockaddrUnix{Name: fmt.Sprintf("@xdpcap-hook-%d", id)})
	if errors.Is(err, unix.EADDRINUSE) {
		return fmt.Errorf("hook map %s: another xdpcap captures there: end that first", h.path)
	}
	if err != nil {
		return fmt.Errorf("lock hook map %s: %w", h.path, err)
	}
	return nil
}

// Put makes the owner of the map call the program for packets with a verdict, until the returned
// slot is closed. The error wraps EINVAL where the owner of the map takes packets of several
// buffers and the program does not, or the other way round.
func (h *HookMap) Put(verdict Verdict, prog *ebpf.Program) (io.Closer, error) {
	if err := h.m.Put(uint32(verdict), prog); err != nil {
		return nil, fmt.Errorf("put a program into slot %s of hook map %s: %w", verdict, h.path, err)
	}
	return &slot{h: h, verdict: verdict}, nil
}

// Check returns an error where the slot of a verdict does not hold the program any more.
func (h *HookMap) Check(verdict Verdict, prog *ebpf.Program) error {
	own, err := Identify(prog)
	if err != nil {
		return nil // that says nothing about the slot
	}
	var id uint32
	err = h.m.Lookup(uint32(verdict), &id)
	switch {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		return fmt.Errorf("slot %s of hook map %s was emptied", verdict, h.path)
	case err == nil && id != own.ID:
		return fmt.Errorf("slot %s of hook map %s holds XDP program %s now", verdict, h.path, Program{id, programName(id)})
	}
	return nil
}

// A slot is a slot of the map that holds a program of ours.
type slot struct {
	h       *HookMap
	verdict Verdict
	emptied bool
}

// Close empties the slot. A second call does nothing, except after an error: then it tries again,
// because the program is called until the slot is empty.
func (s *slot) Close() error {
	if s.emptied {
		return nil
	}
	err := os.ErrClosed
	if s.h.m != nil {
		err = s.h.m.Delete(uint32(s.verdict))
	}
	if err != nil {
		return fmt.Errorf("empty slot %s of hook map %s: %w", s.verdict, s.h.path, err)
	}
	s.emptied = true
	return nil
}

// Close lets go of the map. Its slots must be closed before. A second call does nothing.
func (h *HookMap) Close() error {
	if h.m == nil {
		return nil
	}
	var errs []error
	if h.lock >= 0 {
		errs = append(errs, unix.Close(h.lock))
	}
	errs = append(errs, h.m.Close())
	h.m, h.lock = nil, -1
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close hook map %s: %w", h.path, err)
	}
	return nil
}
