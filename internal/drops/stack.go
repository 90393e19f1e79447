package drops

import (
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/culprit"
	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

//go:generate go tool bpf2go -target bpfel -type cause -type loss stack ../../bpf/drops.c

// A Cause is why and where the network stack throws packets away. Each has its own counter.
type Cause struct {
	// Reason is the kernel's name without its prefix: "NO_SOCKET". "NOT_SPECIFIED" means that the
	// kernel has no reason for this place in its code; before Linux 5.17 every cause has it.
	Reason string

	// Location is the kernel function that threw the packets away, or its address where the kernel
	// hides names.
	Location string

	// Device is the interface that the packets were lost at, "" where that is unknown, in the
	// network namespace of this inode number, 0 where that is unknown.
	Device    string
	Namespace uint32

	Kind lost.Kind

	Own bool // the device is the interface that is asked about, whatever its name is by now

	// Elsewhere is true for packets that came in on another interface than the one that is asked
	// about. It is only known with a filter.
	Elsewhere bool

	// Unclear packets may be another interface's than the one that is asked about: neither device
	// nor namespace is known, but only the index of the interface that they came in on.
	Unclear bool
}

// stackCounts is the result of stackMeter.Read. The caller owns it.
type stackCounts struct {
	Causes map[Cause]Tally

	// Examples has one of the packets of those causes whose culprit is found by its addresses.
	Examples map[Cause]culprit.Flow

	Flows  FlowCounts // of losses; zero unless asked for
	Missed uint64     // buffers in none of the causes: there were too many causes, or an interrupt came in between
}

// A stackMeter counts the packets that the network stack throws away: between the XDP hook and the
// sockets, and on the way out. It attaches to a tracepoint and to no interface.
type stackMeter struct {
	ifindex uint32 // of the interface, 0 = all
	netns   uint32 // inode of the thread's network namespace at openStack
	here    bool   // of the network namespace, with an interface or all
	coll    *ebpf.Collection
	program *ebpf.Program
	link    link.Link
	began   time.Time
	reasons lost.Reasons
	symbols *lost.Symbols
	close   func() error // of the symbols; nil = they are the caller's
	flows   meter.FlowTable

	mu     sync.Mutex // guards the fields below, and the table from a look until the removal of entries
	aging  meter.Aging[stackCause]
	former map[stackCause]Tally // of entries that were removed, without interfaces
	names  deviceNames
}

// keptCauses is how many causes keep their entry however quiet they are. The table has room for
// eight times as many, so that those of the last minute always fit.
const keptCauses = 1024

// programOf has the program that reads each list of arguments which the tracepoint has had, as
// support.TracepointArguments writes it.
var programOf = map[string]string{
	"*sk_buff, *void":                         stackProgXdpcapLostOld, // before Linux 5.17
	"*sk_buff, *void, skb_drop_reason":        stackProgXdpcapLost,
	"*sk_buff, *void, skb_drop_reason, *sock": stackProgXdpcapLostRx, // since 6.11
}

// openStack begins to count on one interface or, if it is nil, on all of the machine or of the
// network namespace. To one interface belong packets that came in through it, that were lost at it,
// or that were lost at a device above it such as a VLAN, a bond or a bridge. It needs CAP_BPF and
// CAP_PERFMON, a kernel with BTF, and CAP_SYSLOG for the names of functions.
func openStack(iface *xdp.Interface, o Options) (*stackMeter, error) {
	s := &stackMeter{aging: meter.Aging[stackCause]{Keep: keptCauses}, former: make(map[stackCause]Tally)}
	if iface != nil {
		s.ifindex = uint32(iface.Index)
	}
	s.here = iface != nil || o.Namespace
	var err error
	if s.netns, err = xdp.NetnsInode(); err != nil {
		return nil, err
	}
	if err := s.open(iface, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *stackMeter) open(iface *xdp.Interface, o Options) (err error) {
	types := xdp.KernelTypes()
	kernel, err := types.Kernel()
	if err != nil {
		return support.ExplainBTF("find the tracepoint skb:kfree_skb and its reasons in the kernel's BTF", err)
	}
	if s.reasons, err = lost.KernelReasons(types); err != nil {
		return err
	}
	if s.symbols = o.symbols; s.symbols == nil {
		if s.symbols, err = lost.OpenSymbols(); err != nil {
			return err
		}
		s.close = s.symbols.Close
	}
	name, err := programFor(kernel, programOf)
	if err != nil {
		return err
	}
	spec, err := loadStack()
	if err != nil {
		return err
	}
	spec.Programs = map[string]*ebpf.ProgramSpec{name: spec.Programs[name]}
	if err := o.restrict(iface, spec); err != nil {
		return err
	}
	if err := meter.SetFilter(spec, o.Filter); err != nil {
		return err
	}
	if o.Flows {
		if err := s.describeFlows(spec, o.flowBuckets); err != nil {
			return err
		}
	}
	if s.coll, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: types}); err != nil {
		return support.ExplainLoad("load the program for the tracepoint skb:kfree_skb", err)
	}
	s.program = s.coll.Programs[name]
	if o.Flows {
		if s.flows, err = meter.OpenFlowTable(s.coll.Maps[stackMapFlows]); err != nil {
			return err
		}
	}
	if o.beforeAttach != nil {
		o.beforeAttach()
	}
	if s.link, err = link.AttachTracing(link.TracingOptions{Program: s.program}); err != nil {
		return support.ExplainLoad("attach to the tracepoint skb:kfree_skb", err)
	}
	s.began = time.Now()
	return nil
}

