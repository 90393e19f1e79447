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
// first is the kernel's own for the last packet of a handshake. For a first one (SYN) the kernel
// has none, because it is not thrown away like other packets: counters alone have it.
const (
	acceptQueueFull  = "TCP_LISTEN_OVERFLOW"
	requestQueueFull = "TCP_REQ_QUEUE_FULL"
	notAccepted      = "TCP_LISTEN_DROP" // mostly the same: the last quarter of that queue is for known peers
)

// maxListeners is how many listeners are told apart. Those of short-lived processes come and go.
const maxListeners = 256

// listenerLosses are the packets that all listeners of a namespace have refused, by the reason.
type listenerLosses map[string]uint64

// listenerLossesOf returns what the counters of a namespace say, ListenDrops of which includes the
// others. known of these packets are counted elsewhere.
func listenerLossesOf(rose lost.Counters, known uint64) listenerLosses {
	full, requests := rose["TcpExtListenOverflows"], rose["TcpExtTCPReqQFullDrop"]
	rest := less(rose["TcpExtListenDrops"], full+requests)
	return listenerLosses{acceptQueueFull: less(full, known), requestQueueFull: requests, notAccepted: less(rest, less(known, full))}
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
	culprits *culprit.Finder // knows the processes of those that listened at the beginning

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
	// The kernel counts a packet as dropped after it has counted why: so the drops must be the
	// older ones of two readings.
	drops := l.file.Rose()["TcpExtListenDrops"]
	rose := l.file.Rose()
	rose["TcpExtListenDrops"] = drops
	return rose
}

// read returns what was refused, by counters. known of these packets are counted elsewhere. No
// number is ever less than before. The caller owns the result.
func (l *listeners) read(rose lost.Counters, known uint64) map[Loss]uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	lately := listenerLossesOf(rose, known)
	for at, n := range l.sums {
		lately[at.Reason] = less(lately[at.Reason], n)
	}
	maps.DeleteFunc(lately, func(_ string, n uint64) bool { return n == 0 })
	if len(lately) > 0 {
		listening := l.find()
		dropped := droppedBy(l.last, listening)
		if len(dropped) == 0 { // the kernel counts for the listener after it has counted the reason
			listening = l.find()
			dropped = droppedBy(l.last, listening)
		}
		for at, n := range attribute(lately, dropped) {
			if _, ok := l.sums[at]; !ok && len(l.sums) >= maxListeners {
				at.Where = "other listeners"
			}
			l.sums[at] += n
		}
		l.last = listening
	}
	return maps.Clone(l.sums)
}

// droppedBy returns by how much the drops of listeners rose.
func droppedBy(before, now map[uint64]listener) map[string]uint64 {
	dropped := make(map[string]uint64)
	for cookie, s := range now {
		if n := lost.Rise(before[cookie].drops, s.drops); n > 0 {
			dropped[s.where] += n
		}
	}
	return dropped
}

// attribute returns whose losses these are. The counters say the reason, the drops of each listener
// how many. If several have dropped packets, for several reasons or at this very moment, their
// shares are unknown, and a loss has all their names.
func attribute(lately listenerLosses, dropped map[string]uint64) map[Loss]uint64 {
	total, sum := uint64(0), uint64(0)
	for _, n := range dropped {
		sum += n
	}
	for _, n := range lately {
		total += n
	}
	losses := make(map[Loss]uint64)
	for reason, n := range lately {
		l := Loss{Stage: Socket, Reason: reason}
		switch {
		case len(dropped) > 1 && len(lately) == 1 && sum == total:
			for l.Where, n = range dropped {
				losses[l] = n
			}
			continue
		case len(dropped) > 3:
			l.Where = fmt.Sprintf("%d listeners", len(dropped))
		default:
			l.Where = strings.Join(slices.Sorted(maps.Keys(dropped)), "; ")
		}
		losses[l] = n
	}
	return losses
}

// find returns the listeners that are there now.
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

// addListeners adds what listeners refused, by counters that are not younger than the causes. A
// handshake's last packet is also thrown away like other packets: it counts once.
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
	r.listeners = m.listen.read(counters, known)
	for l, n := range r.listeners {
		r.add(to, l, Tally{Packets: n})
	}
}

// isLastOfHandshake reports whether packets were the last of a handshake, for which a listener had
// no room, and are losses. Before Linux 6.15 the kernel had no reason for them, so they are not,
// except those with SYN cookies: before 6.8 these look like others, and some of the counters'
// packets may not be counted.
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
