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
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
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
		// The dispatcher's functions are replaced by the programs; their types ascend with their places.
		if t := info.Tracing(); t != nil && t.TargetObjectId == ifi.Programs[0].ID {
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
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if errors.Is(err, os.ErrNotExist) {
		return Target{}, fmt.Errorf("there is no BPF program with id %d: see xdpcap interfaces, or bpftool prog", id)
	}
	if errors.Is(err, unix.EPERM) {
		return Target{}, fmt.Errorf("open BPF program %d: %w: to trace another's program takes CAP_SYS_ADMIN: run it as root (sudo)", id, err)
	}
	if err != nil {
		return Target{}, fmt.Errorf("open BPF program %d: %w", id, err)
	}
	info, err := p.Info()
	if err != nil {
		p.Close()
		return Target{}, fmt.Errorf("look at BPF program %d: %w", id, err)
	}
	t := Target{Program: Program{ID: id, Name: info.Name}, Prog: p, Function: info.Name}
	// What a dispatcher runs are extensions of it.
	if info.Type != ebpf.XDP && info.Type != ebpf.Extension {
		p.Close()
		return Target{}, fmt.Errorf("BPF program %s is not an XDP program but %s", t.Program, info.Type)
	}
	if _, ok := info.BTFID(); !ok {
		p.Close()
		return Target{}, fmt.Errorf("XDP program %s has no BTF, without which nothing can be attached to it: "+
			"compile it with clang -g", t.Program)
	}
	return t, nil
}

// AttachTracer runs a loaded fentry or fexit program on its target until the link is closed.
func AttachTracer(prog *ebpf.Program, target Program) (link.Link, error) {
	l, err := link.AttachTracing(link.TracingOptions{Program: prog})
	if err != nil {
		return nil, fmt.Errorf("attach to XDP program %s: %w", target, refusedTracing(err))
	}
	return l, nil
}

// ExplainTracer gives the cause of an error of loading a fentry or fexit program where the kernel only gives a number.
func ExplainTracer(err error, target Program) error {
	return fmt.Errorf("trace XDP program %s: %w", target, refusedTracing(err))
}

// errNotSupp is the kernel's ENOTSUPP, which no C library knows.
const errNotSupp = unix.Errno(524)

func refusedTracing(err error) error {
	enabled, readErr := os.ReadFile("/proc/sys/net/core/bpf_jit_enable")
	switch {
	case readErr == nil && strings.TrimSpace(string(enabled)) == "0":
		return fmt.Errorf("%w: the kernel's JIT is off, and only compiled programs can be traced: "+
			"sysctl net.core.bpf_jit_enable=1, and load that program anew", err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: this kernel does not let fentry and fexit programs load, although this process holds "+
			"the capabilities: see xdpcap probe", unix.EPERM)
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("%w: as many tracers as the kernel takes are attached to it", err)
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, errNotSupp):
		return fmt.Errorf("%w: this kernel has no BPF trampolines on this architecture: see xdpcap probe", err)
	}
	return err
}
