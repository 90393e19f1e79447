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

// A Cause is the reason and the place of losses in the network stack. Each has its own counter.
type Cause struct {
	// Reason is the kernel's name without its prefix: "NO_SOCKET". "NOT_SPECIFIED" means that the
	// kernel has no reason for this place in its code; before Linux 5.17 every cause has it.
	Reason string

	// Location is the kernel function that dropped the packets, or its address if the kernel hides
	// names.
	Location string

	Device    string // the interface that lost the packets; "" = unknown
	Namespace uint32 // inode of the device's network namespace; 0 = unknown
	Kind      lost.Kind

	Own       bool // the device is the counted interface, even if that was renamed
	Elsewhere bool // with a filter: the packets came in on another interface than the counted one
	Unclear   bool // see Counts.Unclear
}

// stackCounts is the result of stackMeter.Read. The caller owns it.
type stackCounts struct {
	Causes map[Cause]Tally

	// Examples has one packet for each cause whose culprit is found by a packet's addresses.
	Examples map[Cause]culprit.Flow

	Flows  FlowCounts // zero without Options.Flows
	Missed uint64     // as in Counts, in buffers
}

// A stackMeter counts the packets that the network stack drops: between the XDP hook and the
// sockets, and on the way out. It attaches to a tracepoint and to no interface.
type stackMeter struct {
	ifindex      uint32 // of the interface, 0 = all
	netns        uint32 // inode of the thread's network namespace at openStack
	inNamespace  bool   // only of the network namespace: of an interface or of all
	coll         *ebpf.Collection
	program      *ebpf.Program
	link         link.Link
	began        time.Time
	reasons      lost.Reasons
	symbols      *lost.Symbols
	closeSymbols func() error // nil = they are the caller's
	flows        meter.FlowTable

	mu     sync.Mutex              // guards the fields below, and the table while entries are evicted
	aging  meter.Aging[stackCause] // which causes have been quiet: see evictQuiet
	former map[stackCause]Tally    // of evicted entries, without interfaces
	names  deviceNames
}

// keptCauses is how many causes keep their entry however quiet they are. The table has room for
// eight times as many, for the causes of the last minute.
const keptCauses = 1024

// programOf has a program for each list of arguments that the tracepoint has in a kernel version,
// as support.TracepointArguments writes it.
var programOf = map[string]string{
	"*sk_buff, *void":                         stackProgXdpcapLostOld, // before Linux 5.17
	"*sk_buff, *void, skb_drop_reason":        stackProgXdpcapLost,
	"*sk_buff, *void, skb_drop_reason, *sock": stackProgXdpcapLostRx, // since 6.11
}

// openStack begins to count on one interface or, if it is nil, on all of the machine or of the
// network namespace. The packets of one interface are those that came in through it, and those that
// were lost at it or at a device above it, such as a VLAN, a bond or a bridge. It needs CAP_BPF and
// CAP_PERFMON, a kernel with BTF, and CAP_SYSLOG for the names of functions.
func openStack(iface *xdp.Interface, o Options) (*stackMeter, error) {
	s := &stackMeter{aging: meter.Aging[stackCause]{Keep: keptCauses}, former: make(map[stackCause]Tally)}
	if iface != nil {
		s.ifindex = uint32(iface.Index)
	}
	s.inNamespace = iface != nil || o.Namespace
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
		s.closeSymbols = s.symbols.Close
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
		if err := s.enableFlows(spec, o.flowBuckets); err != nil {
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

// restrict restricts programs to an interface or, if it is nil, to the network namespace if the
// options request that.
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
	// The program counts a packet by its cause before it counts its flow. So the flows are read
	// first: they never have more packets than the causes.
	var err error
	if counts.Flows.FlowCounts, err = s.flows.Read(); err != nil {
		return stackCounts{}, fmt.Errorf("read the flows of lost packets: %w", err)
	}
	var key stackCause
	var perCPU []Tally
	raw := maps.Clone(s.former)
	all := s.coll.Maps[stackMapCauses].Iterate()
	for all.Next(&key, &perCPU) {
		raw[key] = meter.Sum(perCPU)
	}
	if err := all.Err(); err != nil {
		return stackCounts{}, fmt.Errorf("read the counters of lost packets: %w", err)
	}
	s.names.update(raw)
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

// evictQuiet evicts causes from the table, because they name interfaces, and containers create ever
// new ones. The packets of an evicted cause are added to a cause with the same reason and function,
// but without an interface. A packet that arrives between the program's look-up of its entry and
// the eviction of this entry is not counted; it would be the first in a minute.
func (s *stackMeter) evictQuiet(now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := meter.EvictQuiet(&s.aging, now, s.coll.Maps[stackMapCauses], ebpf.MustPossibleCPU(),
		func(c stackCause, perCPU []Tally) (n uint64, mayEvict bool) {
			isCounted := c.At.Ifindex != 0 && c.At.Ifindex == s.ifindex // the one counted interface stays
			return meter.Sum(perCPU).Packets, !isCounted
		},
		func(c stackCause, perCPU []Tally) {
			if !s.inNamespace {
				c.At.Netns = 0
			}
			c.At.Ifindex, c.At.Name = 0, [len(c.At.Name)]int8{}
			for i := range meter.Gone {
				c.At.Name[i] = int8(meter.Gone[i])
			}
			sum := meter.Sum(perCPU)
			sum.Add(s.former[c])
			s.former[c] = sum
		})
	if err != nil {
		return fmt.Errorf("make room for counters of lost packets: %w", err)
	}
	return nil
}

// cameElsewhere is CAME_ELSEWHERE in bpf/drops.c: a bit of stackCause.Kind.
const cameElsewhere = 1 << 31

// cause converts the key of a counter. functions are the names of functions by address.
func (s *stackMeter) cause(key *stackCause, functions map[uint64]string) Cause {
	location, ok := functions[key.Location]
	if !ok {
		location = fmt.Sprintf("%#x", key.Location)
	}
	name, ok := s.names.latest[deviceOf(key)]
	if !ok {
		name = meter.Text(key.At.Name[:])
	}
	return Cause{
		Reason:    reasonName(s.reasons, lost.Reason(key.Reason)),
		Location:  location,
		Device:    name,
		Namespace: key.At.Netns,
		Kind:      lost.Kind(key.Kind &^ cameElsewhere),
		Own:       s.ifindex != 0 && deviceOf(key) == device{s.netns, s.ifindex},
		Elsewhere: key.Kind&cameElsewhere != 0,
		Unclear:   s.inNamespace && key.At.Netns == 0, // the program counts no flows of these packets
	}
}

// reasonName returns the name of a reason as in Cause.
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
	for _, buffers := range full {
		n += buffers
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
	if s.closeSymbols != nil {
		errs = append(errs, s.closeSymbols())
	}
	return errors.Join(errs...)
}
