package probe

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A TraceHook traces a running program by fentry and, if exits are recorded, by fexit.
type TraceHook struct {
	interfaceHook // the source is not used
	target        traceTarget
	constants     Constants // by which the programs recognize packets of the interface
	filterAtExit  bool      // Options.FilterAtExit

	reasonMap string   // Options.ReasonMap
	reasons   []string // Options.Reasons, if they are those of the program; nil = all

	// fentry decides which packets are recorded at entry and exit, so it is loaded even if only
	// exits are recorded.
	fentry, fexit *ebpf.Program
	// The sources at entry and exit; nil if not recorded.
	entry, exit *packet.Source
	waits       bool // entries wait for their exits: see Options.AwaitsExits

	number   uint32     // the hook's own, of Load
	replaces *uint32    // the number of the hook that this one replaces: see Exchange; nil = none
	next     *TraceHook // of Prepare; nil = none
}

// newTraceHooks opens the programs to trace on an interface. After an error the caller closes the
// hooks all the same.
func newTraceHooks(p Point, o *Options) (hooks []Hook, err error) {
	hasMode := o.Mode != packet.Auto && !p.Yielded // before it yielded, an interface had the mode
	if o.Sink || hasMode {
		return nil, message.Errorf(ErrTraced, "%s is captured by tracing its program: a sink or "+
			"an XDP mode is not possible", p.Interface.Name)
	}
	constants, err := xdp.Traced(p.Interface)
	if err != nil {
		return nil, err
	}
	targets, err := o.targets(p.Interface)
	if err != nil {
		return nil, err
	}
	for _, target := range targets {
		h := &TraceHook{
			interfaceHook: interfaceHook{ifi: p.Interface}, target: target, constants: constants,
			filterAtExit: o.FilterAtExit, reasonMap: o.ReasonMap,
		}
		if h.filter, err = h.filterOf(o, p); err != nil {
			return hooks, err
		}
		if len(o.Hooks) == 0 || slices.Contains(o.Hooks, packet.Entry) {
			h.entry = h.newSource(p.Interface, packet.Entry)
		}
		if slices.Contains(o.Hooks, packet.Exit) {
			h.exit = h.newSource(p.Interface, packet.Exit)
		}
		if o.choosesReasons() {
			h.reasons = o.Reasons
		}
		if h.waits = o.AwaitsExits(); h.waits && h.entry != nil {
			h.entry.AwaitsExit, h.entry.HasExitFacts = true, h.exit == nil
		}
		hooks = append(hooks, h)
	}
	return hooks, nil
}

// filterOf returns the filter of a point for the packets of the traced program: the one for
// received packets, unless the program runs only at egress.
func (h *TraceHook) filterOf(o *Options, p Point) (attach.Filter, error) {
	if h.target.place() == packet.AtTCEgress {
		return o.compileSent(p)
	}
	return p.Filter, nil
}

func (h *TraceHook) newSource(ifi xdp.Interface, at packet.Hook) *packet.Source {
	s := newSource(ifi, at)
	s.Target, s.TargetAt = h.target.Program, h.target.place()
	return &s
}

func (h *TraceHook) Sources() (sources []packet.Source) {
	for _, s := range []*packet.Source{h.entry, h.exit} {
		if s != nil {
			sources = append(sources, *s)
		}
	}
	return sources
}

func (h *TraceHook) Load(k *Sampler, slot, number uint32) (err error) {
	if !k.Options.FilterChanges {
		defer h.target.Prog.Close() // the loaded tracers hold a reference of their own
	}
	h.number = number
	if err := h.target.checkVerdicts(k.Options); err != nil {
		return err
	}
	atEntry, atExit, err := h.loadings(k, slot)
	if err != nil {
		return err
	}
	k.hasTracers = true
	if h.fentry, err = h.loadTracer(k, atEntry, h.entry); err != nil {
		return err
	}
	if h.exit == nil && !h.waits && atExit.companions.isNone() {
		return nil // no program at the exit is needed
	}
	if src := h.exitSource(); src != nil && h.reasonMap != "" {
		reasons, err := xdp.OpenReasonMap(h.reasonMap, h.target.Target)
		if err != nil {
			return err
		}
		defer reasons.Close() // the loaded tracer holds a reference of its own
		atExit.reasons = reasons
		numbers, err := reasons.Parse(h.reasons)
		if err != nil {
			return err
		}
		if err := checkReasonCount(len(numbers)); err != nil {
			return err
		}
		maps.Copy(atExit.Own, reasonConstants(numbers))
		src.ReasonText = func(r packet.Reason) string { return reasons.Reason(uint32(r)) }
	}
	h.fexit, err = h.loadTracer(k, atExit, h.exit)
	return err
}

