package drops

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/culprit"
	"github.com/xdpcap/xdpcap/internal/lost"
)

// The reasons why a listening socket of TCP refuses a packet that would open a connection. The
// first is the kernel's reason for the last packet of a handshake. The other two are ours, for a
// handshake's first packet (SYN): the kernel only counts it, and does not report it as dropped.
const (
	acceptQueueFull  = "TCP_LISTEN_OVERFLOW"
	requestQueueFull = "TCP_REQ_QUEUE_FULL"
	notAccepted      = "TCP_LISTEN_DROP" // mostly: the queue has room only for known peers, its last quarter
)

// maxListeners is how many listeners are counted separately: short-lived processes create ever new
// ones.
const maxListeners = 256

// listenerLosses are the packets that all listeners of a namespace have refused, by the reason.
type listenerLosses map[string]uint64

// listenerLossesOf converts the counters of a namespace. ListenDrops includes the others. `known`
// is the number of these packets that are also counted as causes of the stack.
func listenerLossesOf(rose lost.Counters, known uint64) listenerLosses {
	full, requests := rose["TcpExtListenOverflows"], rose["TcpExtTCPReqQFullDrop"]
	rest := minus(rose["TcpExtListenDrops"], full+requests)
	return listenerLosses{acceptQueueFull: minus(full, known), requestQueueFull: requests, notAccepted: minus(rest, minus(known, full))}
}

// A listener is a listening socket of TCP.
type listener struct {
	where string // "nginx[123] :80, backlog 128"
	drops uint64 // cumulative
}

// listeners counts the packets that listeners of the calling thread's network namespace refuse. Its
// methods may be called concurrently.
type listeners struct {
	file     lost.CounterFile
	culprits *culprit.Finder // has the processes of the sockets that listened at the beginning

	mu   sync.Mutex
	last map[uint64]listener // by cookie
	sums map[Loss]uint64
}

// openListeners begins to count.
func openListeners(culprits *culprit.Finder) *listeners {
	l := &listeners{file: lost.OpenCounters(lost.OfTCP), culprits: culprits, sums: make(map[Loss]uint64)}
	l.last = l.find()
	return l
}

// counters returns how the namespace's counters rose since openListeners.
func (l *listeners) counters() lost.Counters {
	// The kernel counts a packet's reason before it counts the drop. With the drops of an earlier
	// reading, each drop has a reason.
	drops := l.file.Rose()["TcpExtListenDrops"]
	rose := l.file.Rose()
	rose["TcpExtListenDrops"] = drops
	return rose
}

// read returns the refused packets. The reasons are from the rises of the namespace's counters, and
// the listeners from their own. `known` packets are also causes of the stack, and are omitted. No
// number is ever less than before. The caller owns the result.
func (l *listeners) read(rose lost.Counters, known uint64) map[Loss]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	recent := listenerLossesOf(rose, known)
	for loss, n := range l.sums { // what remains are the packets since the last reading
		recent[loss.Reason] = minus(recent[loss.Reason], n)
	}
	maps.DeleteFunc(recent, func(_ string, n uint64) bool { return n == 0 })
	if len(recent) > 0 {
		listening := l.find()
		dropped := dropsByListener(l.last, listening)
		if len(dropped) == 0 { // the kernel counts for the listener after it has counted the reason
			listening = l.find()
			dropped = dropsByListener(l.last, listening)
		}
		for loss, n := range attribute(recent, dropped) {
			if _, ok := l.sums[loss]; !ok && len(l.sums) >= maxListeners {
				loss.Where = "other listeners"
			}
			l.sums[loss] += n
		}
		l.last = listening
	}
	return maps.Clone(l.sums)
}

// dropsByListener returns by how much the drops of listeners rose, by listener.where.
func dropsByListener(before, now map[uint64]listener) map[string]uint64 {
	dropped := make(map[string]uint64)
	for cookie, s := range now {
		if n := lost.Rise(before[cookie].drops, s.drops); n > 0 {
			dropped[s.where] += n
		}
	}
	return dropped
}

// attribute assigns losses, which are by reason, to listeners, whose drops are by listener. If
// several listeners have dropped packets for several reasons, or drop more at this very moment,
// their shares are unknown, and a loss has the names of all of them, or their number if they are
// many.
func attribute(byReason listenerLosses, dropped map[string]uint64) map[Loss]uint64 {
	const maxNames = 3
	ofListeners, ofReasons := uint64(0), uint64(0)
	for _, n := range dropped {
		ofListeners += n
	}
	for _, n := range byReason {
		ofReasons += n
	}
	areSharesKnown := len(byReason) == 1 && ofListeners == ofReasons
	losses := make(map[Loss]uint64)
	for reason, n := range byReason {
		l := Loss{Stage: Socket, Reason: reason}
		switch {
		case len(dropped) > 1 && areSharesKnown:
			for l.Where, n = range dropped {
				losses[l] = n
			}
			continue
		case len(dropped) > maxNames:
			l.Where = fmt.Sprintf("%d listeners", len(dropped))
		default:
			l.Where = strings.Join(slices.Sorted(maps.Keys(dropped)), "; ")
		}
		losses[l] = n
	}
	return losses
}

// find returns the sockets that listen now.
func (l *listeners) find() map[uint64]listener {
	all := make(map[uint64]listener)
	for _, s := range culprit.Sockets(unix.IPPROTO_TCP, culprit.Listening) {
		where := fmt.Sprintf("%s, backlog %d", s.Endpoint(), s.Backlog)
		if owner := l.culprits.Owner(s.Inode).String(); owner != "" {
			where = owner + " " + where
		}
		all[s.Cookie] = listener{where, s.Drops}
	}
	return all
}

// addListeners adds the packets that listeners refused. The counters were read before the causes of
// the stack, which also have the last packets of handshakes: these are counted once.
func (r *reading) addListeners(m *Meter, counters lost.Counters) {
	to, known := r.Listeners, uint64(0)
	if m.iface == nil {
		to = r.Losses
		hasReason := slices.Contains(m.stack.reasons.Names(), acceptQueueFull)
		for c, tally := range r.causes {
			if isLastOfHandshake(c, hasReason) && (c.Namespace == m.netns || c.Namespace == 0) {
				known += tally.Packets
			}
		}
	}
	r.listeners = m.listeners.read(counters, known)
	for l, n := range r.listeners {
		addTo(to, l, Tally{Packets: n})
	}
}

// isLastOfHandshake reports whether a loss has the last packets of handshakes, for which a listener
// had no room. Before Linux 6.15 the kernel has no reason for them, so hasReason is false, and
// their cause is a harmless one, except with SYN cookies. These are dropped in cookie_v?_check
// since 6.8, and before in tcp_v?_do_rcv like others: then some refused packets are not counted.
func isLastOfHandshake(c Cause, hasReason bool) bool {
	switch c.Reason {
	case acceptQueueFull:
		return true
	case "NO_SOCKET":
		return matches("cookie_v?_check", c.Location)
	}
	return !hasReason && c.Reason == "NOT_SPECIFIED" && matches("tcp_v?_do_rcv", c.Location)
}

func (l *listeners) close() error { return l.file.Close() }
