package capture

import (
	"cmp"
	"fmt"
	"slices"

	"golang.org/x/net/bpf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// At says at which hook received packets are captured.
type At int

const (
	// AtXDP captures at XDP, before the kernel has done anything with a packet. Where an XDP
	// program runs, it is traced.
	AtXDP At = iota
	// AtIngress captures at tc ingress, after XDP. It attaches nothing in the driver, so it resets
	// no card and takes no offload away; and it sees the packets that tc redirects to the
	// interface, which do not pass XDP. It does not see packets that XDP programs drop or send
	// elsewhere.
	AtIngress
	// AtAuto is AtXDP where an option needs XDP, an XDP program runs, or the interface is a card
	// whose driver has native XDP. Elsewhere it is AtIngress.
	AtAuto
)

var atNames = [...]string{"xdp", "tc", "auto"}

func (a At) String() string {
	if a < 0 || int(a) >= len(atNames) {
		return fmt.Sprintf("at %d", int(a))
	}
	return atNames[a]
}

// ParseAt reads where to capture: "xdp", "tc" or "auto".
func ParseAt(s string) (At, error) {
	if i := slices.Index(atNames[:], s); i >= 0 {
		return At(i), nil
	}
	return 0, fmt.Errorf("place to capture at %q: must be xdp, tc or auto", s)
}

// A point is an interface to capture on, or a hook map, with the filter for it.
type point struct {
	ifi    xdp.Interface // for a hook map it has a name only
	filter attach.Filter // for what it receives
	sent   attach.Filter // for what it sends

	yielded bool // the session has detached its own XDP program for those of others
}

// points looks up the interfaces and compiles the filter for each.
func (o *Options) points() (points []point, err error) {
	if o.follows() {
		return nil, nil // they come one by one
	}
	if o.HookMap != "" {
		points = []point{{ifi: xdp.Interface{Name: o.HookMap}}}
	}
	named, err := o.namedInterfaces()
	if err != nil {
		return nil, err
	}
	for _, ifi := range named {
		points = append(points, point{ifi: ifi})
	}
	for i := range points {
		if err := o.compile(&points[i]); err != nil {
			return nil, err
		}
	}
	return points, nil
}

// compile compiles the filter for one interface, because "ip broadcast" depends on its netmask, and
// for each direction, because of "inbound" and "outbound". With two directions, the filter may
// match nothing in one of them.
func (o *Options) compile(p *point) (err error) {
	received, sent, err := o.classicFilters(p)
	if err != nil {
		return err
	}
	const headBytes = int(kernel.SamplerHeadLimitHEAD_BYTES)
	if p.filter, err = attach.NewFilter(received, headBytes); err != nil {
		return err
	}
	p.sent, err = attach.NewFilter(sent, headBytes)
	return err
}

// classicFilters returns the filters as classic BPF; nil = every packet.
func (o *Options) classicFilters(p *point) (received, sent []bpf.RawInstruction, err error) {
	if o.FilterProgram != nil || o.Filter == "" {
		return o.FilterProgram, o.FilterProgram, nil
	}
	of := filter.Options{VLANAware: o.VLANAware, Outbound: o.Direction == Out}
	if p.ifi.Index != 0 { // packets of a hook map may be from any interface
		if of.Netmask, err = p.ifi.Netmask(); err != nil {
			return nil, nil, err
		}
	}
	switch o.Direction {
	case In:
		received, err = filter.CompileRaw(o.Filter, of)
	case Out:
		sent, err = filter.CompileRaw(o.Filter, of)
	default:
		received, sent, err = filter.CompileBoth(o.Filter, of)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("filter expression: %w", err)
	}
	return received, sent, nil
}

// namedInterfaces looks up Options.Interfaces.
func (o *Options) namedInterfaces() (all []xdp.Interface, err error) {
	for _, name := range o.Interfaces {
		ifi, err := xdp.EthernetInterface(name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(other xdp.Interface) bool { return other.Index == ifi.Index }) {
			return nil, fmt.Errorf("interface %s is given twice", ifi.Name)
		}
		all = append(all, ifi)
	}
	return all, nil
}

// lowestFirst sorts what is at interfaces, of which index returns the index, so that an interface
// comes before those above it, such as its bridge: the kernel attaches no program below an
// interface that runs one. If the kernel does not tell which is above, attaching says what is in
// the way.
func lowestFirst[T any](all []T, index func(T) int) {
	if len(all) < 2 {
		return
	}
	if heights, err := xdp.Heights(); err == nil {
		slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(heights[index(a)], heights[index(b)]) })
	}
}

// hooks chooses how to capture at each point. The caller closes them, even after an error.
func (o *Options) hooks(points []point) (hooks []hook, err error) {
	for _, p := range points {
		at, err := o.hooksAt(p)
		hooks = append(hooks, at...)
		if err != nil {
			return hooks, err
		}
	}
	return hooks, nil
}

// hooksAt chooses the hooks at one point: those for received packets come first.
func (o *Options) hooksAt(p point) (hooks []hook, err error) {
	if o.StackDrops {
		return newDropHooks(p, o)
	}
	if o.Direction != Out {
		if hooks, err = o.receivingHooks(p); err != nil {
			return hooks, err
		}
	}
	if o.Direction == In {
		return hooks, nil
	}
	if o.Direction == Out && o.Stamp.IsCards() {
		return hooks, errkind.Errorf(ErrNoStamp, "time stamps of the type %v: the card stamps packets that %s receives, not those that it sends", o.Stamp, p.ifi.Name)
	}
	return append(hooks, newEgressHook(p)), nil
}

func (o *Options) receivingHooks(p point) ([]hook, error) {
	if o.isPastXDP(p) {
		return []hook{newIngressHook(p, o)}, nil
	}
	q, err := o.question(p)
	switch {
	case err != nil:
		return nil, err
	case o.isTraced(p):
		return newTraceHooks(p, o)
	case o.HookMap != "":
		return []hook{newTailCallHook(p, o)}, nil
	}
	return []hook{newXDPHook(p, o, q)}, nil
}

// isPastXDP reports whether packets are captured at tc ingress at a point.
func (o *Options) isPastXDP(p point) bool {
	if p.yielded {
		return len(p.ifi.Programs) == 0 || whyUntraceable(p.ifi) != nil
	}
	switch o.At {
	case AtXDP:
		return false
	case AtIngress:
		return true
	}
	isCard := p.ifi.IsHardware() && support.NativeXDP(p.ifi).Answer != support.No
	return !isCard && !o.needsXDP() && !o.isTraced(p)
}

// isTraced reports whether a running program is traced at a point.
func (o *Options) isTraced(p point) bool {
	return o.HookMap == "" && (len(p.ifi.Programs) > 0 || len(o.Hooks) > 0 || len(o.Targets) > 0)
}

// newSource describes a hook on an interface.
func newSource(ifi xdp.Interface, hook Hook) Source {
	return Source{
		Name:   ifi.Name,
		Hook:   hook,
		Index:  ifi.Index,
		Alias:  ifi.Alias,
		Driver: ifi.Driver,
		MAC:    ifi.MAC,
		Speed:  ifi.Speed,
	}
}
