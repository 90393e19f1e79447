package xdp

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cilium/ebpf/link"
)

// dispatcher is the name of the program that libxdp attaches to run several others one after
// another.
const dispatcher = "xdp_dispatcher"

// A component is a program that a dispatcher runs: it replaces one of the dispatcher's functions
// (freplace).
type component struct {
	Program
	function uint32 // the BTF id of that function
}

// Running lists the programs that run for a packet of the interface, in order. If a dispatcher of
// libxdp is attached, these are its components instead of the dispatcher.
func Running(ifi Interface) ([]Program, error) {
	if len(ifi.Programs) != 1 || ifi.Programs[0].Name != dispatcher {
		return ifi.Programs, nil
	}
	found, err := components(ifi.Programs[0])
	if err != nil {
		return nil, fmt.Errorf("look for the programs behind %s on %s: %w", ifi.Programs[0], ifi.Name, err)
	}
	if len(found) == 0 {
		return ifi.Programs, nil
	}
	return inOrder(found), nil
}

// Runs returns the name of the attached program. If that is a dispatcher of libxdp, the names of
// the programs that it calls follow. It is "" if no program is attached.
func (ifi *Interface) Runs() string {
	running, err := Running(*ifi)
	switch {
	case len(ifi.Programs) == 0:
		return ""
	case err != nil || slices.Equal(running, ifi.Programs):
		return ListPrograms(ifi.Programs)
	}
	return fmt.Sprintf("%s, which runs %s", ListPrograms(ifi.Programs), ListPrograms(running))
}

// components returns the programs that replace a function of the dispatcher. Their links have the
// dispatcher as target and no attach type; links of tracers have an attach type.
func components(dispatcher Program) ([]component, error) {
	var found []component
	err := eachLink(func(info *link.Info) {
		if t := info.Tracing(); t != nil && t.AttachType == 0 && t.TargetObjectId == dispatcher.ID {
			id := uint32(info.Program)
			found = append(found, component{Program{ID: id, Name: ProgramName(id)}, uint32(t.TargetBtfId)})
		}
	})
	return found, err
}

// inOrder sorts components in the order in which they run. libxdp's dispatcher defines the
// functions in the order in which it calls them, and the compiler numbers their types in the order
// of the definitions.
func inOrder(found []component) []Program {
	slices.SortFunc(found, func(a, b component) int { return cmp.Compare(a.function, b.function) })
	programs := make([]Program, len(found))
	for i, c := range found {
		programs[i] = c.Program
	}
	return programs
}
