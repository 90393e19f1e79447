package probe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A traceTarget is a program to trace, or a function of it.
type traceTarget struct {
	xdp.Target
	places []tc.Running // where it runs at tc of the interface; nil if it runs at XDP, or elsewhere
}

// targets opens the programs that Options.Targets choose at an interface. A selector names an XDP
// program or, if no XDP program has the name, a program at tc or, if none has it, a program that
// one of these reaches by tail calls.
func (o *Options) targets(ifi xdp.Interface) (all []traceTarget, err error) {
	defer func() {
		if err != nil {
			for _, t := range all {
				t.Prog.Close()
			}
			all = nil
		}
	}()
	var atXDP []string // the selectors of XDP programs; nil = the one that runs
	if len(o.Targets) > 0 {
		f, err := newFinder(ifi)
		if err != nil {
			return nil, err
		}
		for _, selector := range o.Targets {
			found, err := f.find(selector)
			switch {
			case err != nil:
				return all, err
			case found == nil:
				atXDP = append(atXDP, selector)
			default:
				all = append(all, *found)
			}
		}
		if atXDP == nil {
			return all, nil
		}
	}
	found, err := xdp.Targets(ifi, atXDP)
	for _, t := range found {
		all = append(all, traceTarget{Target: t})
	}
	return all, err
}

// A finder finds programs at an interface by selectors.
type finder struct {
	ifi     xdp.Interface
	running []xdp.Program // at XDP
	atTC    []tc.Running  // set by listTC
	listed  bool          // listTC was called
}

func newFinder(ifi xdp.Interface) (f *finder, err error) {
	f = &finder{ifi: ifi}
	f.running, err = xdp.Running(ifi)
	return f, err
}

// listTC reads, once, which programs run at tc.
func (f *finder) listTC() (err error) {
	if !f.listed {
		f.atTC, err = tc.Programs(f.ifi)
		f.listed = true
	}
	return err
}

// find opens the program at tc, or reached by tail calls, that a selector names by its name or id;
// nil if the selector is for XDP programs.
func (f *finder) find(selector string) (*traceTarget, error) {
	name, function := xdp.SplitSelector(selector)
	id, err := strconv.ParseUint(name, 10, 32)
	isID := err == nil
	isNamed := func(p xdp.Program) bool { return p.Name == name || isID && p.ID == uint32(id) }
	if name == "all" || slices.ContainsFunc(f.running, isNamed) {
		return nil, nil
	}
	if err := f.listTC(); err != nil {
		return nil, err
	}
	var matches []xdp.Program
	for _, p := range f.atTC {
		if isNamed(p.Program) && !slices.Contains(matches, p.Program) {
			matches = append(matches, p.Program)
		}
	}
	switch {
	case len(matches) > 1:
		return nil, message.Errorf(xdp.ErrAmbiguousProgram, "program %s: that could be %s", name, xdp.ListPrograms(matches))
	case len(matches) == 1:
		return f.openAtTC(matches[0].ID, function)
	}
	if found, err := f.findCalled(isNamed, function); found != nil || err != nil {
		return found, err
	}
	switch {
	case isID && isOfTC(uint32(id)): // it runs elsewhere
		return f.openAtTC(uint32(id), function)
	case isID || len(f.atTC) == 0:
		return nil, nil
	}
	at := "at XDP it runs no program"
	if len(f.running) > 0 {
		at = "at XDP it runs " + f.ifi.Runs()
	}
	return nil, message.Errorf(xdp.ErrOtherProgram, "program %s: %s does not run it; %s, at tc %s", name, f.ifi.Name, at, xdp.ListPrograms(f.programsAtTC()))
}

