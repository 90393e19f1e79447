package probe

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A traceTarget is a program to trace, or a function of it.
type traceTarget struct {
	xdp.Target
	places []tc.Running // where it runs at tc of the interface; nil if it runs at XDP, or elsewhere
}

// targets opens the programs that Options.Targets choose at an interface: XDP programs and, by
// their names or ids, programs at tc. If both have a name, it is the XDP program's.
func (o *Options) targets(ifi xdp.Interface) (all []traceTarget, err error) {
	var atXDP []string // selectors
	defer func() {
		if err != nil {
			for _, t := range all {
				t.Prog.Close()
			}
			all = nil
		}
	}()
	for _, selector := range o.Targets {
		found, err := targetAtTC(ifi, selector)
		if err != nil {
			return all, err
		}
		if found == nil {
			atXDP = append(atXDP, selector)
			continue
		}
		all = append(all, *found)
	}
	if len(o.Targets) > 0 && atXDP == nil {
		return all, nil
	}
	found, err := xdp.Targets(ifi, atXDP)
	for _, t := range found {
		all = append(all, traceTarget{Target: t})
	}
	return all, err
}

// targetAtTC opens the program at tc that a selector names; nil if it is for XDP programs.
func targetAtTC(ifi xdp.Interface, selector string) (*traceTarget, error) {
	name, function := xdp.SplitSelector(selector)
	number, notID := strconv.ParseUint(name, 10, 32)
	if id := uint32(number); notID == nil {
		if !isOfTC(id) {
			return nil, nil
		}
		return openAtTC(ifi, id, function)
	}
	running, err := xdp.Running(ifi)
	if err != nil || name == "" || name == "all" || slices.ContainsFunc(running, func(p xdp.Program) bool { return p.Name == name }) {
		return nil, err
	}
	atTC, err := tc.Programs(ifi)
	if err != nil {
		return nil, err
	}
	var ids, names []string
	var id uint32
	for _, p := range atTC {
		if text := p.String(); !slices.Contains(names, text) {
			names = append(names, text)
			if p.Name == name {
				id, ids = p.ID, append(ids, text)
			}
		}
	}
	switch {
	case len(ids) > 1:
		return nil, errkind.Errorf(xdp.ErrAmbiguousProgram, "program %s: that could be %s", name, strings.Join(ids, ", "))
	case len(ids) == 1:
		return openAtTC(ifi, id, function)
	case len(names) == 0:
		return nil, nil
	}
	at := "XDP it runs no program"
	if len(running) > 0 {
		at = "XDP it runs " + ifi.Runs()
	}
	return nil, errkind.Errorf(xdp.ErrOtherProgram, "program %s: %s does not run it; at %s, at tc %s", name, ifi.Name, at, strings.Join(names, ", "))
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

func openAtTC(ifi xdp.Interface, id uint32, function string) (*traceTarget, error) {
	all, err := tc.Programs(ifi)
	if err != nil {
		return nil, err
	}
	t := &traceTarget{}
	for _, p := range all {
		if p.ID == id {
			t.places = append(t.places, p)
		}
	}
	if t.Target, err = xdp.OpenTCTarget(id, function); err != nil {
		return nil, err
	}
	return t, nil
}

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
		return errkind.Errorf(ErrNoVerdict, "function %v returns a number that is no verdict: its type is not enum xdp_action", t.Program)
	case t.Returns != packet.XDPVerdict && o.SampleVerdicts != nil:
		return fmt.Errorf("%s %v does not return verdicts of XDP, and only these can have rates of their own: give one rate", what, t.Program)
	case t.Returns != packet.XDPVerdict && o.ReasonMap != "":
		return errkind.Errorf(xdp.ErrNoReason, "%s %v does not return verdicts of XDP, so its reasons cannot be read", what, t.Program)
	}
	return nil
}
