package drops

import (
	"maps"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Way counts the packets that match a filter at each stage of their way from the card to a
// socket. Counts are cumulative. A buffer of GSO or GRO counts its segments, except in XDP's
// generic mode.
type Way struct {
	Stops []Stop   // Card, XDP if a program runs or ran there, Stack, Socket
	Notes []string // the counts that are missing, and why
}

// A Stop is a stage on the way. Of the packets that came there, those in neither Losses nor
// Elsewhere went on to the next stage, or into a socket's queue.
type Stop struct {
	Stage     Stage
	Came      *Tally         // nil = not counted
	Losses    map[Loss]Tally // nil = not counted
	Elsewhere *Tally         // packets forwarded, bridged, redirected, or answered by the kernel; nil = not counted
}

// CountedStops returns the stops whose Came is counted; none if w is nil.
func (w *Way) CountedStops() (all []Stop) {
	if w == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(w.Stops), func(s Stop) bool { return s.Came == nil })
}

// Lost returns the sum of the losses.
func (s *Stop) Lost() (sum Tally) {
	for _, tally := range s.Losses {
		sum.Add(tally)
	}
	return sum
}

// include adds the counts of an earlier meter, which may have a stage that w does not have.
func (w *Way) include(former *Way) {
	for position, before := range former.Stops {
		i := slices.IndexFunc(w.Stops, func(s Stop) bool { return s.Stage == before.Stage })
		if i < 0 {
			before.Losses = maps.Clone(before.Losses)
			w.Stops = slices.Insert(w.Stops, position, before) // the stages are in the same order in both
			continue
		}
		now := &w.Stops[i]
		now.Came, now.Elsewhere = sumOfKnown(now.Came, before.Came), sumOfKnown(now.Elsewhere, before.Elsewhere)
		if now.Losses == nil || before.Losses == nil {
			now.Losses = nil
			continue
		}
		addAll(now.Losses, before.Losses)
	}
}

func sumOfKnown(a, b *Tally) *Tally {
	if a == nil || b == nil {
		return nil
	}
	sum := *a
	sum.Add(*b)
	return &sum
}

// A filteredReading has the counts that are only read with a filter.
type filteredReading struct {
	came     wayCounts
	received map[Loss]Tally // losses of packets that the interface received, in the stack and at sockets
	atHook   Tally          // packets freed after the XDP hook, in generic mode and by drivers such as veth
}

// openWay begins to count the packets on their way. m.before has the earlier losses, whose packets
// are not counted as come.
func (m *Meter) openWay(filter *filter.Program) (err error) {
	if m.way, err = openWayMeter(*m.iface, filter); err != nil {
		return err
	}
	m.onClose(m.way.Close)
	stack, err := m.stack.Read()
	if err != nil {
		return err
	}
	r := newReading(stack)
	r.filtered = &filteredReading{received: make(map[Loss]Tally)}
	r.addStack(m, stack)
	m.before = r.filtered
	return nil
}

// subtract subtracts the losses of an earlier reading.
func (f *filteredReading) subtract(before *filteredReading) {
	f.atHook.Subtract(before.atHook)
	for l, tally := range f.received {
		tally.Subtract(before.received[l])
		if f.received[l] = tally; tally.Packets == 0 {
			delete(f.received, l)
		}
	}
}

// passed returns the packets that came to the stack; 0 without a filter.
func (r *reading) passed() Tally {
	if r.filtered == nil {
		return Tally{}
	}
	return r.filtered.came.Stack
}

// addUnseen adds packets that no program of ours has seen, so that no filter was applied to them.
func (r *reading) addUnseen(l Loss, tally Tally) {
	to := r.Losses
	if r.filtered != nil {
		to = r.Unfiltered
	}
	addTo(to, l, tally)
}