// restrict lets programs count at an interface or, if it is nil, in the network namespace or on the
// machine.
func (o Options) restrict(iface *xdp.Interface, spec *ebpf.CollectionSpec) error {
	switch {
	case iface != nil:
		return meter.RestrictTo(*iface, spec)
	case o.Namespace:
		return meter.RestrictTo(xdp.Interface{}, spec)
	}
	return nil
}

// programFor returns the program that can read this kernel's tracepoint, by its arguments.
func programFor(kernel *btf.Spec, programs map[string]string) (string, error) {
	args, err := support.TracepointArguments(kernel, "kfree_skb")
	if err != nil {
		return "", fmt.Errorf("find the tracepoint skb:kfree_skb in the kernel's BTF: %w", err)
	}
	name, ok := programs[args]
	if !ok {
		return "", fmt.Errorf("xdpcap does not know the arguments that this kernel's tracepoint skb:kfree_skb has: %s", args)
	}
	return name, nil
}

// Began returns when counting began, by the clocks of time.Now.
func (s *stackMeter) Began() time.Time { return s.began }

// Read reads all counters.
func (s *stackMeter) Read() (stackCounts, error) {
	counts := stackCounts{Causes: make(map[Cause]Tally), Examples: make(map[Cause]culprit.Flow), Flows: FlowCounts{reasons: s.reasons}}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The flows come first: the program counts a packet by its cause before it counts its flow, so
	// the flows never have more packets than the causes.
	var err error
	if counts.Flows.FlowCounts, err = s.flows.Read(); err != nil {
		return stackCounts{}, fmt.Errorf("read the flows of lost packets: %w", err)
	}
	var key stackCause
	var slots []stackLoss
	raw := maps.Clone(s.former)
	all := s.coll.Maps[stackMapCauses].Iterate()
	for all.Next(&key, &slots) {
		raw[key] = sumOf(slots)
	}
	if err := all.Err(); err != nil {
		return stackCounts{}, fmt.Errorf("read the counters of lost packets: %w", err)
	}
	s.names.note(raw)
	locations := make([]uint64, 0, len(raw))
	for key := range raw {
		locations = append(locations, key.Location)
	}
	names, err := s.symbols.Find(locations)
	if err != nil {
		return stackCounts{}, err
	}
	for key, tally := range raw {
		c := s.cause(&key, names)
		tally.Add(counts.Causes[c])
		counts.Causes[c] = tally
		if culprit.WantsExample(c.Reason, c.Location) {
			if f, ok := meter.LookupFlow(s.coll.Maps[stackMapExamples], key); ok {
				counts.Examples[c] = culprit.Flow{Source: f.Source.Addr(), Destination: f.Destination.Addr(), Port: f.Destination.Port(), Protocol: f.Class.Protocol()}
			}
		}
	}
	counts.Missed, err = s.missed()
	return counts, err
}

