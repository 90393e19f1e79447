package drops

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/culprit"
	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Meter counts the losses of one interface, or of all interfaces together. Its methods may be
// called concurrently, except Close, which is called once, after all others.
type Meter struct {
	iface       *xdp.Interface // nil = all interfaces
	inNamespace bool           // all interfaces of the network namespace, not of the machine
	filter      string         // as text
	netns       uint32         // inode of the thread's network namespace at Open
	stack       *stackMeter
	events      *meter.Tracepoints
	sockets     *sockets
	softnet     lost.CounterFile
	culprits    *culprit.Finder
	listeners   *listeners
	conntrack   lost.CounterFile
	ipsec       lost.CounterFile
	card        *card        // nil = all interfaces
	hook        *hook        // nil = all interfaces
	witness     *witness     // nil without Options.Check
	retransmits *retransmits // nil without Options.Retransmits
	way         *wayMeter    // nil without a filter

	before  *filteredReading // the losses when way began to count; nil without a filter
	closers []func() error   // of the sources above, in the order of opening
}

// Options define which losses to count, and with which details.
type Options struct {
	Interface string // "" = all interfaces of the machine together
	Namespace bool   // without an Interface: only those of the calling thread's network namespace
	Flows     bool   // also count flows: TopFlows
	Check     bool   // also compare with the kernel's own counters: Counts.Check

	// Filter selects the packets to count. With it, the packets that arrive at each stage are
	// counted, too: Counts.Way. It needs an Interface. Package filter compiles it; nil = all.
	Filter     *filter.Program
	FilterText string // the filter as text, for String

	// Retransmits also counts which of the segments that TCP sends again were lost here:
	// Counts.Retransmits.
	Retransmits bool

	symbols      *lost.Symbols // nil: each meter has its own
	flowBuckets  int           // of each CPU, a power of two, for tests; 0 = the default of meter.SizeFlows
	beforeAttach func()        // called when everything is loaded, which takes long; nil = no call
	longestHole  time.Duration // between a loss and its retransmission, for tests; 0 = 2 minutes
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
	m := &Meter{netns: netns, inNamespace: o.Namespace, filter: o.FilterText}
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
		m.onClose(m.witness.close)
	}
	if err := m.openSources(o); err != nil || m.witness == nil {
		return err
	}
	return m.witness.begin(m)
}

func (m *Meter) openSources(o Options) (err error) {
	if m.events, err = meter.OpenTracepoints(meter.TracepointOptions{Interface: m.iface, Namespace: m.inNamespace, Netns: m.iface == nil}); err != nil {
		return err
	}
	m.onClose(m.events.Close)
	o.beforeAttach = m.openCounters // called by openStack, so that all begin at about one time
	if m.stack, err = openStack(m.iface, o); err != nil {
		return err
	}
	m.onClose(m.stack.Close)
	if o.Retransmits {
		if m.retransmits, err = openRetransmits(m.iface, m.stack, o); err != nil {
			return err
		}
		m.onClose(m.retransmits.close)
	}
	if m.iface == nil {
		return nil
	}
	if m.card, err = openCard(*m.iface); err != nil {
		return err
	}
	if o.Filter != nil {
		if err = m.openWay(o.Filter); err != nil {
			return err
		}
	}
	if m.hook, err = openHook(*m.iface, o.Filter); err != nil {
		return err
	}
	m.onClose(m.hook.close)
	_, err = m.hook.update(m.untraced)
	return err
}

// openCounters opens the sources that need no program.
func (m *Meter) openCounters() {
	m.sockets, m.culprits = openSockets(m.iface), culprit.Open()
	m.listeners = openListeners(m.culprits)
	m.softnet, m.conntrack, m.ipsec = lost.OpenCounters(lost.OfSoftnet), lost.OpenCounters(lost.OfConntrack), lost.OpenCounters(lost.OfIPsec)
	m.onClose(func() error {
		m.culprits.Close()
		return errors.Join(m.listeners.close(), m.softnet.Close(), m.conntrack.Close(), m.ipsec.Close())
	})
}

func (m *Meter) onClose(do func() error) { m.closers = append(m.closers, do) }

// String describes which losses are counted.
func (m *Meter) String() string {
	switch {
	case m.inNamespace:
		return "packets lost in this network namespace"
	case m.iface == nil:
		return "packets lost on this machine"
	}
	text := "packets lost at " + m.iface.Name
	if m.filter != "" {
		text += ", " + m.filter
	}
	return text
}

// Interface returns the interface's main name; "" = all interfaces.
func (m *Meter) Interface() string {
	if m.iface == nil {
		return ""
	}
	return m.iface.Name
}

// Began returns when counting began, by the clocks of time.Now.
func (m *Meter) Began() time.Time { return m.stack.Began() }

// A reading has the counts of all sources at about one time.
type reading struct {
	Counts
	filtered   *filteredReading // nil without a filter
	causes     map[Cause]Tally  // of the stack
	failures   failures         // at the XDP hook
	card       cardReading      // zero for all interfaces together
	examples   map[Loss]culprit.Flow
	listeners  map[Loss]uint64 // packets that TCP's listeners refused, by the kernel's counters
	conntrack  lost.Counters   // since Open
	generic    Tally           // packets that the stack freed for the hook in generic mode: dropped and failed ones
	hasTxCause bool            // the stack reports a failed tx in generic mode as a cause: it is not in generic
}

