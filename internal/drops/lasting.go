package drops

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Lasting meter outlives its interface: when an interface of the same name is created again, a
// further Meter counts there. The earlier losses remain in the counts, except for flows and
// Counts.Check. Its methods may be called concurrently, except Close, which is called once, after
// all others.
type Lasting struct {
	options      Options
	name         string // for String
	began        time.Time
	capabilities []int
	symbols      *lost.Symbols

	mu      sync.Mutex // guards the fields below
	m       *Meter     // nil while the interface does not exist
	former  Counts     // of former meters
	refusal string     // the last notice of reopen that it cannot count, which is not repeated
}

// OpenLasting begins to count.
func OpenLasting(o Options) (l *Lasting, err error) {
	if err := support.CheckProcess(); err != nil {
		return nil, err
	}
	l = &Lasting{options: o, former: newCounts()}
	// All meters share the list of functions: the process may drop CAP_SYSLOG later, and the kernel
	// shows names by the privileges at opening.
	if l.symbols, err = lost.OpenSymbols(); err != nil {
		return nil, err
	}
	l.options.symbols = l.symbols
	if l.m, err = Open(l.options); err != nil {
		return nil, errors.Join(err, l.symbols.Close())
	}
	l.name, l.began, l.capabilities = l.m.String(), l.m.Began(), l.m.Capabilities()
	if o.Interface != "" {
		l.options.Interface = l.m.Interface() // its main name
	}
	return l, nil
}

// String is Meter.String.
func (l *Lasting) String() string { return l.name }

// Interface is Meter.Interface.
func (l *Lasting) Interface() string { return l.options.Interface }

// Began returns when counting began.
func (l *Lasting) Began() time.Time { return l.began }

// Capabilities is Meter.Capabilities.
func (l *Lasting) Capabilities() []int { return l.capabilities }

// Read reads all counters, and adds those of former meters.
func (l *Lasting) Read() (Counts, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := newCounts()
	if l.m != nil {
		var err error
		if c, err = l.m.Read(); err != nil {
			return c, err
		}
	}
	c.include(l.former)
	return c, nil
}

// Follow is Meter.Follow. It also returns a notice when the interface has gone, and when it is
// back.
func (l *Lasting) Follow() (notice string, err error) {
	l.mu.Lock()
	m := l.m
	l.mu.Unlock()
	if m == nil {
		return l.reopen()
	}
	if notice, err = m.Follow(); !errors.Is(err, xdp.ErrGone) {
		return notice, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	last, err := l.m.Read()
	if err != nil {
		return "", err
	}
	l.former.include(last)
	err = l.m.Close()
	l.m = nil
	return l.options.Interface + " has gone: waiting for an interface of this name", err
}

// reopen counts on the interface again if it exists. The notice is "" if it does not, or if the
// reason why it cannot be counted on is the same as before.
func (l *Lasting) reopen() (notice string, err error) {
	if _, err := xdp.InterfaceByName(l.options.Interface); err != nil {
		return "", nil
	}
	m, err := Open(l.options)
	if err != nil {
		notice := fmt.Sprintf("%s is back, and cannot be counted on: %v", l.options.Interface, err)
		if notice == l.refusal {
			return "", nil
		}
		l.refusal = notice
		return notice, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.m, l.refusal = m, ""
	return l.options.Interface + " is back: its losses count again", nil
}

// include adds the counts of an earlier meter.
func (c *Counts) include(former Counts) {
	addAll(c.Losses, former.Losses)
	addAll(c.Harmless, former.Harmless)
	addAll(c.Duplicates, former.Duplicates)
	addAll(c.Unclear, former.Unclear)
	addAll(c.Unfiltered, former.Unfiltered)
	addAll(c.Listeners, former.Listeners)
	c.Softnet.Full += former.Softnet.Full
	c.Softnet.Squeezed += former.Softnet.Squeezed
	c.Conntrack.Drop += former.Conntrack.Drop
	c.Conntrack.InsertFailed += former.Conntrack.InsertFailed
	c.Missed += former.Missed
	if former.Way != nil {
		if c.Way == nil {
			c.Way = &Way{Notes: former.Way.Notes}
		}
		c.Way.include(former.Way)
	}
	if former.Retransmits != nil {
		if c.Retransmits == nil {
			c.Retransmits = &Retransmits{Lost: make(map[Loss]Tally)}
		}
		c.Retransmits.include(former.Retransmits)
	}
}

// Close detaches everything.
func (l *Lasting) Close() error {
	var err error
	if l.m != nil {
		err = l.m.Close()
	}
	return errors.Join(err, l.symbols.Close())
}
