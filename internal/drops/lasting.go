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

// A Lasting meter goes on counting when its interface was removed and one of the same name comes:
// what was lost before remains in its counts, except in flows and in Counts.Check. Its methods may
// be called concurrently, except Close, which is called once, after all others.
type Lasting struct {
	o       Options
	name    string // of what is counted
	began   time.Time
	needs   []int
	symbols *lost.Symbols
	mu      sync.Mutex
	m       *Meter // nil while the interface is away
	former  Counts // of former meters
	refusal string // the last notice of comeBack that it cannot count, which is not repeated
}

// OpenLasting begins to count.
func OpenLasting(o Options) (l *Lasting, err error) {
	if err := support.CheckProcess(); err != nil {
		return nil, err
	}
	l = &Lasting{o: o, former: newCounts()}
	// Names of functions are shown to those alone who have the right to see them at the beginning.
	if l.symbols, err = lost.OpenSymbols(); err != nil {
		return nil, err
	}
	l.o.symbols = l.symbols
	if l.m, err = Open(l.o); err != nil {
		return nil, errors.Join(err, l.symbols.Close())
	}
	l.name, l.began, l.needs = l.m.String(), l.m.Began(), l.m.Capabilities()
	if o.Interface != "" {
		l.o.Interface = l.m.Interface() // its main name
	}
	return l, nil
}

// String says what is counted.
func (l *Lasting) String() string { return l.name }

// Interface is Meter.Interface.
func (l *Lasting) Interface() string { return l.o.Interface }

// Began returns when counting began.
func (l *Lasting) Began() time.Time { return l.began }

// Capabilities returns those that Follow and Close need, by number (capabilities(7)).
func (l *Lasting) Capabilities() []int { return l.needs }

// Read reads all counters.
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

// Follow is Meter.Follow. A notice says that the interface has gone, or that it is back.
func (l *Lasting) Follow() (notice string, err error) {
	l.mu.Lock()
	m := l.m
	l.mu.Unlock()
	if m == nil {
		return l.comeBack()
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
	return l.o.Interface + " has gone: waiting for an interface of this name", err
}

// comeBack counts on the interface again if it is there.
func (l *Lasting) comeBack() (notice string, err error) {
	if _, err := xdp.InterfaceByName(l.o.Interface); err != nil {
		return "", nil
	}
	m, err := Open(l.o)
	if err != nil {
		notice := fmt.Sprintf("%s is back, and cannot be counted on: %v", l.o.Interface, err)
		if notice == l.refusal {
			return "", nil
		}
		l.refusal = notice
		return notice, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.m, l.refusal = m, ""
	return l.o.Interface + " is back: its losses count again", nil
}

// include adds what was counted before.
func (c *Counts) include(former Counts) {
	for _, of := range []struct{ to, from map[Loss]Tally }{
		{c.Losses, former.Losses}, {c.Harmless, former.Harmless}, {c.Duplicates, former.Duplicates},
		{c.Unclear, former.Unclear}, {c.Unfiltered, former.Unfiltered}, {c.Listeners, former.Listeners},
	} {
		for loss, tally := range of.from {
			c.add(of.to, loss, tally)
		}
	}
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