// findCalled opens a function of a program that is reached by tail calls; nil if no such program is
// named. The program itself cannot be traced: a tail call jumps past the beginning of a program,
// where the kernel calls tracers.
func (f *finder) findCalled(isNamed func(xdp.Program) bool, function string) (*traceTarget, error) {
	called, err := xdp.FindTailCalled(slices.Concat(f.running, f.programsAtTC()))
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(called, func(c xdp.TailCalled) bool { return isNamed(c.Program) })
	if i < 0 {
		return nil, nil
	}
	c := &called[i]
	if function == "" {
		remedy := fmt.Sprintf("trace the exit of the program that is attached, which is also that of %s", c.Name)
		if functions := c.Traceable(); functions != nil {
			remedy += ", or a function: " + strings.Join(functions, ", ")
		}
		return nil, &xdp.TracingError{
			Reason: fmt.Sprintf("program %v is reached by tail calls of %v, which jump past the place where the kernel calls tracers", c.Program, c.By),
			Remedy: remedy,
		}
	}
	if c.Type == ebpf.SchedCLS {
		return f.openAtTC(c.ID, function)
	}
	t, err := xdp.OpenFunction(c.ID, function)
	return &traceTarget{Target: t}, err
}

func (f *finder) programsAtTC() (all []xdp.Program) {
	for _, p := range f.atTC {
		if !slices.Contains(all, p.Program) {
			all = append(all, p.Program)
		}
	}
	return all
}

func (f *finder) openAtTC(id uint32, function string) (*traceTarget, error) {
	t := &traceTarget{}
	for _, p := range f.atTC {
		if p.ID == id {
			t.places = append(t.places, p)
		}
	}
	var err error
	if t.Target, err = xdp.OpenTCTarget(id, function); err != nil {
		return nil, err
	}
	return t, nil
}

// isOfTC reports whether a program is of the type of those at tc. It is false if the program cannot
// be opened: opening it as an XDP program then gives the reason.
func isOfTC(id uint32) bool {
	prog, err := xdp.OpenProgram(id)
	if err != nil {
		return false
	}
	defer prog.Close()
	return prog.Type() == ebpf.SchedCLS
}

// isWhole reports whether the target is an XDP program, not a function or a program at tc.
func (t *traceTarget) isWhole() bool { return t.Part == "" && !t.AtTC }

// place is where the target runs.
func (t *traceTarget) place() packet.TargetPlace {
	in := slices.ContainsFunc(t.places, func(p tc.Running) bool { return p.At == tc.Ingress })
	out := slices.ContainsFunc(t.places, func(p tc.Running) bool { return p.At == tc.Egress })
	switch {
	case !t.AtTC:
		return packet.AtXDP
	case in && !out:
		return packet.AtTCIngress
	case out && !in:
		return packet.AtTCEgress
	}
	return packet.AtTC
}

// checkVerdicts refuses options about verdicts if the target returns none, or none of this kind.
func (t *traceTarget) checkVerdicts(o *Options) error {
	what := "program"
	if t.Part != "" {
		what = "function"
	}
	chosen := len(o.Verdicts) + len(o.TCVerdicts)
	switch {
	case t.Returns == packet.XDPVerdict && len(o.Verdicts) == 0 && chosen > 0:
		return fmt.Errorf("%s %v returns no verdicts of tc, but %s, or numbers", what, t.Program, strings.Join(packet.VerdictNames(), ", "))
	case t.Returns == packet.TCVerdict && len(o.TCVerdicts) == 0 && chosen > 0:
		return fmt.Errorf("%s %v runs at tc, and returns %s, or numbers", what, t.Program, strings.Join(packet.TCVerdictNames(), ", "))
	case t.Returns == packet.PlainNumber && chosen > 0:
		return message.Errorf(ErrNoVerdict, "function %v returns a number that is no verdict: its type is not enum xdp_action", t.Program)
	case t.Returns != packet.XDPVerdict && o.SampleVerdicts != nil:
		return fmt.Errorf("%s %v does not return verdicts of XDP, and only these can have rates of their own: give one rate", what, t.Program)
	case !t.isWhole() && o.choosesReasons():
		return fmt.Errorf("%s %v: reasons choose among the packets of whole XDP programs", what, t.Program)
	case !t.isWhole() && o.AwaitsExits():
		return message.Errorf(ErrNeedsExit, "%s %v: its packets are chosen at its exits, and its entries do not wait for them", what, t.Program)
	case t.Returns != packet.XDPVerdict && o.ReasonMap != "":
		return message.Errorf(xdp.ErrNoReason, "%s %v does not return verdicts of XDP, so its reasons cannot be read", what, t.Program)
	}
	return nil
}
