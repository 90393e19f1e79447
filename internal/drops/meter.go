package drops

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/culprit"
	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Meter counts the losses of one interface, or those of all together. Its methods may be called
// concurrently, except Close, which is called once, after all others.
type Meter struct {
	iface    *xdp.Interface // nil = all
	here     bool           // all of the network namespace, not of the machine
	filter   string         // in words
	netns    uint32         // the inode of the thread's network namespace at Open
	stack    *stackMeter
	events   *meter.Tracepoints
	sockets  *sockets
	softnet  *lost.SoftnetFile
	culprits *culprit.Finder
	listen   *listeners
	tracked  lost.CounterFile // of conntrack
	ipsec    lost.CounterFile
	card     *card            // nil = all
	hook     *hook            // nil = all
	witness  *witness         // nil unless asked for
	again    *retransmits     // nil unless asked for
	way      *wayMeter        // nil without a filter
	before   *filteredReading // what had been lost when m.way began to count
}

// Options say what to count.
type Options struct {
	Interface string // "" = all of the machine together
	Namespace bool   // without an Interface: all of the calling thread's network namespace together
	Flows     bool   // also count flows: TopFlows
	Check     bool   // also compare with the kernel's own counters: Counts.Check

	// Filter selects the packets to count, and lets the packets be counted on their way, too:
	// Counts.Way. It needs an Interface. Package filter compiles it; nil = all.
	Filter     *filter.Program
	FilterText string // the filter in words, for String

	// Retransmits also tells which of the segments that TCP sends again were lost here:
	// Counts.Retransmits.
	Retransmits bool

	symbols      *lost.Symbols // nil: each meter has its own
	flowBuckets  int           // of each CPU, a power of two, for tests; 0 = as meter.SizeFlows has it
	beforeAttach func()        // called when everything is loaded, which takes long; nil = nothing
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
	m := &Meter{netns: netns, here: o.Namespace, filter: o.FilterText}
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
	if m.events, err = meter.OpenTracepoints(meter.TracepointOptions{Interface: m.iface, Namespace: m.here, Netns: m.iface == nil}); err != nil {
		return err
	}
	o.beforeAttach = func() {
		m.sockets, m.softnet, m.culprits = openSockets(m.iface), lost.OpenSoftnet(), culprit.Open()
		m.listen = openListeners(m.culprits)
		m.tracked, m.ipsec = lost.OpenCounters(lost.OfConntrack), lost.OpenCounters(lost.OfIPsec)
	}
	if m.stack, err = openStack(m.iface, o); err != nil {
		return err
	}
	if o.Retransmits {
		if m.again, err = openRetransmits(m.iface, m.stack, o); err != nil {
			return err
		}
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
	_, err = m.hook.look(m.untraced)
	return err
}

// String says what is counted.
func (m *Meter) String() string {
	switch {
	case m.here:
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
	filtered  *filteredReading // nil without a filter
	causes    map[Cause]Tally  // of the stack
	failures  failures         // at the hook
	card      cardReading      // zero for all interfaces together
	examples  map[Loss]culprit.Flow
	listeners map[Loss]uint64 // what TCP's listeners refused, by counters
	tracked   lost.Counters   // of conntrack, since Open
	generic   Tally           // thrown away by the hook in generic mode, whatever the reason
	txApart   bool            // a failed tx in generic mode is not in generic, but a cause of the stack
}

func newReading(s stackCounts) *reading {
	return &reading{Counts: newCounts(), causes: s.Causes, examples: make(map[Loss]culprit.Flow)}
}

// Read reads all counters.
func (m *Meter) Read() (Counts, error) {
	var before lost.Counters
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
	hook, program := hookReading{runs: "generic mode", dropped: m.dropped(r)}, ""
	if m.hook != nil {
		if hook, err = m.hook.read(hook.dropped); err != nil {
			return Counts{}, err
		}
		program, r.Untraced = hook.runs, hook.refused
	}
	r.add(r.Losses, Loss{Stage: XDP, Reason: xdp.Drop.String(), Where: hook.runs}, hook.dropped)
	r.addEvidence(m, program)
	if r.filtered != nil {
		r.addWay(m, hook)
	}
	if m.witness != nil {
		r.Check, err = m.witness.compare(m, r, before)
	}
	return r.Counts, err
}

func (m *Meter) read() (r *reading, err error) {
	refused := m.listen.counters()
	var came wayCounts
	if m.way != nil {
		// Before the losses: else a packet lost between both readings would seem to go elsewhere.
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
	if m.again != nil {
		if r.Retransmits, err = m.again.read(m); err != nil {
			return nil, err
		}
	}
	r.addListeners(m, refused)
	r.tracked = m.tracked.Rose()
	r.Conntrack = conntrackOf(r.tracked)
	r.Softnet = m.softnet.Read()
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

// untraced returns what the XDP program has dropped, as far as it is known without tracing the
// program, and what came to the stack, which is 0 without a filter.
func (m *Meter) untraced() (dropped, passed Tally, err error) {
	r, err := m.read()
	if err != nil {
		return Tally{}, Tally{}, err
	}
	return m.dropped(r), r.passed(), nil
}

// dropped returns what the XDP program has dropped, as far as it is known without tracing the
// program. In generic mode the stack throws away what the program dropped and what failed, such as
// aborted packets: the failures are subtracted, which the xdp tracepoints report. In native mode
// only the counters of some drivers have it, also together with failures.
func (m *Meter) dropped(r *reading) Tally {
	if r.filtered != nil {
		return r.filtered.atHook
	}
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
	if m.way != nil && notice == "" && err == nil {
		if gone := m.way.Check(); gone != nil {
			notice = "what comes to the stack is not counted any more: " + gone.Error()
		}
	}
	return notice, err
}

// Capabilities returns those that Read, Follow and Close need, by number (capabilities(7)).
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
	if m.hook != nil {
		errs = append(errs, m.hook.close())
	}
	if m.again != nil {
		errs = append(errs, m.again.close())
	}
	if m.stack != nil {
		errs = append(errs, m.stack.Close())
	}
	if m.softnet != nil {
		m.softnet.Close()
	}
	if m.listen != nil {
		errs = append(errs, m.listen.close(), m.tracked.Close(), m.ipsec.Close())
		m.culprits.Close()
	}
	if m.witness != nil {
		errs = append(errs, m.witness.close())
	}
	if m.way != nil {
		errs = append(errs, m.way.Close())
	}
	if m.events != nil {
		errs = append(errs, m.events.Close())
	}
	return errors.Join(errs...)
}
