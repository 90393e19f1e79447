package xdp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// A HookMap is a pinned program array with one slot for each verdict. An XDP program makes a tail
// call into the slot of the verdict that it is about to return: the convention of
// github.com/cloudflare/xdpcap. One goroutine may use it at a time.
type HookMap struct {
	path string
	m    *ebpf.Map // nil = closed

	callers []Program // the programs that call the map, if this process may see them

	// lock is the directory in which the map is pinned; -1 = the map is not locked. The kernel
	// releases the lock when the process ends.
	lock int
}

// A map has a slot for each verdict. Maps of an older convention lack the last slot, for redirect.
const (
	maxSlots = int(UnknownVerdict)
	minSlots = maxSlots - 1
)

// OpenHookMap opens the hook map that is pinned at path.
func OpenHookMap(path string) (*HookMap, error) {
	m, err := ebpf.LoadPinnedMap(path, nil)
	if err != nil {
		return nil, fmt.Errorf("open hook map %s: %w", path, explainPin(path, err))
	}
	h := &HookMap{path: path, m: m, lock: -1}
	if m.Type() != ebpf.ProgramArray || int(m.MaxEntries()) < minSlots {
		return nil, errors.Join(fmt.Errorf("%s is not a hook map: that is a program array with %d slots, one for each verdict; "+
			"this is a map of the type %s with %d", path, maxSlots, m.Type(), m.MaxEntries()), h.Close())
	}
	return h, nil
}

// explainPin explains why a path has no pinned map. The kernel's error numbers alone are not clear.
func explainPin(path string, err error) error {
	var fs unix.Statfs_t
	info, e := os.Stat(path)
	switch {
	case errors.Is(e, os.ErrNotExist):
		return errors.New("it does not exist: the program that has it must pin it there")
	case e != nil:
		return err
	case info.IsDir():
		return errors.New("it is a directory, not a pinned map")
	case unix.Statfs(path, &fs) == nil && fs.Type != unix.BPF_FS_MAGIC:
		return errors.New("it is not a pinned map, nor in a BPF file system")
	}
	if p, e := ebpf.LoadPinnedProgram(path, nil); e == nil {
		p.Close()
		return errors.New("it is a pinned program, not a map")
	}
	return err
}

// Slots returns the number of slots: one for each verdict from 0 on.
func (h *HookMap) Slots() int { return min(int(h.m.MaxEntries()), maxSlots) }

// Lock marks the map as in use by this process, and refuses a map that another process uses. Slots
// that hold a program named leftover count as in use only while another process has the map locked.
// Otherwise a killed process left them behind.
func (h *HookMap) Lock(leftover string) error {
	err := h.takeLock()
	if err != nil {
		return fmt.Errorf("lock hook map %s: %w", h.path, err)
	}
	shared, err := h.isShared()
	if err != nil {
		return fmt.Errorf("look who else uses hook map %s: %w", h.path, err)
	}
	for v := range Verdict(h.Slots()) {
		id, err := h.lookup(v)
		if err != nil {
			return err
		}
		p := Program{ID: id, Name: ProgramName(id)}
		switch {
		case id == 0:
		case p.Name != leftover:
			return fmt.Errorf("hook map %s: slot %s holds program %s: stop the program that put it there first", h.path, v, p)
		case shared:
			return fmt.Errorf("hook map %s: another xdpcap captures there: stop that first", h.path)
		}
	}
	return nil
}

// takeLock puts a read lock on one byte of the directory in which the map is pinned. The byte's
// offset is the map's id, so that each map in a directory has its own lock. A pinned map cannot be
// opened as a file, but its directory can, and is the same in every network namespace and
// container. It is a read lock because a directory cannot be opened for writing. The flock(2) of
// libxdp on whole directories is independent of it.
func (h *HookMap) takeLock() (err error) {
	pin, err := filepath.EvalSymlinks(h.path)
	if err != nil {
		return err
	}
	if h.lock, err = unix.Open(filepath.Dir(pin), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open its directory: %w", err)
	}
	lock, err := h.byteLock(unix.F_RDLCK)
	if err != nil {
		return err
	}
	return unix.FcntlFlock(uintptr(h.lock), unix.F_OFD_SETLK, lock)
}

// isShared reports whether another process has the map locked, too: then a write lock is refused.
func (h *HookMap) isShared() (bool, error) {
	lock, err := h.byteLock(unix.F_WRLCK)
	if err != nil {
		return false, err
	}
	err = unix.FcntlFlock(uintptr(h.lock), unix.F_OFD_GETLK, lock)
	return lock.Type != unix.F_UNLCK, err
}

func (h *HookMap) byteLock(kind int16) (*unix.Flock_t, error) {
	info, err := h.m.Info()
	if err != nil {
		return nil, err
	}
	id, _ := info.ID()
	return &unix.Flock_t{Type: kind, Whence: unix.SEEK_SET, Start: int64(id), Len: 1}, nil
}

