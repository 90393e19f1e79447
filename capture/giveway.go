package capture

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The yielded interfaces of a session with Options.GiveWay are those where it has detached its own
// XDP program for others. They are captured at tc ingress, or by tracing the program that runs
// there.
type yielded struct {
	refusals *attach.Refusals
	refused  chan attach.Refusal
	done     chan struct{}
	all      map[int]*yield // by index
}

// A yield is one yielded interface.
type yield struct {
	untraceable uint32 // id of the latest program there that cannot be traced; 0 = none

	// Between two hooks of the interface:
	since    time.Time // when the session detached from one; zero = it is attached
	received uint64    // what the interface had received then
	counted  bool      // whether that could be read
}

// openYielded begins to listen for programs of others that are refused.
func openYielded() (*yielded, error) {
	refusals, err := attach.OpenRefusals()
	if err != nil {
		return nil, err
	}
	y := &yielded{refusals: refusals, refused: make(chan attach.Refusal, 1), done: make(chan struct{}), all: make(map[int]*yield)}
	go y.listen()
	return y, nil
}

// listen passes refusals on. Those of agents that try again and again may be dropped, because one
// is enough.
func (y *yielded) listen() {
	defer close(y.done)
	for {
		r, err := y.refusals.Next()
		if err != nil {
			return
		}
		select {
		case y.refused <- r:
		default:
		}
	}
}

func (y *yielded) close() {
	if y != nil {
		y.refusals.Close()
		<-y.done
	}
}

// has reports whether an interface is yielded.
func (y *yielded) has(index int) bool { return y != nil && y.all[index] != nil }

// giveWay detaches the session's own XDP programs that may have been in the way of another one.
func (c *comings) giveWay(r attach.Refusal) {
	c.move(func(one *coming) error {
		if !slices.ContainsFunc(one.hooks, isOwnXDP) || !r.Concerns(one.ifi) {
			return nil
		}
		c.yielded.all[one.ifi.Index] = new(yield)
		where := ""
		if r.Index == 0 {
			where = ", perhaps at another interface, which this kernel does not tell"
		}
		return fmt.Errorf("%s gives way to an XDP program of %s, which the kernel has refused%s: another attempt succeeds, "+
			"and %[1]s is captured at tc ingress unless that program can be traced", one.ifi.Name, r.Thread, where)
	})
}

func isOwnXDP(h hook) bool {
	_, ok := h.(*xdpHook)
	return ok
}

func isIngress(h hook) bool {
	t, ok := h.(*tcHook)
	return ok && t.at == tc.Ingress
}

// traceOthers looks on the yielded interfaces for programs that can be traced.
func (c *comings) traceOthers() {
	if c.yielded == nil {
		return
	}
	c.move(func(one *coming) error {
		y := c.yielded.all[one.ifi.Index]
		if y == nil || !slices.ContainsFunc(one.hooks, isIngress) {
			return nil
		}
		ifi, err := xdp.InterfaceByName(one.ifi.Name)
		if err != nil || len(ifi.Programs) == 0 || ifi.Programs[0].ID == y.untraceable {
			return nil
		}
		if err := whyUntraceable(ifi); err != nil {
			y.untraceable = ifi.Programs[0].ID
			c.notice(fmt.Errorf("%s runs XDP program %v now, and stays captured at tc ingress: %w", ifi.Name, ifi.Programs[0], err))
			return nil
		}
		return fmt.Errorf("%s is captured anew, because it runs XDP program %v now, which is traced", ifi.Name, ifi.Programs[0])
	})
}

// whyUntraceable returns why a program on an interface cannot be traced, or nil.
func whyUntraceable(ifi xdp.Interface) error {
	targets, err := xdp.Targets(ifi, nil)
	for _, target := range targets {
		target.Prog.Close()
		err = cmp.Or(err, support.TryProgram(target.ID))
	}
	return err
}

// move ends the capture of yielded interfaces at one hook, and begins it at the next. reason is
// that of leave.
func (c *comings) move(reason func(*coming) error) {
	moved := false
	c.hooks.whileAttached(func() {
		moved = c.leave(func(one *coming) error {
			why := reason(one)
			if why != nil {
				c.yielded.all[one.ifi.Index].since = time.Now()
			}
			return why
		})
		for index, y := range c.yielded.all {
			if moved && !y.since.IsZero() {
				y.received, y.counted = c.witness.received(index)
			}
		}
	})
	if moved {
		c.follow(false)
	}
}

// arrive ends the time in which a yielded interface was captured at no hook, and counts what passed
// meanwhile as passed by its new source. It returns the notice of that; nil = it is another
// arrival.
func (c *comings) arrive(one *coming, ways string) error {
	if !c.yielded.has(one.ifi.Index) || c.yielded.all[one.ifi.Index].since.IsZero() {
		return nil
	}
	y := c.yielded.all[one.ifi.Index]
	text := fmt.Sprintf("%s is captured again, %s, after %v", one.ifi.Name, ways, time.Since(y.since).Round(time.Millisecond))
	y.since = time.Time{}
	if now, ok := c.witness.received(one.ifi.Index); ok && y.counted {
		c.witness.missed(one.sources[0], now-y.received)
		text += fmt.Sprintf(" in which it received at least %d packets", now-y.received)
	}
	return errors.New(text)
}

// received returns how many packets an interface has received. ok is false for a card, whose driver
// may count late.
func (w *witness) received(index int) (packets uint64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, err := w.read(index)
	return c.Received, err == nil && !c.IsHardware
}

// missed adds packets that passed by before a source came.
func (w *witness) missed(source int, packets uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sources[source] == nil {
		w.sources[source] = &passing{came: -1}
	}
	w.sources[source].before += packets
}
