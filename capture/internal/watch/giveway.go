package watch

import (
	"fmt"
	"slices"
	"time"

	"github.com/xdpcap/xdpcap/capture/internal/probe"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// yielded has the interfaces on which a session with Options.GiveWay has detached its own XDP
// program in favour of another one. They are captured at tc ingress, or by tracing the program that
// runs there.
type yielded struct {
	refusals *attach.Refusals    // of programs that the kernel refused to attach
	refused  chan attach.Refusal // the latest of them that giveWay has not handled
	done     chan struct{}       // closed when listen has returned
	all      map[int]*yield      // by the interface's index
}

// A yield is one yielded interface.
type yield struct {
	untraceable uint32 // id of the latest program there that cannot be traced; 0 = none
	gap         *gap   // nil = one of its hooks is attached
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

// listen passes refusals to giveWay. It drops a refusal while another one waits, because agents
// retry.
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

// close does nothing if y is nil.
func (y *yielded) close() {
	if y != nil {
		y.refusals.Close()
		<-y.done
	}
}

// of returns a yielded interface; nil if it is not yielded, or if y is nil.
func (y *yielded) of(index int) *yield {
	if y == nil {
		return nil
	}
	return y.all[index]
}

// giveWay detaches the session's own XDP programs that may have been in the way of another one.
func (f *Followed) giveWay(r attach.Refusal) {
	f.move(func(one *captured) error {
		if !one.isAt(packet.XDP) || !r.Concerns(one.ifi) {
			return nil
		}
		f.yielded.all[one.ifi.Index] = new(yield)
		where := ""
		if r.Index == 0 { // the kernel does not report the interface
			where = ", perhaps at another interface, which this kernel does not tell"
		}
		return fmt.Errorf("%s gives way to an XDP program of %s, which the kernel has refused%s: another attempt succeeds, "+
			"and %[1]s is captured at tc ingress unless that program can be traced", one.ifi.Name, r.Thread, where)
	})
}

// isAt reports whether an interface is captured at a kind of hook.
func (c *captured) isAt(kind packet.Hook) bool {
	return slices.ContainsFunc(c.hooks, func(h probe.Hook) bool { return h.Sources()[0].Hook == kind })
}

// traceOthers begins to trace programs of others on yielded interfaces, if they can be traced.
func (f *Followed) traceOthers() {
	if f.yielded == nil {
		return
	}
	f.move(func(one *captured) error {
		y := f.yielded.all[one.ifi.Index]
		if y == nil || !one.isAt(packet.Ingress) {
			return nil
		}
		ifi, err := xdp.InterfaceByName(one.ifi.Name)
		if err != nil || len(ifi.Programs) == 0 || ifi.Programs[0].ID == y.untraceable {
			return nil
		}
		if err := probe.WhyUntraceable(ifi); err != nil {
			y.untraceable = ifi.Programs[0].ID
			f.Options.Notice(fmt.Errorf("%s runs XDP program %v now, and stays captured at tc ingress: %w", ifi.Name, ifi.Programs[0], err))
			return nil
		}
		return fmt.Errorf("%s is captured anew, because it runs XDP program %v now, which is traced", ifi.Name, ifi.Programs[0])
	})
}

// move ends the capture of the interfaces for which reason returns an error, as stop does, and
// begins it again at another hook. It notes the gap in between. Before reason
// returns an error, it must have added the interface to f.yielded.
func (f *Followed) move(reason func(*captured) error) {
	moving := make(map[*captured]error)
	f.Hooks.WhileAttached(func() {
		for _, one := range f.all {
			if one.stopped {
				continue
			}
			if why := reason(one); why != nil {
				moving[one] = why
			}
		}
		if len(moving) == 0 {
			return
		}
		seen := f.Witness.waitForCounts()
		f.stop(func(one *captured) error {
			why := moving[one]
			if why != nil {
				g := f.Witness.beginGap(one.ifi.Index, one.sources[0], seen)
				f.yielded.all[one.ifi.Index].gap = &g
			}
			return why
		})
	})
	if len(moving) > 0 {
		f.follow(onlyChanges)
	}
}

// endGap ends the gap in which a yielded interface was captured at no hook, and returns a notice
// with ways, which describes the next hook; nil if there was no gap.
func (f *Followed) endGap(one *captured, ways string) error {
	y := f.yielded.of(one.ifi.Index)
	if y == nil || y.gap == nil {
		return nil
	}
	g := *y.gap
	y.gap = nil
	return fmt.Errorf("%s is captured again, %s, after %v%s", one.ifi.Name, ways,
		time.Since(g.since).Round(time.Millisecond), f.Witness.endGap(g, one.ifi.Index, one.sources[0]))
}
