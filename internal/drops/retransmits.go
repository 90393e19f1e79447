package drops

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

//go:generate go tool bpf2go -target bpfel -type cause -type totals retransmit ../../bpf/retransmit.c

// Retransmits are the segments that TCP sent again, since Open: with the route through the counted
// interface, or on the whole machine. A segment is counted each time that it is sent again, as the
// kernel does in TcpRetransSegs, except answers to a connection request (SYN-ACK) and, before Linux
// 6.17, segments that could not be sent. If the kernel skipped our program, because it already ran
// on the CPU, that is counted as one segment of Unknown, although it may have been several.
type Retransmits struct {
	Segments uint64

	Lost      map[Loss]Tally // segments that were lost before where the Meter counts losses
	Elsewhere uint64         // segments that were not lost here; perhaps only acknowledged late
	Unknown   uint64         // segments that were lost before Open, whose loss was evicted, or was not seen
}

// holeProgramOf is programOf for the program that stores the lost segments, which are holes in the
// receiver's data.
var holeProgramOf = map[string]string{
	"*sk_buff, *void":                         retransmitProgXdpcapHoleOld,
	"*sk_buff, *void, skb_drop_reason":        retransmitProgXdpcapHole,
	"*sk_buff, *void, skb_drop_reason, *sock": retransmitProgXdpcapHoleRx,
}

// longestHole is the time after which a retransmission is no longer attributed to a loss, as in
// bpf/retransmit.c.
const longestHole = 2 * time.Minute

// retransmits counts the segments that TCP sends again, by whether they were lost here.
type retransmits struct {
	stack *stackMeter // has the names of reasons, functions and devices
	coll  *ebpf.Collection
	holes *ebpf.Program // stores the lost segments: see holeProgramOf
	links []link.Link

	mu     sync.Mutex // guards unseen, from reading the counters until unseen is updated
	unseen unseenLosses
}

// openRetransmits begins to count, as openStack does.
func openRetransmits(iface *xdp.Interface, stack *stackMeter, o Options) (*retransmits, error) {
	r := &retransmits{stack: stack}
	if err := r.open(iface, o); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *retransmits) open(iface *xdp.Interface, o Options) error {
	kernel, err := xdp.KernelTypes().Kernel()
	if err != nil {
		return support.ExplainBTF("find the tracepoints of retransmissions in the kernel's BTF", err)
	}
	name, err := programFor(kernel, holeProgramOf)
	if err != nil {
		return err
	}
	spec, err := loadRetransmit()
	if err != nil {
		return err
	}
	again := spec.Programs[retransmitProgXdpcapAgain]
	spec.Programs = map[string]*ebpf.ProgramSpec{name: spec.Programs[name], retransmitProgXdpcapAgain: again}
	if err := o.restrict(iface, spec); err != nil {
		return err
	}
	const withHook = false // segments that are freed for the XDP hook are losses here
	constants, err := lost.Constants(r.stack.reasons, r.stack.symbols, withHook)
	if err != nil {
		return err
	}
	if constants[retransmitVarBeganNs], err = machine.Monotonic(); err != nil {
		return err
	}
	if o.longestHole > 0 {
		constants[retransmitVarLongestNs] = uint64(o.longestHole)
	}
	if err := attach.Set(spec, constants); err != nil {
		return err
	}
	if r.coll, err = ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: xdp.KernelTypes()}); err != nil {
		return support.ExplainLoad("load the programs for retransmissions", err)
	}
	r.holes = r.coll.Programs[name]
	for _, p := range []*ebpf.Program{r.holes, r.coll.Programs[retransmitProgXdpcapAgain]} {
		l, err := link.AttachTracing(link.TracingOptions{Program: p})
		if err != nil {
			return support.ExplainLoad("attach to the tracepoints skb:kfree_skb and tcp:tcp_retransmit_skb", err)
		}
		r.links = append(r.links, l)
	}
	return nil
}