// lookup returns the id of the program in a slot; 0 = the slot is empty.
func (h *HookMap) lookup(verdict Verdict) (id uint32, err error) {
	if h.m == nil {
		return 0, fmt.Errorf("look at slot %s of hook map %s: %w", verdict, h.path, os.ErrClosed)
	}
	err = h.m.Lookup(uint32(verdict), &id)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at slot %s of hook map %s: %w", verdict, h.path, err)
	}
	return id, nil
}

// Put makes the map's owner call prog for packets with a verdict, until the returned slot is
// closed. The error wraps EINVAL if the map does not take this kind of program: all programs in a
// map, and the programs that call them, must agree in whether they take packets in several buffers
// and, on newer kernels, in their attach type.
func (h *HookMap) Put(verdict Verdict, prog *ebpf.Program) (*Slot, error) {
	own, err := Identify(prog)
	if err != nil {
		return nil, fmt.Errorf("ask for a program's id: %w", err)
	}
	if err := h.m.Put(uint32(verdict), prog); err != nil {
		return nil, fmt.Errorf("put a program into slot %s of hook map %s: %w", verdict, h.path, err)
	}
	return &Slot{h: h, verdict: verdict, id: own.ID}, nil
}

// Obstacle returns why the map takes no XDP program: because of the type of its owner, or because
// the owner is not compiled by the JIT, as the kernel shows in fdinfo.
func (h *HookMap) Obstacle() string {
	owner, _ := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", h.m.FD()))
	for line := range strings.Lines(string(owner)) {
		key, value, _ := strings.Cut(line, ":")
		n, err := strconv.Atoi(strings.TrimSpace(value))
		switch {
		case err != nil:
		case key == "owner_prog_type" && ebpf.ProgramType(n) != ebpf.XDP:
			return fmt.Sprintf("programs of the type %s call it, and no XDP programs", ebpf.ProgramType(n))
		case key == "owner_jited" && n == 0:
			return "the program that calls it was not compiled by the kernel's JIT: " +
				"sysctl net.core.bpf_jit_enable=1, then load that program again"
		}
	}
	return "the kernel takes no XDP program as compatible with the one that calls it, whatever its attach type, " +
		"with or without support for packets in several buffers"
}

// CheckCalled returns an error if no loaded program calls the map. It returns nil if this process
// may not look at other programs, which needs CAP_SYS_ADMIN.
func (h *HookMap) CheckCalled() error {
	if slices.ContainsFunc(h.callers, isLoaded) {
		return nil
	}
	callers, err := h.findCallers()
	switch {
	case err != nil:
		return nil // an error of the query does not mean that a program is gone
	case len(callers) > 0:
		h.callers = callers
		return nil
	case len(h.callers) > 0:
		return fmt.Errorf("no program calls it, since %s is gone", ListPrograms(h.callers))
	}
	return errors.New("no program calls it: load its owner first")
}

// findCallers finds, among all loaded programs, the programs that use the map.
func (h *HookMap) findCallers() (callers []Program, err error) {
	own, err := h.m.Info()
	if err != nil {
		return nil, err
	}
	id, _ := own.ID()
	err = eachProgram(func(p Program, info *ebpf.ProgramInfo) {
		if maps, _ := info.MapIDs(); slices.Contains(maps, id) {
			callers = append(callers, p)
		}
	})
	return callers, err
}

// A Slot is a slot of the map that holds a program of ours.
type Slot struct {
	h       *HookMap
	verdict Verdict
	id      uint32 // of the program; 0 = closed
}

// Check returns an error if the slot no longer holds the program.
func (s *Slot) Check() error {
	switch id, err := s.h.lookup(s.verdict); {
	case err != nil || id == s.id:
		return nil // an error of the query does not mean that the slot is empty
	case id == 0:
		return fmt.Errorf("slot %s was emptied", s.verdict)
	default:
		return fmt.Errorf("slot %s holds program %s now", s.verdict, Program{ID: id, Name: ProgramName(id)})
	}
}

// Close empties the slot, unless another process has emptied or filled it meanwhile. A second call
// does nothing, except after an error: then it tries again, because the program is called until the
// slot is empty. A nil Slot may be closed.
func (s *Slot) Close() error {
	if s == nil || s.id == 0 {
		return nil
	}
	id, err := s.h.lookup(s.verdict)
	if err != nil {
		return err
	}
	if id == s.id {
		if err := s.h.m.Delete(uint32(s.verdict)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("empty slot %s of hook map %s: %w", s.verdict, s.h.path, err)
		}
	}
	s.id = 0
	return nil
}

// Close releases the map. Its slots must be closed before. A second call does nothing.
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