// loadings returns the programs at the entry and at the exit, without the reasons of the latter.
func (h *TraceHook) loadings(k *Sampler, slot uint32) (atEntry, atExit Loading, err error) {
	atEntry = Loading{Name: kernel.SamplerProgXdpcapFentry, Slot: slot, Number: h.number}
	atExit = Loading{
		Name: kernel.SamplerProgXdpcapFexit, Slot: slot, Number: h.number,
		Own: Constants{kernel.SamplerVarSendingTx: h.runsAtInterface()},
	}
	if h.exit != nil && h.entry != nil {
		atExit.Slot++ // the first slot is that of the entry
	}
	// Companions run at both, even if only one of them is recorded.
	if atEntry.companions, err = k.companions(h.newSource(h.ifi, packet.Entry)); err != nil {
		return atEntry, atExit, err
	}
	if atExit.companions, err = k.companions(h.newSource(h.ifi, packet.Exit)); err != nil {
		return atEntry, atExit, err
	}
	if !h.target.isWhole() {
		if !atEntry.companions.isNone() || !atExit.companions.isNone() {
			return atEntry, atExit, fmt.Errorf("trace %v: counters beside the packets count whole XDP programs", h.target.Program)
		}
		atExit.Name = kernel.SamplerProgXdpcapFexitFn
		atExit.Own[kernel.SamplerVarReturning] = uint32(h.target.Returns)
	}
	if h.target.AtTC {
		atEntry.Name, atExit.Name = kernel.SamplerProgXdpcapTcEntry, kernel.SamplerProgXdpcapTcExit
		atEntry.Own = Constants{kernel.SamplerVarSending: h.target.place() != packet.AtTCIngress}
		maps.Copy(atExit.Own, atEntry.Own)
		atExit.Own[kernel.SamplerVarVerdicts], atExit.Own[kernel.SamplerVarVerdictCount] = verdictList(k.Options.TCVerdicts), uint32(len(k.Options.TCVerdicts))
	}
	if h.waits {
		atEntry.Name, atExit.Name = kernel.SamplerProgXdpcapHold, kernel.SamplerProgXdpcapRelease
	}
	if h.filterAtExit {
		atExit.filter = h.filter
	} else {
		atEntry.filter = h.filter
	}
	return atEntry, atExit, nil
}

// exitSource returns the source whose packets have the facts of an exit, such as the verdict; nil =
// no source has them.
func (h *TraceHook) exitSource() *packet.Source {
	if h.waits && h.exit == nil {
		return h.entry
	}
	return h.exit
}

// loadTracer loads a tracer, and notes it in its source, which is nil if its packets are not
// recorded.
func (h *TraceHook) loadTracer(k *Sampler, l Loading, src *packet.Source) (*ebpf.Program, error) {
	own := Constants{
		kernel.SamplerVarRecordingEntry: h.entry != nil,
		kernel.SamplerVarRecordingExit:  h.exit != nil,
	}
	if h.replaces != nil {
		own[kernel.SamplerVarPredecessor] = *h.replaces
	}
	maps.Copy(own, h.constants)
	maps.Copy(own, l.Own)
	l.Own = own
	l.Adjust = func(spec *ebpf.ProgramSpec) {
		spec.AttachTarget = h.target.Prog
		spec.AttachTo = h.target.Function
	}
	p, err := k.Load(l)
	if err != nil {
		return nil, support.ExplainTracer(err, h.target.Program)
	}
	if src != nil {
		src.Sampler, err = identify(p)
	}
	return p, err
}

// Tracers returns the tracers in the order in which they are attached, and also detached. fentry is
// attached last, so that every recorded exit has its entry. fexit is detached first: the kernel
// skips it for a packet that is in the program meanwhile, so fentry's decision about that packet
// stays. If fentry were detached first, fexit would record the next packet by that decision.
func (h *TraceHook) Tracers() []*ebpf.Program {
	if h.fexit == nil {
		return []*ebpf.Program{h.fentry}
	}
	return []*ebpf.Program{h.fexit, h.fentry}
}

// Attach attaches the tracers. If the program was chosen by its id and does not run at the
// interface, Check only reports whether the interface exists: the tracers keep the program alive,
// and the kernel does not report whether a devmap still has it.
func (h *TraceHook) Attach() (err error) {
	if h.target.AtTC {
		h.attached, err = attach.TraceAtTC(h.ifi, h.target.Target, h.target.places, h.Tracers()...)
	} else {
		h.attached, err = attach.Trace(h.ifi, h.target.Target, h.Tracers()...)
	}
	return err
}

// runsAtInterface reports whether the program was found at the interface. A program chosen by its
// id may run elsewhere, such as in a devmap.
func (h *TraceHook) runsAtInterface() bool { return h.target.At != (xdp.Program{}) }

// Close also closes the traced program. If Load has closed it already, that does nothing.
func (h *TraceHook) Close() error { return closePrograms(h.fentry, h.fexit, h.target.Prog) }