// include adds the counts of an earlier meter.
func (r *Retransmits) include(former *Retransmits) {
	r.Segments += former.Segments
	r.Elsewhere += former.Elsewhere
	r.Unknown += former.Unknown
	addAll(r.Lost, former.Lost)
}

// read reads all counters. m converts causes into losses.
func (r *retransmits) read(m *Meter) (*Retransmits, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	counts := &Retransmits{Lost: make(map[Loss]Tally)}
	raw := make(map[stackCause]uint64)
	var key retransmitCause
	var perCPU []uint64
	var locations []uint64
	all := r.coll.Maps[retransmitMapCauses].Iterate()
	for all.Next(&key, &perCPU) {
		for _, n := range perCPU {
			raw[stackCause(key)] += n
		}
		locations = append(locations, key.Location)
	}
	if err := all.Err(); err != nil {
		return nil, fmt.Errorf("read the causes of retransmissions: %w", err)
	}
	names, err := r.stack.symbols.Find(locations)
	if err != nil {
		return nil, err
	}
	r.addCauses(m, counts, raw, names)
	var totals []retransmitTotals
	if err := r.coll.Maps[retransmitMapSentAgain].Lookup(uint32(0), &totals); err != nil {
		return nil, fmt.Errorf("read how much was sent again: %w", err)
	}
	for _, t := range totals {
		counts.Segments += t.Segments
		counts.Elsewhere += t.Elsewhere
		counts.Unknown += t.Unknown
	}
	holes, err := r.holes.Stats()
	if err != nil {
		return nil, fmt.Errorf("read how many losses were not seen: %w", err)
	}
	again, err := r.coll.Programs[retransmitProgXdpcapAgain].Stats()
	if err != nil {
		return nil, fmt.Errorf("read how much was sent again unseen: %w", err)
	}
	counts.Segments += again.RecursionMisses
	counts.Unknown += again.RecursionMisses
	moved := r.unseen.among(counts.Elsewhere, holes.RecursionMisses, time.Now())
	counts.Elsewhere -= moved
	counts.Unknown += moved
	return counts, nil
}

// addCauses adds the segments that were lost here, by their causes. functions are the names of
// functions by address.
func (r *retransmits) addCauses(m *Meter, counts *Retransmits, raw map[stackCause]uint64, functions map[uint64]string) {
	r.stack.mu.Lock() // for the names of devices
	defer r.stack.mu.Unlock()
	for key, segments := range raw {
		l := m.lossOf(r.stack.cause(&key, functions))
		if lost.IsAtHook(l.Reason, l.Where) {
			l.Stage, l.Reason = XDP, xdp.Drop.String()
		}
		tally := counts.Lost[l]
		tally.Packets += segments
		counts.Lost[l] = tally
	}
}

// unseenLosses are losses for which the kernel skipped our program, because it already ran on the
// CPU. As many of the segments that are sent again within longestHole may have been lost here: they
// are moved from Retransmits.Elsewhere to Unknown.
type unseenLosses struct {
	elsewhere, missed uint64    // at the last call
	open              uint64    // losses for which no segment was moved yet
	since             time.Time // of the last loss
	moved             uint64    // segments
}

// among returns how many of the segments in elsewhere are to be moved, in all, and keeps that for
// the next call. missed is the number of unseen losses. All three are cumulative. Neither the
// result nor elsewhere minus the result ever falls.
func (u *unseenLosses) among(elsewhere, missed uint64, now time.Time) uint64 {
	if now.Sub(u.since) > longestHole {
		u.open = 0
	}
	if missed > u.missed {
		u.open, u.since = u.open+missed-u.missed, now
	}
	more := min(u.open, elsewhere-u.elsewhere)
	u.open -= more
	u.moved += more
	u.elsewhere, u.missed = elsewhere, missed
	return u.moved
}

func (r *retransmits) close() error {
	var errs []error
	for _, l := range r.links {
		errs = append(errs, l.Close())
	}
	if r.coll != nil {
		r.coll.Close()
	}
	return errors.Join(errs...)
}
