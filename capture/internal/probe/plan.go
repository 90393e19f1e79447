package probe

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// allInterfaces names the source of the packets that the stack throws away at all interfaces.
const allInterfaces = "any"

// Points looks up the interfaces and compiles the filter for each.
func (o *Options) Points() (points []Point, err error) {
	if o.SourcesChange {
		return nil, nil // Followed in package watch looks up interfaces one by one
	}
	if o.StackDrops && len(o.Patterns) > 0 {
		points = []Point{{Interface: xdp.Interface{Name: allInterfaces}}}
	}
	if o.HookMap != "" {
		points = []Point{{Interface: xdp.Interface{Name: o.HookMap}}}
	}
	named, err := o.NamedInterfaces()
	if err != nil {
		return nil, err
	}
	for _, ifi := range named {
		points = append(points, Point{Interface: ifi})
	}
	for i := range points {
		if err := o.Compile(&points[i]); err != nil {
			return nil, err
		}
	}
	return points, nil
}

// Compile compiles the filter for one interface, because "ip broadcast" depends on its netmask, and
// for each direction, because of "inbound" and "outbound". With two directions, the filter may
// reject all packets of one of them.
func (o *Options) Compile(p *Point) (err error) {
	received, sent, err := o.programs(p)
	if err != nil {
		return err
	}
	const headBytes = int(kernel.SamplerHeadLimitHEAD_BYTES)
	if p.Filter, err = attach.NewFilter(received, headBytes); err != nil {
		return err
	}
	p.Sent, err = attach.NewFilter(sent, headBytes)
	return err
}

// compileSent compiles the filter for packets that an interface sends, whatever Options.Direction
// is.
func (o *Options) compileSent(p Point) (attach.Filter, error) {
	out := *o
	out.Direction = packet.Out
	err := out.Compile(&p)
	return p.Sent, err
}

// programs returns the compiled filters; nil = every packet.
func (o *Options) programs(p *Point) (received, sent *filter.Program, err error) {
	switch {
	case o.FilterProgram != nil:
		all := &filter.Program{Instructions: o.FilterProgram}
		return all, all, nil
	case o.Filter == "":
		return nil, nil, nil
	}
	of := filter.Options{Sets: o.FilterSets, VLANAware: o.VLANAware, Fragments: o.Fragments, VXLANPort: o.VXLANPort, Outbound: o.Direction == packet.Out}
	if p.Interface.Index != 0 { // packets of a hook map may be from any interface
		if of.Netmask, err = p.Interface.Netmask(); err != nil {
			return nil, nil, err
		}
	}
	switch o.Direction {
	case packet.In:
		received, err = filter.Compile(o.Filter, of)
	case packet.Out:
		sent, err = filter.Compile(o.Filter, of)
	default:
		received, sent, err = filter.CompileBoth(o.Filter, of)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("filter expression: %w", err)
	}
	return received, sent, nil
}

// NamedInterfaces looks up Options.Interfaces.
func (o *Options) NamedInterfaces() (all []xdp.Interface, err error) {
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

// SortLowestFirst sorts objects at interfaces so that an interface comes before those above it,
// such as its bridge: the kernel attaches no program below an interface that runs one. index
// returns the index of an object's interface. If the kernel does not report which interfaces are
// above, all stays unsorted, and the error of attaching has the interface that is in the way.
func SortLowestFirst[T any](all []T, index func(T) int) {
	if len(all) < 2 {
		return
	}
	if heights, err := xdp.Heights(); err == nil {
		slices.SortStableFunc(all, func(a, b T) int { return cmp.Compare(heights[index(a)], heights[index(b)]) })
	}
}

// DescribePatterns describes the interfaces that may come, for messages and files.
func DescribePatterns(patterns, except []string) string {
	text := strings.Join(patterns, ", ")
	if slices.Contains(patterns, "*") {
		text = "all"
	}
	if len(except) > 0 {
		text += " except " + strings.Join(except, ", ")
	}
	return text
}

// MatchesInterface reports whether an interface with this name is captured when it comes.
func (o *Options) MatchesInterface(name string) bool {
	matches := func(pattern string) bool {
		ok, _ := path.Match(pattern, name)
		return ok
	}
	return slices.Contains(o.Interfaces, name) || slices.ContainsFunc(o.Patterns, matches) && !slices.ContainsFunc(o.Except, matches)
}
