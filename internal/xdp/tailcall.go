package xdp

import (
	"errors"
	"io/fs"
	"slices"

	"github.com/cilium/ebpf"
)

// A TailCalled program is in a map from which another one makes tail calls.
type TailCalled struct {
	Program
	By   Program // which uses that map
	Type ebpf.ProgramType
}

// FindTailCalled lists the programs that some programs can reach by tail calls, through any number
// of them. It needs CAP_SYS_ADMIN.
func FindTailCalled(callers []Program) (found []TailCalled, err error) {
	known, read := make(map[uint32]bool), make(map[ebpf.MapID]bool)
	for _, p := range callers {
		known[p.ID] = true
	}
	for callers = slices.Clone(callers); len(callers) > 0; callers = callers[1:] {
		ids, err := tailCalledBy(callers[0].ID, read)
		if err != nil {
			return found, err
		}
		for _, id := range ids {
			if known[id] {
				continue
			}
			info, err := programInfo(id)
			if errors.Is(err, fs.ErrNotExist) {
				continue // it was removed meanwhile
			}
			if err != nil {
				return found, explainOpen(id, err)
			}
			known[id] = true
			p := Program{ID: id, Name: info.Name}
			found = append(found, TailCalled{p, callers[0], info.Type})
			callers = append(callers, p)
		}
	}
	return found, nil
}

// tailCalledBy returns the ids of the programs in the program arrays that a program uses. It omits
// the maps that were read before, because many programs may use one large array, and adds its own.
func tailCalledBy(id uint32, read map[ebpf.MapID]bool) (ids []uint32, err error) {
	info, err := programInfo(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, explainOpen(id, err)
	}
	maps, _ := info.MapIDs()
	for _, m := range maps {
		if read[m] {
			continue
		}
		read[m] = true
		entries, err := programsIn(m)
		if err != nil {
			return nil, err
		}
		ids = append(ids, entries...)
	}
	return ids, nil
}

// programsIn returns the ids of the programs in a map; none if it holds no programs.
func programsIn(id ebpf.MapID) (ids []uint32, err error) {
	m, err := openSettled(func() (*ebpf.Map, error) { return ebpf.NewMapFromID(id) })
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, explainHidden("open a map of the program", err)
	}
	defer m.Close()
	if m.Type() != ebpf.ProgramArray {
		return nil, nil
	}
	for key := range m.MaxEntries() {
		var program uint32
		if m.Lookup(key, &program) == nil {
			ids = append(ids, program)
		}
	}
	return ids, nil
}

// Traceable lists the functions of a program that can be traced, as selectors; nil = none, or they
// cannot be found out.
func (c *TailCalled) Traceable() (selectors []string) {
	info, err := programInfo(c.ID)
	if err != nil {
		return nil
	}
	funcs, err := info.FuncInfos()
	if err != nil {
		return nil
	}
	for _, name := range traceable(funcs, contextOf(info.Type)) {
		selectors = append(selectors, c.Name+"/"+name)
	}
	return selectors
}
