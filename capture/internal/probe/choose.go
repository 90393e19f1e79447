package probe

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// At is the hook at which received packets are captured.
type At int

// The values of an At, which package capture documents.
const (
	AtXDP     At = iota
	AtIngress    // at tc ingress
	AtAuto       // at XDP or at tc ingress, by the interface: see capturesAtTC
)

var atNames = [...]string{"xdp", "tc", "auto"}

func (a At) String() string {
	if a < 0 || int(a) >= len(atNames) {
		return fmt.Sprintf("at %d", int(a))
	}
	return atNames[a]
}

// ParseAt reads where to capture.
func ParseAt(s string) (At, error) {
	if i := slices.Index(atNames[:], s); i >= 0 {
		return At(i), nil
	}
	return 0, fmt.Errorf("place to capture at %q: must be xdp, tc or auto", s)
}

// A Point is an interface to capture on, or a hook map, with the filter for it.
type Point struct {
	Interface xdp.Interface // for a hook map it has a name only
	Filter    attach.Filter // for received packets
	Sent      attach.Filter // for sent packets

	Yielded bool // the session has detached its own XDP program for those of others
}

// Choose chooses the hooks at each point. The caller closes them, even after an error.
func (o *Options) Choose(points []Point) (hooks []Hook, err error) {
	for _, p := range points {
		at, err := o.ChooseAt(p)
		hooks = append(hooks, at...)
		if err != nil {
			return hooks, err
		}
	}
	return hooks, nil
}

// ChooseAt chooses the hooks at one point: those for received packets come first. It opens the
// programs that they will trace. With StackDrops it may set o.Verdicts.
func (o *Options) ChooseAt(p Point) (hooks []Hook, err error) {
	if o.StackDrops {
		return newDropHooks(p, o)
	}
	if o.Direction != packet.Out {
		if hooks, err = o.receivingHooks(p); err != nil {
			return hooks, err
		}
	}
	if o.Direction == packet.In {
		return hooks, nil
	}
	if o.Direction == packet.Out && o.Stamp.IsCards() {
		return hooks, message.Errorf(ErrNoStamp, "time stamps of the type %v: the card stamps packets that %s receives, not those that it sends", o.Stamp, p.Interface.Name)
	}
	return append(hooks, newEgressHook(p)), nil
}

// receivingHooks chooses the hooks for received packets.
func (o *Options) receivingHooks(p Point) ([]Hook, error) {
	if o.capturesAtTC(p) {
		return []Hook{newIngressHook(p, o)}, nil
	}
	q, err := o.cardRequest(p)
	switch {
	case err != nil:
		return nil, err
	case o.isTraced(p):
		return newTraceHooks(p, o)
	case o.HookMap != "":
		return []Hook{newTailCallHook(p, o)}, nil
	}
	return []Hook{newXDPHook(p, o, q)}, nil
}

// capturesAtTC reports whether received packets are captured at tc ingress at a point. If that is
// because the program there cannot be traced, it gives a notice.
func (o *Options) capturesAtTC(p Point) bool {
	switch {
	case p.Yielded:
		return len(p.Interface.Programs) == 0 || WhyUntraceable(p.Interface) != nil
	case o.At != AtAuto:
		return o.At == AtIngress
	case o.NeedsXDP:
		return false
	case !o.isTraced(p):
		return support.PrefersTC(p.Interface)
	}
	why := WhyUntraceable(p.Interface)
	if why != nil {
		o.Notice(fmt.Errorf("%s runs XDP program %v, and is captured behind it, at tc ingress: %w", p.Interface.Name, p.Interface.Programs[0], why))
	}
	return why != nil
}

// NotAtXDP makes an error of attaching at XDP an xdp.ErrNotAtXDP if AtIngress is possible there.
func (o *Options) NotAtXDP(ifi xdp.Interface, err error) error {
	if o.NeedsXDP || support.AtTC(ifi).Answer == support.No {
		return err
	}
	return message.Errorf(xdp.ErrNotAtXDP, "%w", err)
}

// isTraced reports whether a running program is traced at a point.
func (o *Options) isTraced(p Point) bool {
	return o.HookMap == "" && (len(p.Interface.Programs) > 0 || len(o.Hooks) > 0 || len(o.Targets) > 0)
}

// newSource describes a hook on an interface.
func newSource(ifi xdp.Interface, hook packet.Hook) packet.Source {
	return packet.Source{
		Name:   ifi.Name,
		Hook:   hook,
		Index:  ifi.Index,
		Alias:  ifi.Alias,
		Driver: ifi.Driver,
		MAC:    ifi.MAC,
		Speed:  ifi.Speed,
	}
}

// WhyUntraceable returns why a program on an interface cannot be traced, or nil.
func WhyUntraceable(ifi xdp.Interface) error {
	targets, err := xdp.Targets(ifi, nil)
	for _, target := range targets {
		target.Prog.Close()
		err = cmp.Or(err, support.TryProgram(target.ID))
	}
	return err
}