func sumOf(slots []stackLoss) (sum Tally) {
	for _, t := range slots {
		sum.Add(Tally{Packets: t.Packets, Bytes: t.Bytes})
	}
	return sum
}

// forget makes room in the table of causes, which name interfaces: those of containers come and go.
// Nothing is subtracted: what a removed cause has counted is added to a cause with the same reason
// and function, and without an interface. A packet that comes at this very moment, the first in a
// minute, may not be counted.
func (s *stackMeter) forget(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := meter.EvictQuiet(&s.aging, now, s.coll.Maps[stackMapCauses], ebpf.MustPossibleCPU(),
		func(c stackCause, slots []stackLoss) (uint64, bool) {
			return sumOf(slots).Packets, c.At.Ifindex == 0 || c.At.Ifindex != s.ifindex
		},
		func(c stackCause, slots []stackLoss) {
			if !s.here {
				c.At.Netns = 0
			}
			c.At.Ifindex, c.At.Name = 0, [len(c.At.Name)]int8{}
			for i := range meter.Gone {
				c.At.Name[i] = int8(meter.Gone[i])
			}
			sum := sumOf(slots)
			sum.Add(s.former[c])
			s.former[c] = sum
		})
	if err != nil {
		return fmt.Errorf("make room for counters of lost packets: %w", err)
	}
	return nil
}

// cameElsewhere is CAME_ELSEWHERE in bpf/drops.c.
const cameElsewhere = 1 << 31

// cause gives a counter's key its names.
func (s *stackMeter) cause(key *stackCause, names map[uint64]string) Cause {
	c := Cause{Reason: reasonName(s.reasons, lost.Reason(key.Reason)), Namespace: key.At.Netns, Device: meter.Text(key.At.Name[:]), Kind: lost.Kind(key.Kind &^ cameElsewhere), Elsewhere: key.Kind&cameElsewhere != 0}
	if latest, ok := s.names.latest[deviceOf(key)]; ok {
		c.Device = latest
	}
	c.Unclear, c.Own = s.isUnclear(key), s.ifindex != 0 && deviceOf(key) == device{s.netns, s.ifindex}
	var ok bool
	if c.Location, ok = names[key.Location]; !ok {
		c.Location = fmt.Sprintf("%#x", key.Location)
	}
	return c
}

// isUnclear tells of Cause.Unclear. The program counts no flows of these packets.
func (s *stackMeter) isUnclear(key *stackCause) bool {
	return s.here && key.At.Netns == 0
}

// reasonName names a reason as Cause does.
func reasonName(names lost.Reasons, r lost.Reason) string {
	if r == 0 {
		return "NOT_SPECIFIED"
	}
	return names.Name(r)
}

// missed returns how many buffers are in no counter.
func (s *stackMeter) missed() (n uint64, err error) {
	var full []uint64
	if err := s.coll.Maps[stackMapMissed].Lookup(uint32(0), &full); err != nil {
		return 0, fmt.Errorf("read how many lost packets were not counted: %w", err)
	}
	for _, more := range full {
		n += more
	}
	info, err := s.program.Stats()
	if err != nil {
		return 0, fmt.Errorf("read how many lost packets were not counted: %w", err)
	}
	return n + info.RecursionMisses, nil
}

// Close detaches from the tracepoint.
func (s *stackMeter) Close() error {
	var errs []error
	if s.link != nil {
		errs = append(errs, s.link.Close())
	}
	errs = append(errs, s.flows.Close())
	if s.coll != nil {
		s.coll.Close()
	}
	if s.close != nil {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}
