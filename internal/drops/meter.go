package drops

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Meter counts the losses of one interface, or those of all together. Its methods may be called
// concurrently, except Close, which is called once, after all others.
type Meter struct {
	iface   *xdp.Interface // nil = all
	netns   uint32         // the inode of the thread's network namespace at Open
	stack   *stackMeter
	events  *meter.Tracepoints
	sockets *sockets
	softnet *softnet
	listen  *listeners
	tracked counterFile // of conntrack
	card    *card       // nil = all
	hook    *hook       // nil = all
	witness *witness    // nil unless asked for
}

// Options say what to count.
type Options struct {
	Interface string // "" = all of the machine together
	Flows     bool   // also count flows: TopFlows
	Check     bool   // also compare with the kernel's own counters: Counts.Check

	flowBuckets int // of each CPU, a power of two, for tests; 0 = as meter.SizeFlows has it
}

// Open begins to count. It attaches to tracepoints and, where the kernel can trace XDP programs, to
// the exit of the interface's program; never to an interface.
func Open(o Options) (*Meter, error) {
	if err := support.CheckProcess(); err != nil {
		return nil, err
	}
	netns, err := xdp.NetnsInode()
	if err != nil {
		return nil, err
	}
	m := &Meter{netns: netns}
	if o.Interface != "" {
		iface, err := xdp.InterfaceByName(o.Interface)
		if err != nil {
			return nil, err
		}
		m.iface = &iface
	}
	if err := m.open(o); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

func (m *Meter) open(o Options) (err error) {
	if o.Check {
		if m.witness, err = openWitness(); err != nil {
			return err
		}
	}
	if err := m.openSources(o); err != nil || m.witness == nil {
		return err
	}
	return m.witness.begin(m)
}

func (m *Meter) openSources(o Options) (err error) {
	if m.events, err = meter.OpenTracepoints(meter.TracepointOptions{Interface: m.iface}); err != nil {
		return err
	}
	m.sockets, m.softnet, m.listen = openSockets(m.iface), openSoftnet(), openListeners()
	m.tracked = openCounterFile(fileOfConntrack)
	if m.stack, err = openStack(m.iface, o); err != nil || m.iface == nil {
		return err
	}
	if m.card, err = openCard(*m.iface); err != nil {
		return err
	}
	if m.hook, err = openHook(*m.iface); err != nil {
		return err
	}
	_, err = m.hook.look(m.untraced)
	return err
}

// String says what is counted.
func (m *Meter) String() string {
	if m.iface == nil {
		return "packets lost on this machine"
	}
	return "packets lost at " + m.iface.Name
}

// Interface returns the interface's main name, "" for all.
func (m *Meter) Interface() string {
	if m.iface == nil {
		return ""
	}
	return m.iface.Name
}

// Began returns when counting began, by the clocks of time.Now.
func (m *Meter) Began() time.Time { return m.stack.Began() }

// A reading has what all sources tell at about one time.
type reading struct {
	Counts
	causes    map[Cause]Tally // of the stack
	failures  failures        // at the hook
	card      cardReading     // zero for all interfaces together
	listeners map[Loss]uint64 // what TCP's listeners refused, by counters
	generic   Tally           // thrown away by the hook in generic mode, whatever the reason
	txApart   bool            // a failed tx in generic mode is not in generic, but a cause of the stack
}

// Read reads all counters.
func (m *Meter) Read() (Counts, error) {
	var before Counters
	if m.witness != nil {
		var err error
		if before, err = m.witness.read(); err != nil {
			return Counts{}, err
		}
	}
	r, err := m.read()
	if err != nil {
		return Counts{}, err
	}
	dropped := Loss{Stage: XDP, Reason: xdp.Drop.String(), Where: "generic mode"}
	tally := m.dropped(r)
	if m.hook != nil {
		if tally, dropped.Where, err = m.hook.read(tally); err != nil {
			return Counts{}, err
		}
	}
	r.add(r.Losses, dropped, tally)
	if m.witness != nil {
		r.Check, err = m.witness.compare(m, r, before)
	}
	return r.Counts, err
}

func (m *Meter) read() (r *reading, err error) {
	refused := m.listen.counters()
	stack, err := m.stack.Read()
	if err != nil {
		return nil, err
	}
	r = &reading{Counts: newCounts(), causes: stack.Causes}
	r.Flows, r.Missed = stack.Flows, stack.Missed
	r.addStack(m, stack)
	r.addListeners(m, refused)
	r.addConntrack(m.tracked.rose())
	r.Softnet = m.softnet.read()
	// The events come last: where they are subtracted from others, they must not be older.
	if m.card != nil {
		if r.card, err = m.card.read(); err != nil {
			return nil, err
		}
	}
	events, err := m.events.Read()
	if err != nil {
		return nil, err
	}
	r.addEvents(m, events)
	if m.card != nil {
		r.addCard(driverKinds[m.iface.Driver])
	}
	return r, nil
}

// untraced tells what the XDP program has dropped as far as other counters tell.
func (m *Meter) untraced() (Tally, error) {
	r, err := m.read()
	if err != nil {
		return Tally{}, err
	}
	return m.dropped(r), nil
}

// dropped tells the same of a reading. In generic mode the hook throws away what the program
// dropped and what it aborted, and the tracepoint tells which is aborted in that mode: elsewhere a
// program may be native, and its packets are not among these. In native mode some drivers count.
func (m *Meter) dropped(r *reading) Tally {
	if r.generic.Packets > 0 || m.iface == nil {
		if r.failures.generic == 0 {
			return r.generic
		}
		return Tally{Packets: less(r.generic.Packets, r.failures.generic)} // and nobody knows how many bytes
	}
	within := r.failures.aborted
	if driverKinds[m.iface.Driver].xdpHasErrors {
		within = r.failures.all()
	}
	return Tally{Packets: less(r.card.xdpDrops, within)}
}

// addStack adds the packets that the stack threw away. Those that it threw away for the XDP hook
// are not among the losses, because the hook's own counters have them. In generic mode the hook has
// no counter for the packets that a program drops, so these are added to r.generic.
func (r *reading) addStack(m *Meter, s stackCounts) {
	for cause, tally := range s.Causes {
		l := Loss{Stage: stageOf(cause.Reason, cause.Kind), Reason: cause.Reason, Where: cause.Location, Device: cause.Device}
		if m.iface == nil && cause.Namespace != m.netns {
			l.Netns = cause.Namespace
		}
		if m.iface != nil {
			switch l.Device {
			case m.iface.Name:
				l.Device = ""
			case "":
				l.Device = "?"
			}
		}
		switch {
		case lost.IsAtHook(cause.Reason, cause.Location):
			if cause.Location == lost.GenericHook && cause.Reason != "XDP" {
				r.generic.Add(tally)
			}
		case lost.IsHarmless(cause.Reason, cause.Location, cause.Kind):
			r.add(r.Harmless, l, tally)
		case lost.IsDuplicate(cause.Reason):
			r.add(r.Duplicates, l, tally)
		case cause.Unclear:
			r.add(r.Unclear, l, tally)
		default:
			r.add(r.Losses, l, tally)
			r.txApart = r.txApart || cause.Location == lost.GenericTx
		}
	}
}

// addCard adds what the interface and its driver tell of losses elsewhere than at the hook.
func (r *reading) addCard(kind driverKind) {
	packets := func(n uint64) Tally { return Tally{Packets: n} }
	r.add(r.Losses, Loss{Stage: Card, Reason: "rx_missed"}, packets(r.card.noBuffer))
	for queue, drops := range r.card.queues {
		at := fmt.Sprintf("queue %d", queue)
		r.add(r.Losses, Loss{Stage: Card, Reason: "rx_missed", Where: at}, packets(drops.overruns))
		r.add(r.Losses, Loss{Stage: Card, Reason: "rx_hw_drops", Where: at}, packets(less(drops.all, drops.overruns)))
	}
	r.add(r.Losses, Loss{Stage: Card, Reason: "rx_errors"}, packets(r.card.corrupt))
	r.add(r.Losses, Loss{Stage: Egress, Reason: "tx_errors"}, packets(r.card.unsent))

	known := uint64(0)
	if kind.lostHasXDP {
		known += r.card.xdpDrops
	}
	if kind.lostHasErrors {
		known += r.failures.redirects + r.failures.tx
	}
	// The queues are added up, because a failure does not tell its queue.
	r.add(r.Losses, Loss{Stage: Card, Reason: "driver"}, packets(less(r.card.lost, known)))
}

// less is a - b, and 0 while counters that are read one after the other disagree.
func less(a, b uint64) uint64 { return a - min(a, b) }

// Follow looks whether the interface is still there, and traces the program that runs now. Call it
// about once per second, from one goroutine, in the network namespace of Open.
func (m *Meter) Follow() (notice string, err error) {
	if m.hook != nil {
		if notice, err = m.hook.look(m.untraced); err != nil {
			return notice, err
		}
	}
	if err := m.stack.forget(time.Now()); err != nil {
		return notice, err
	}
	more, err := m.events.Follow()
	if notice == "" {
		notice = more
	}
	return notice, err
}

// Capabilities returns those that Follow and Close need, by number (capabilities(7)).
func (m *Meter) Capabilities() []int {
	if m.iface == nil {
		return nil
	}
	return []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN}
}

// Close detaches everything.
func (m *Meter) Close() error {
	var errs []error
	if m.hook != nil {
		errs = append(errs, m.hook.close())
	}
	if m.stack != nil {
		errs = append(errs, m.stack.Close())
	}
	if m.softnet != nil {
		m.softnet.close()
	}
	if m.listen != nil {
		errs = append(errs, m.listen.close(), m.tracked.close())
	}
	if m.witness != nil {
		errs = append(errs, m.witness.close())
	}
	if m.events != nil {
		errs = append(errs, m.events.Close())
	}
	return errors.Join(errs...)
}
