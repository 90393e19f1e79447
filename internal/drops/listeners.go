package drops

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
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
func listenerLossesOf(rose Counters, known uint64) listenerLosses {
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
	file   counterFile
	owners map[uint32]string // of the sockets that listened at the beginning, by their inodes

	mu   sync.Mutex
	last map[uint64]listener // by cookie
	sums map[Loss]uint64
}

// openListeners begins to count. It looks up the processes of the listeners, which takes rights
// that the command may drop later.
func openListeners() *listeners {
	l := &listeners{file: openCounterFile(fileOfTCP), sums: make(map[Loss]uint64)}
	var inodes []uint32
	for _, m := range askListeners() {
		inodes = append(inodes, m.inode)
	}
	l.owners = machine.SocketOwners(inodes)
	l.last = l.find()
	return l
}

// counters returns how the namespace's counters rose since openListeners.
func (l *listeners) counters() Counters {
	// The kernel counts a packet as dropped after it has counted why: so the drops must be the
	// older ones of two readings.
	drops := l.file.rose()["TcpExtListenDrops"]
	rose := l.file.rose()
	rose["TcpExtListenDrops"] = drops
	return rose
}

// read returns what was refused, by counters. known of these packets are counted elsewhere. No
// number is ever less than before. The caller owns the result.
func (l *listeners) read(rose Counters, known uint64) map[Loss]uint64 {
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
		if n := rise(before[cookie].drops, s.drops); n > 0 {
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
	for _, m := range askListeners() {
		all[m.cookie] = listener{m.name(l.owners[m.inode]), m.drops}
	}
	return all
}

// addListeners adds what listeners refused, by counters that are not younger than the causes. A
// handshake's last packet is also thrown away like other packets: it counts once.
func (r *reading) addListeners(m *Meter, counters Counters) {
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

func (l *listeners) close() error { return l.file.close() }

// A listenerMessage is what the kernel answers about a listener.
type listenerMessage struct {
	address net.IP
	port    uint16
	backlog uint32 // how many connections may wait for accept
	inode   uint32
	cookie  uint64
	drops   uint64
}

// name is listener.where. owner is the process, "" = unknown.
func (m *listenerMessage) name(owner string) string {
	host := ""
	if !m.address.IsUnspecified() {
		host = m.address.String()
	}
	text := fmt.Sprintf("%s, backlog %d", net.JoinHostPort(host, strconv.Itoa(int(m.port))), m.backlog)
	if owner != "" {
		text = owner + " " + text
	}
	return text
}

// The messages of linux/inet_diag.h. The request is a struct inet_diag_req_v2; the answer a struct
// inet_diag_msg, with attributes behind it.
const (
	listenerRequest   = 56
	listenerAnswer    = 72
	stateListen       = 10
	skMeminfo         = 7 // an array of numbers of 32 bits
	skMeminfoDrops    = 8 // the index in it
	askedForSkMeminfo = 1 << (skMeminfo - 1)
)

// askListeners returns all listeners of TCP in the calling thread's network namespace: nothing if
// the kernel lacks inet_diag. The kernel looks at no other sockets.
func askListeners() (all []listenerMessage) {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
		body := make([]byte, listenerRequest)
		body[0], body[1], body[2] = family, unix.IPPROTO_TCP, askedForSkMeminfo
		binary.NativeEndian.PutUint32(body[4:], 1<<stateListen)
		req.AddRawData(body)
		answers, err := req.Execute(unix.NETLINK_INET_DIAG, 0)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			continue
		}
		for _, a := range answers {
			if m, ok := parseListener(a); ok {
				all = append(all, m)
			}
		}
	}
	return all
}

func parseListener(b []byte) (m listenerMessage, ok bool) {
	if len(b) < listenerAnswer {
		return m, false
	}
	size := net.IPv4len
	if b[0] == unix.AF_INET6 {
		size = net.IPv6len
	}
	native := binary.NativeEndian
	m = listenerMessage{
		address: b[8 : 8+size], port: binary.BigEndian.Uint16(b[4:]),
		backlog: native.Uint32(b[60:]), inode: native.Uint32(b[68:]), cookie: native.Uint64(b[44:]),
	}
	attrs, err := nl.ParseRouteAttr(b[listenerAnswer:])
	if err != nil {
		return m, false
	}
	for _, a := range attrs {
		if at := 4 * skMeminfoDrops; a.Attr.Type == skMeminfo && len(a.Value) >= at+4 {
			m.drops = uint64(native.Uint32(a.Value[at:]))
		}
	}
	return m, true
}
