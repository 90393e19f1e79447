package capture

import (
	"maps"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A traceHook traces a running XDP program by fentry and, if exits are recorded, by fexit.
type traceHook struct {
	interfaceHook // the source is not used
	target        xdp.Target
	traced        constants // which of the target's packets are recorded
	atExit        bool      // Options.FilterAtExit

	reasonMap string // Options.ReasonMap

	// fentry decides which packets are recorded at entry and exit, so it is loaded even if only
	// exits are recorded.
	fentry, fexit *ebpf.Program
	// The sources at entry and exit; nil if not recorded.
	entry, exit *Source
}

// newTraceHooks finds the programs to trace on an interface.
func newTraceHooks(p point, o *Options) (hooks []hook, err error) {
	if o.Sink || o.Mode != Auto && !p.yielded {
		return nil, errkind.Errorf(ErrTraced, "%s is captured by tracing its XDP program: a sink or "+
			"an XDP mode is not possible", p.ifi.Name)
	}
	traced, err := xdp.Traced(p.ifi)
	if err != nil {
		return nil, err
	}
	targets, err := xdp.Targets(p.ifi, o.Targets)
	if err != nil {
		return nil, err
	}
	for _, target := range targets {
		h := &traceHook{
			interfaceHook: interfaceHook{ifi: p.ifi, filter: p.filter}, target: target, traced: traced,
			atExit: o.FilterAtExit, reasonMap: o.ReasonMap,
		}
		if len(o.Hooks) == 0 || slices.Contains(o.Hooks, Entry) {
			h.entry = h.newSource(p.ifi, Entry)
		}
		if slices.Contains(o.Hooks, Exit) {
			h.exit = h.newSource(p.ifi, Exit)
		}
		hooks = append(hooks, h)
	}
	return hooks, nil
}

func (h *traceHook) newSource(ifi xdp.Interface, at Hook) *Source {
	s := newSource(ifi, at)
	s.Target = h.target.Program
	return &s
}

func (h *traceHook) sources() (sources []Source) {
	for _, s := range []*Source{h.entry, h.exit} {
		if s != nil {
			sources = append(sources, *s)
		}
	}
	return sources
}

func (h *traceHook) load(k *sampler, first, index uint32) (err error) {
	defer h.target.Prog.Close() // the loaded tracers hold a reference of their own
	entry, err := h.companions(k, Entry)
	if err != nil {
		return err
	}
	exit, err := h.companions(k, Exit)
	if err != nil {
		return err
	}
	k.closes = true
	atEntry := loading{name: kernel.SamplerProgXdpcapFentry, first: first, index: index, with: entry}
	atExit := loading{
		name: kernel.SamplerProgXdpcapFexit, first: first, index: index, with: exit,
		own: constants{kernel.SamplerVarSendingTx: h.runsAtInterface()},
	}
	if h.atExit {
		atExit.filter = h.filter
	} else {
		atEntry.filter = h.filter
	}
	if h.fentry, err = h.loadTracer(k, atEntry, h.entry); err != nil || h.exit == nil && exit.isNone() {
		return err
	}
	if h.exit != nil && h.entry != nil {
		atExit.first++
	}
	if h.exit != nil && h.reasonMap != "" {
		reasons, err := xdp.OpenReasonMap(h.reasonMap, h.target)
		if err != nil {
			return err
		}
		defer reasons.Close() // the loaded tracer holds a reference of its own
		atExit.reasons = reasons
		h.exit.ReasonText = func(r Reason) string { return reasons.Reason(uint32(r)) }
	}
	h.fexit, err = h.loadTracer(k, atExit, h.exit)
	return err
}

// companions returns the companions at entry or exit, even if that is not recorded.
func (h *traceHook) companions(k *sampler, at Hook) (Companions, error) {
	return k.companions(h.newSource(h.ifi, at))
}

// loadTracer loads a tracer. Its source is nil if its packets are not recorded.
func (h *traceHook) loadTracer(k *sampler, l loading, of *Source) (*ebpf.Program, error) {
	own := constants{
		kernel.SamplerVarRecordingEntry: h.entry != nil,
		kernel.SamplerVarRecordingExit:  h.exit != nil,
	}
	maps.Copy(own, h.traced)
	maps.Copy(own, l.own)
	l.own = own
	l.adjust = func(spec *ebpf.ProgramSpec) {
		spec.AttachTarget = h.target.Prog
		spec.AttachTo = h.target.Function
	}
	p, err := k.load(l)
	if err != nil {
		return nil, support.ExplainTracer(err, h.target.Program)
	}
	if of != nil {
		of.Sampler, err = identify(p)
	}
	return p, err
}

// tracers are in the order in which they are attached and detached. fentry is attached last, so
// that every recorded exit has its entry. fexit is detached first: the kernel skips it for a packet
// that is in the program meanwhile, so what fentry decided about that stays. If fentry went first,
// fexit would record the next packet by that decision.
func (h *traceHook) tracers() []*ebpf.Program {
	if h.fexit == nil {
		return []*ebpf.Program{h.fentry}
	}
	return []*ebpf.Program{h.fexit, h.fentry}
}

// attach lets check tell whether the program still runs at the interface. Of a program that was
// chosen by its id and runs elsewhere, check only reports whether the interface exists: the tracers
// keep the program alive, and nothing reports whether a map still holds it.
func (h *traceHook) attach() (err error) {
	h.attached, err = attach.Trace(h.ifi, h.target, h.tracers()...)
	return err
}

// runsAtInterface reports whether the program was found at the interface. A program chosen by its
// id may run elsewhere, such as in a devmap.
func (h *traceHook) runsAtInterface() bool { return h.target.At != (xdp.Program{}) }

func (h *traceHook) close() error { return closePrograms(h.fentry, h.fexit, h.target.Prog) }
