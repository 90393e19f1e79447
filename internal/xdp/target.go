package xdp

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
)

// A Target is a running XDP program that can be traced. Close it when its tracers are loaded.
type Target struct {
	Program
	Prog     *ebpf.Program
	Function string // the name that tracers attach to
}

// Targets finds the programs that the selectors choose among those which the kernel runs for an interface: the
// attached one, or those behind a libxdp dispatcher. A selector is a program's name, an id, or "all"; an id may be
// that of any XDP program, such as one in a devmap or cpumap. No selector chooses the only program there is.
func Targets(ifi Interface, selectors []string) ([]Target, error) {
	candidates, err := chain(ifi)
	if err != nil {
		return nil, err
	}
	chosen, err := choose(ifi.Name, candidates, selectors)
	if err != nil {
		return nil, err
	}
	var targets []Target
	for _, p := range chosen {
		t, err := openTarget(p.ID)
		if err != nil {
			closeTargets(targets)
			return nil, err
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// OneTarget finds a single program. Without a selector that is the one which the interface runs: with libxdp the
// dispatcher, whose verdict is that of all behind it. Else it is what Targets finds, and several are an error.
func OneTarget(ifi Interface, selector string) (Target, error) {
	if selector == "" {
		return openTarget(ifi.Programs[0].ID)
	}
	targets, err := Targets(ifi, []string{selector})
	if err != nil {
		return Target{}, err
	}
	if len(targets) > 1 {
		closeTargets(targets)
		var found []Program
		for _, t := range targets {
			found = append(found, t.Program)
		}
		return Target{}, fmt.Errorf("--program %s: only one can be chosen here: %s", selector, list(found))
	}
	return targets[0], nil
}

// closeTargets closes those that were opened before an error.
func closeTargets(targets []Target) {
	for _, t := range targets {
		t.Prog.Close()
	}
}

// dispatcher is what libxdp calls the program that it attaches to run several in a row.
const dispatcher = "xdp_dispatcher"

// chain lists the programs that run for a packet of the interface, in order.
func chain(ifi Interface) ([]Program, error) {
	if len(ifi.Programs) != 1 || ifi.Programs[0].Name != dispatcher {
		return ifi.Programs, nil
	}
	type component struct {
		Program
		slot uint32
	}
	var found []component
	links := new(link.Iterator)
	defer links.Close()
	for links.Next() {
		info, err := links.Link.Info()
		if errors.Is(err, os.ErrNotExist) {
			continue // gone meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("look for the programs behind %s on %s: %w", ifi.Programs[0], ifi.Name, err)
		}
		// The dispatcher's functions are replaced by the programs; their types ascend with their places. Tracers of it
		// have an attach type.
		if t := info.Tracing(); t != nil && t.AttachType == 0 && t.TargetObjectId == ifi.Programs[0].ID {
			id := uint32(info.Program)
			found = append(found, component{Program{ID: id, Name: programName(id)}, uint32(t.TargetBtfId)})
		}
	}
	if err := links.Err(); err != nil {
		return nil, fmt.Errorf("look for the programs behind %s on %s: %w", ifi.Programs[0], ifi.Name, err)
	}
	if len(found) == 0 {
		return ifi.Programs, nil
	}
	slices.SortFunc(found, func(a, b component) int { return cmp.Compare(a.slot, b.slot) })
	var programs []Program
	for _, c := range found {
		programs = append(programs, c.Program)
	}
	return programs, nil
}

func choose(ifname string, candidates []Program, selectors []string) ([]Program, error) {
	if len(selectors) == 0 {
		if len(candidates) == 1 {
			return candidates, nil
		}
		if len(candidates) == 0 {
			return nil, fmt.Errorf("%s runs no XDP program that could be traced: leave --rx-capture and --program away to capture at its XDP hook", ifname)
		}
		return nil, fmt.Errorf("%s runs several XDP programs: choose with --program NAME, ID or all: %s", ifname, list(candidates))
	}
	var chosen []Program
	for _, selector := range selectors {
		found, err := match(ifname, candidates, selector)
		if err != nil {
			return nil, err
		}
		for _, p := range found {
			if !slices.Contains(chosen, p) {
				chosen = append(chosen, p)
			}
		}
	}
	return chosen, nil
}

func match(ifname string, candidates []Program, selector string) ([]Program, error) {
	if selector == "all" && len(candidates) > 0 {
		return candidates, nil
	}
	if id, err := strconv.ParseUint(selector, 10, 32); err == nil {
		return []Program{{ID: uint32(id), Name: programName(uint32(id))}}, nil
	}
	var found []Program
	for _, p := range candidates {
		if p.Name == selector {
			found = append(found, p)
		}
	}
	switch {
	case len(candidates) == 0:
		return nil, fmt.Errorf("--program %s: %s runs no XDP program; one that runs elsewhere can be given by its id", selector, ifname)
	case len(found) == 0:
		return nil, fmt.Errorf("--program %s: %s does not run it; it runs %s", selector, ifname, list(candidates))
	case len(found) > 1:
		return nil, fmt.Errorf("--program %s: that could be %s: give an id", selector, list(found))
	}
	return found, nil
}

func list(programs []Program) string {
	var names []string
	for _, p := range programs {
		names = append(names, p.String())
	}
	return strings.Join(names, ", ")
}

func openTarget(id uint32) (Target, error) {
	prog, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return Target{}, explainTarget(id, err)
	}
	t, err := newTarget(id, prog)
	if err != nil {
		prog.Close()
	}
	return t, err
}

// newTarget looks whether the program is such as can be traced.
func newTarget(id uint32, prog *ebpf.Program) (Target, error) {
	info, err := prog.Info()
	if err != nil {
		return Target{}, explainTarget(id, err)
	}
	t := Target{Program: Program{ID: id, Name: info.Name}, Prog: prog}
	// What a dispatcher runs are extensions of it.
	if info.Type != ebpf.XDP && info.Type != ebpf.Extension {
		return t, fmt.Errorf("BPF program %s is not an XDP program but %s", t.Program, info.Type)
	}
	if t.Function, err = firstFunction(info); err != nil {
		return t, &TracingError{
			Reason: fmt.Sprintf("XDP program %s has no BTF, without which nothing can be attached to it", t.Program),
			Remedy: "compile it with clang -g, and load it without stripping .BTF",
			err:    err,
		}
	}
	if jited(info) == No {
		return t, &TracingError{
			Reason: fmt.Sprintf("XDP program %s is not compiled by the kernel's JIT", t.Program),
			Remedy: "sysctl net.core.bpf_jit_enable=1, then load it again; a program on the network card has no remedy",
		}
	}
	return t, nil
}

// firstFunction is the name that BTF has for where a program begins: the kernel's own name for the program may be
// another one.
func firstFunction(info *ebpf.ProgramInfo) (string, error) {
	funcs, err := info.FuncInfos()
	if err != nil {
		return "", err
	}
	for _, f := range funcs {
		if f.Offset == 0 {
			return f.Func.Name, nil
		}
	}
	return "", btf.ErrNotFound
}

// AttachTracer runs a loaded fentry or fexit program on its target until the link is closed.
func AttachTracer(prog *ebpf.Program, target Program) (link.Link, error) {
	l, err := link.AttachTracing(link.TracingOptions{Program: prog})
	if err != nil {
		return nil, ExplainTracer(err, target)
	}
	return l, nil
}

// ExplainTracer gives the cause of an error of loading a fentry or fexit program where the kernel only gives a number. It
// wraps a *TracingError.
func ExplainTracer(err error, target Program) error {
	return fmt.Errorf("trace XDP program %s: %w", target, explainTracing(err))
}
