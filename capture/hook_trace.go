package capture

import (
	"errors"
	"maps"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A traceHook traces a running XDP program by fentry and, if exits are recorded, by fexit.
type traceHook struct {
	ifi    xdp.Interface
	target xdp.Target
	traced constants // which of the target's packets are recorded
	filter packetFilter
	atExit bool // Options.FilterAtExit

	reasonMap string // Options.ReasonMap

	// fentry decides which packets are recorded at entry and exit, so it is loaded even if only
	// exits are recorded.
	fentry, fexit program
	// The sources at entry and exit; nil if not recorded.
	entry, exit *Source
	watch       *xdp.HookWatch
}

// newTraceHooks finds the programs to trace on an interface.
func newTraceHooks(p point, o *Options) (hooks []hook, err error) {
	if o.Sink || o.Mode != Auto {
		return nil, errkind.Errorf(ErrTraced, "%s is captured by tracing its XDP program: a sink or "+
			"an XDP mode is not possible", p.ifi.Name)
	}
	filter, err := p.filter.copied()
	if err != nil {
		return nil, err
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
		h := &traceHook{ifi: p.ifi, target: target, traced: traced, filter: filter, atExit: o.FilterAtExit, reasonMap: o.ReasonMap}
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
	s.Target = Program(h.target.Program)
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
	var filters [2]packetFilter // of fentry and fexit; only one of the two has a filter
	if h.atExit {
		filters[1] = h.filter
	} else {
		filters[0] = h.filter
	}
	entry, err := h.companions(k, Entry)
	if err != nil {
		return err
	}
	exit, err := h.companions(k, Exit)
	if err != nil {
		return err
	}
	k.closes = true
	l := loading{name: samplerProgSampleFentry, filter: filters[0], with: entry}
	if h.fentry, err = h.loadTracer(k, l, first, index); err != nil {
		return err
	}
	if h.entry != nil {
		if h.entry.Sampler, err = h.fentry.info(); err != nil {
			return err
		}
	}
	if h.exit == nil && exit.isNone() {
		return nil
	}
	if h.exit != nil && h.entry != nil {
		first++
	}
	l = loading{
		name: samplerProgSampleFexit, filter: filters[1], with: exit,
		own: constants{samplerVarSendingTx: h.runsAtInterface()},
	}
	if h.exit == nil {
		h.fexit, err = h.loadTracer(k, l, first, index)
		return err
	}
	if h.reasonMap != "" {
		if l.reasons, err = xdp.OpenReasonMap(h.reasonMap, h.target); err != nil {
			return err
		}
		defer l.reasons.Close() // the loaded tracer holds a reference of its own
		h.exit.ReasonText = func(r Reason) string { return l.reasons.Reason(uint32(r)) }
	}
	if h.fexit, err = h.loadTracer(k, l, first, index); err != nil {
		return err
	}
	h.exit.Sampler, err = h.fexit.info()
	return err
}

// companions returns the companions at entry or exit, even if that is not recorded.
func (h *traceHook) companions(k *sampler, at Hook) (Companions, error) {
	return k.companions(h.newSource(h.ifi, at))
}

func (h *traceHook) loadTracer(k *sampler, l loading, source, index uint32) (program, error) {
	own := constants{
		samplerVarSource:         source,
		samplerVarHook:           index,
		samplerVarRecordingEntry: h.entry != nil,
		samplerVarRecordingExit:  h.exit != nil,
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
		return p, support.ExplainTracer(err, h.target.Program)
	}
	return p, nil
}

// attach attaches fentry last, so that every recorded exit has its entry.
func (h *traceHook) attach() (err error) {
	if h.watch, err = xdp.WatchHook(h.ifi.Index); err != nil {
		return err
	}
	for _, p := range []*program{&h.fexit, &h.fentry} {
		if p.Program == nil {
			continue
		}
		link, err := xdp.AttachTracer(p.Program)
		if err != nil {
			return support.ExplainTracer(err, h.target.Program)
		}
		p.link = link
	}
	return nil
}

// runsAtInterface tells whether the program was found at the interface. A program chosen by its id
// may run elsewhere, such as in a devmap.
func (h *traceHook) runsAtInterface() bool { return h.target.At != (xdp.Program{}) }

// check verifies that the program still runs at the interface. For a program chosen by its id that
// runs elsewhere, it verifies only that the interface exists: the tracers keep the program alive,
// and nothing tells whether a map still holds it.
func (h *traceHook) check() error {
	if !h.runsAtInterface() {
		return h.watch.CheckExists()
	}
	return h.watch.CheckRuns(h.target.At, h.target.Program)
}

// detach detaches fexit first. The kernel skips fexit for a packet that is in the program
// meanwhile, so what fentry decided about it stays. If fentry went first, fexit would record the
// next packet by that decision.
func (h *traceHook) detach() error { return errors.Join(h.fexit.detach(), h.fentry.detach()) }

func (h *traceHook) close() error {
	if h.watch != nil {
		h.watch.Close()
	}
	return errors.Join(h.fentry.close(), h.fexit.close(), h.target.Prog.Close())
}