// addWay sets r.Way. It also subtracts m.before from r.filtered, and adds the aborted packets of a
// traced program to the losses.
func (r *reading) addWay(m *Meter, h hookReading) {
	r.filtered.subtract(m.before)
	atXDP := make(map[Loss]Tally)
	stack := Stop{Stage: Stack, Came: &r.filtered.came.Stack, Losses: make(map[Loss]Tally)}
	socket := Stop{Stage: Socket, Came: &r.filtered.came.Socket, Losses: make(map[Loss]Tally)}
	for l, tally := range r.filtered.received {
		switch {
		case l.Stage == XDP || l.Reason == "CPU_BACKLOG": // before tc ingress, where Stack begins
			atXDP[l] = tally
		case isAtSocket(l):
			socket.Losses[l] = tally
		default:
			stack.Losses[l] = tally
		}
	}
	w := &Way{}
	card := Stop{Stage: Card}
	if stageTotals(r.Unfiltered)[Card].Packets == 0 {
		card.Losses = make(map[Loss]Tally) // no packet was lost, so none that matches
	}
	w.Stops = append(w.Stops, card)
	if h.program != "" {
		w.Stops = append(w.Stops, r.xdpStop(m, h, atXDP, w))
	}
	if err := m.way.noSocket; err != nil {
		socket.Came = nil
		w.Notes = append(w.Notes, "what comes to sockets is not counted: "+err.Error())
	} else {
		lost, elsewhere := stack.Lost(), *stack.Came
		subtract(&elsewhere, lost.Packets+socket.Came.Packets, lost.Bytes+socket.Came.Bytes)
		stack.Elsewhere = &elsewhere
	}
	w.Stops = append(w.Stops, stack, socket)
	r.Way = w
}

// xdpStop returns the stop of the XDP program, and adds to w.Notes what is not counted there. lost
// has the packets that were lost right after the program; it gets those that the program dropped,
// and becomes Losses of the stop. Those of a traced program with no known verdict, or aborted, are
// added to r.Losses, too.
func (r *reading) xdpStop(m *Meter, h hookReading, lost map[Loss]Tally, w *Way) Stop {
	s := Stop{Stage: XDP, Losses: lost}
	dropped := h.dropped
	dropped.Subtract(m.before.atHook)
	if dropped.Packets > 0 {
		lost[Loss{Stage: XDP, Reason: xdp.Drop.String(), Where: h.program}] = dropped
	}
	if h.traced == nil {
		if h.refused != nil {
			w.Notes = append(w.Notes, "what comes to XDP is not counted: "+h.refused.Error())
		}
		if m.iface.Driver != "veth" && h.mode != packet.Generic {
			s.Losses = nil
		}
		return s
	}
	came, elsewhere := h.before, Tally{}
	came.Add(h.traced.Sum())
	for _, v := range []xdp.Verdict{xdp.Aborted, xdp.UnknownVerdict} {
		l := Loss{Stage: XDP, Reason: v.SlotName(), Where: h.program}
		if tally := h.traced[v.Slot()]; tally.Packets > 0 {
			lost[l] = tally
			addTo(r.Losses, l, tally)
		}
	}
	for _, v := range []xdp.Verdict{xdp.Tx, xdp.Redirect} {
		elsewhere.Add(h.traced[v])
	}
	s.Came, s.Elsewhere = &came, &elsewhere
	return s
}

// isAtSocket reports whether packets are lost after they are counted as come to a socket. TCP's
// checks of sums and signatures in tcp_v?_rcv come before that; UDP's check of the sum, in the
// functions that read a packet, comes after it.
func isAtSocket(l Loss) bool {
	if l.Stage != Socket {
		return strings.HasSuffix(l.Where, "_recvmsg") || strings.HasSuffix(l.Where, "first_packet_length")
	}
	isEarlyCheck := strings.HasPrefix(l.Reason, "TCP_CSUM") || strings.HasPrefix(l.Reason, "TCP_MD5") || strings.HasPrefix(l.Reason, "TCP_AO")
	return !isEarlyCheck || l.Where != "tcp_v4_rcv" && l.Where != "tcp_v6_rcv"
}