func newReading(s stackCounts) *reading {
	return &reading{Counts: newCounts(), causes: s.Causes, examples: make(map[Loss]culprit.Flow)}
}

// Read reads all counters.
func (m *Meter) Read() (Counts, error) {
	var before lost.Counters // the kernel's own, for the witness
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
	// Of all interfaces together, only what generic mode drops is known, and not the program.
	hook, program := hookReading{program: "generic mode", dropped: m.dropped(r)}, ""
	if m.hook != nil {
		if hook, err = m.hook.read(hook.dropped); err != nil {
			return Counts{}, err
		}
		program, r.Untraced = hook.program, hook.refused
	}
	addTo(r.Losses, Loss{Stage: XDP, Reason: xdp.Drop.String(), Where: hook.program}, hook.dropped)
	r.addEvidence(m, program)
	if r.filtered != nil {
		r.addWay(m, hook)
	}
	if m.witness != nil {
		r.Check, err = m.witness.compare(m, r, before)
	}
	return r.Counts, err
}

// read reads all sources but the hook, in the order that the subtractions between them need.
func (m *Meter) read() (r *reading, err error) {
	listenerCounters := m.listeners.counters()
	var came wayCounts
	if m.way != nil {
		// Read before the losses: otherwise a packet that comes and is lost between the two
		// readings would be counted as come, but not as lost, and so as gone elsewhere.
		if came, err = m.way.Read(); err != nil {
			return nil, err
		}
	}
	stack, err := m.stack.Read()
	if err != nil {
		return nil, err
	}
	r = newReading(stack)
	if m.way != nil {
		r.filtered = &filteredReading{came: came, received: make(map[Loss]Tally)}
	}
	r.Flows, r.Missed = stack.Flows, stack.Missed
	r.addStack(m, stack)
	if m.retransmits != nil {
		if r.Retransmits, err = m.retransmits.read(m); err != nil {
			return nil, err
		}
	}
	r.addListeners(m, listenerCounters)
	r.conntrack = m.conntrack.Rose()
	r.Conntrack = Conntrack{Drop: r.conntrack["conntrack drop"], InsertFailed: r.conntrack["conntrack insert_failed"]}
	softnet := m.softnet.Rose()
	r.Softnet = Softnet{Full: softnet["softnet full"], Squeezed: softnet["softnet squeezed"]}
	// The events are subtracted from the counters of the stack and the card, and so are read after
	// these: each failed packet that those have counted is then among the events.
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

// untraced reads all sources but the hook. It returns the packets that the XDP program has dropped,
// as far as they are counted without tracing the program, and those that came to the stack, 0
// without a filter.
func (m *Meter) untraced() (dropped, passed Tally, err error) {
	r, err := m.read()
	if err != nil {
		return Tally{}, Tally{}, err
	}
	return m.dropped(r), r.passed(), nil
}

// dropped returns the packets that the XDP program has dropped, as far as they are counted without
// tracing the program. In generic mode the stack frees both the packets that the program dropped
// and those that failed, such as aborted ones; in native mode some drivers count them, together
// with failures. The failures are subtracted, as the xdp tracepoints report them.
func (m *Meter) dropped(r *reading) Tally {
	if r.filtered != nil {
		return r.filtered.atHook
	}
	if isGeneric := r.generic.Packets > 0; isGeneric || m.iface == nil {
		if r.failures.generic == 0 {
			return r.generic
		}
		return Tally{Packets: minus(r.generic.Packets, r.failures.generic)} // the bytes of failures are unknown
	}
	failures := r.failures.aborted
	if driverKinds[m.iface.Driver].xdpHasErrors {
		failures = r.failures.inDriver()
	}
	return Tally{Packets: minus(r.card.xdpDrops, failures)}
}

// minus returns a - b, or 0 if b is larger: counters that are read one after the other may
// disagree.
func minus(a, b uint64) uint64 { return a - min(a, b) }

// Follow checks whether the interface still exists, and traces the program that runs now. Call it
// about once per second, from one goroutine, in the network namespace of Open.
func (m *Meter) Follow() (notice string, err error) {
	if m.hook != nil {
		if notice, err = m.hook.update(m.untraced); err != nil {
			return notice, err
		}
	}
	if err := m.stack.evictQuiet(time.Now()); err != nil {
		return notice, err
	}
	eventsNotice, err := m.events.Follow()
	notice = cmp.Or(notice, eventsNotice)
	if m.way != nil && notice == "" && err == nil {
		if gone := m.way.Check(); gone != nil {
			notice = "what comes to the stack is not counted any more: " + gone.Error()
		}
	}
	return notice, err
}

// Capabilities returns the capabilities that Read, Follow and Close need, by number
// (capabilities(7)).
func (m *Meter) Capabilities() []int {
	needs := m.culprits.Capabilities()
	if m.iface != nil {
		needs = append(needs, unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN)
	}
	return needs
}

// Close detaches everything.
func (m *Meter) Close() error {
	var errs []error
	for _, closeSource := range slices.Backward(m.closers) {
		errs = append(errs, closeSource())
	}
	return errors.Join(errs...)
}
