package drops

import (
	"maps"
	"slices"
	"strings"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Way has the packets that a filter takes at each stage of their way from the card to a socket.
// Counts are cumulative. A buffer of GSO or GRO counts its segments, except in XDP's generic mode.
type Way struct {
	Stops []Stop   // Card, XDP if a program runs or ran there, Stack, Socket
	Notes []string // what is not counted, and why
}

// A Stop is a stage on the way. What came there and is neither lost nor elsewhere came to the next
// one, or into a socket's queue.
type Stop struct {
	Stage     Stage
	Came      *Tally         // nil = not counted
	Losses    map[Loss]Tally // of what came; nil = not counted
	Elsewhere *Tally         // went another way: forwarded, bridged, answered by the kernel, redirected; nil = not counted
}

// CountedStops are those at which what comes is counted. A nil Way has none.
func (w *Way) CountedStops() (all []Stop) {
	if w == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(w.Stops), func(s Stop) bool { return s.Came == nil })
}

// Lost is the sum of the losses.
func (s *Stop) Lost() (sum Tally) {
	for _, tally := range s.Losses {
		sum.Add(tally)
	}
	return sum
}

// include adds what came and was lost before, at the stages that both have, or the other alone.
func (w *Way) include(former *Way) {
	for at, before := range former.Stops {
		i := slices.IndexFunc(w.Stops, func(s Stop) bool { return s.Stage == before.Stage })
		if i < 0 {
			before.Losses = maps.Clone(before.Losses)
			w.Stops = slices.Insert(w.Stops, at, before) // the stages are in the same order in both
			continue
		}
		now := &w.Stops[i]
		now.Came, now.Elsewhere = sumOfKnown(now.Came, before.Came), sumOfKnown(now.Elsewhere, before.Elsewhere)
		if now.Losses == nil || before.Losses == nil {
			now.Losses = nil
			continue
		}
		for l, tally := range before.Losses {
			tally.Add(now.Losses[l])
			now.Losses[l] = tally
		}
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

// A filteredReading has what is only read with a filter.
type filteredReading struct {
	came     wayCounts
	received map[Loss]Tally // losses of the stack and of sockets, of what the interface received
	atHook   Tally          // thrown away after the XDP hook, in generic mode and by drivers such as veth
}

// openWay begins to count on the way. The losses until then are not of packets that came.
func (m *Meter) openWay(filter *filter.Program) (err error) {
	if m.way, err = openWayMeter(*m.iface, filter); err != nil {
		return err
	}
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

// since takes away an earlier reading.
func (f *filteredReading) since(before *filteredReading) {
	f.atHook.Subtract(before.atHook)
	for l, tally := range f.received {
		tally.Subtract(before.received[l])
		if f.received[l] = tally; tally.Packets == 0 {
			delete(f.received, l)
		}
	}
}

// passed is what came to the stack; 0 without a filter.
func (r *reading) passed() (came Tally) {
	if r.filtered != nil {
		came = r.filtered.came.Stack
	}
	return came
}

// addUnseen adds packets that no program of ours has seen.
func (r *reading) addUnseen(l Loss, tally Tally) {
	to := r.Losses
	if r.filtered != nil {
		to = r.Unfiltered
	}
	r.add(to, l, tally)
}

// addWay puts what was counted together, and adds what a traced program lost besides what it
// dropped.
func (r *reading) addWay(m *Meter, h hookReading) {
	r.filtered.since(m.before)
	atXDP := make(map[Loss]Tally)
	stack := Stop{Stage: Stack, Came: &r.filtered.came.Stack, Losses: make(map[Loss]Tally)}
	socket := Stop{Stage: Socket, Came: &r.filtered.came.Socket, Losses: make(map[Loss]Tally)}
	for l, tally := range r.filtered.received {
		switch {
		case l.Stage == XDP || l.Reason == "CPU_BACKLOG":
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
	if h.runs == "" {
		w.Stops = append(w.Stops, card)
	} else {
		w.Stops = append(w.Stops, card, r.xdpStop(m, h, atXDP, w))
	}
	if err := m.way.NoSocket(); err != nil {
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

// xdpStop is the stage of the XDP program. lost are packets that were lost right after it.
func (r *reading) xdpStop(m *Meter, h hookReading, lost map[Loss]Tally, w *Way) Stop {
	s := Stop{Stage: XDP, Losses: lost}
	dropped := h.dropped
	dropped.Subtract(m.before.atHook)
	if dropped.Packets > 0 {
		lost[Loss{Stage: XDP, Reason: xdp.Drop.String(), Where: h.runs}] = dropped
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
		l := Loss{Stage: XDP, Reason: v.SlotName(), Where: h.runs}
		if tally := h.traced[v.Slot()]; tally.Packets > 0 {
			lost[l] = tally
			r.add(r.Losses, l, tally)
		}
	}
	for _, v := range []xdp.Verdict{xdp.Tx, xdp.Redirect} {
		elsewhere.Add(h.traced[v])
	}
	s.Came, s.Elsewhere = &came, &elsewhere
	return s
}

// isAtSocket reports whether packets are lost after they are counted as come to a socket. TCP
// checks some things before; UDP checks sums when the packet is read.
func isAtSocket(l Loss) bool {
	if l.Stage != Socket {
		return strings.HasSuffix(l.Where, "_recvmsg") || strings.HasSuffix(l.Where, "first_packet_length")
	}
	isFirst := strings.HasPrefix(l.Reason, "TCP_CSUM") || strings.HasPrefix(l.Reason, "TCP_MD5") || strings.HasPrefix(l.Reason, "TCP_AO")
	return !isFirst || l.Where != "tcp_v4_rcv" && l.Where != "tcp_v6_rcv"
}
