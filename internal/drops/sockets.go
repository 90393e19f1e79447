package drops

import (
	"fmt"
	"maps"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/culprit"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// The reasons why packets for AF_XDP sockets get lost.
const (
	noFrame    = "af_xdp: fill ring empty"
	unfit      = "af_xdp: no frame for it" // larger than a frame, or than the frames that are left
	noRoom     = "af_xdp: rx ring full"
	otherQueue = "af_xdp: other queue" // the packet came in by another queue than the socket is bound to
	badTx      = "af_xdp: bad tx descriptor"
)

// socketReasons are the reasons of redirects to sockets that fail with an error: net/xdp/xsk.c of
// Linux 6.1 to 6.18.
var socketReasons = map[unix.Errno]string{
	unix.ENOMEM: noFrame, unix.ENOSPC: unfit, unix.ENOBUFS: noRoom, unix.EINVAL: otherQueue,
}

// A socketQueue is a receive queue of an interface to which AF_XDP sockets are bound.
type socketQueue struct{ ifindex, queue uint32 }

// socketLosses are the packets that sockets lost.
type socketLosses struct{ noFrame, unfit, noRoom, badTx uint64 }

func (l *socketLosses) add(o socketLosses) {
	l.noFrame += o.noFrame
	l.unfit += o.unfit
	l.noRoom += o.noRoom
	l.badTx += o.badTx
}

// lossesOf converts a socket's statistics. A packet that finds the fill ring empty is also counted
// in rx_dropped. A driver with zero copy may count the ring as empty without a packet.
func lossesOf(s *netlink.XDPDiagStats) socketLosses {
	empty := min(s.FillRingEmpty, s.RxDropped)
	return socketLosses{noFrame: empty, unfit: s.RxDropped - empty, noRoom: s.RxFull, badTx: s.TxInvalid}
}

// since returns how the losses rose. They may fall: sockets that share a fill ring share the
// counter of the empty ring, so that one's noFrame and unfit change with the packets of the other.
func (l socketLosses) since(before socketLosses) socketLosses {
	return socketLosses{minus(l.noFrame, before.noFrame), minus(l.unfit, before.unfit), minus(l.noRoom, before.noRoom), minus(l.badTx, before.badTx)}
}

// sockets counts the losses of the AF_XDP sockets in the calling thread's network namespace, by the
// kernel's module xsk_diag. On a kernel without the module all counts are 0. Its methods may be
// called concurrently.
type sockets struct {
	ifindex uint32 // 0 = all

	mu   sync.Mutex
	last map[[2]uint32]socketLosses // of each socket, by its cookie; nil = not read yet
	sums map[socketQueue]socketLosses
}

// openSockets begins to count at the sockets of one interface, or of all if it is nil.
func openSockets(iface *xdp.Interface) *sockets {
	s := &sockets{sums: make(map[socketQueue]socketLosses)}
	if iface != nil {
		s.ifindex = uint32(iface.Index)
	}
	s.update(netlink.SocketDiagXDP())
	return s
}

// read returns the losses by queue, cumulative since openSockets. The losses of a closed socket
// since the last read are missing. The caller owns the result.
func (s *sockets) read() map[socketQueue]socketLosses {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update(netlink.SocketDiagXDP())
	return maps.Clone(s.sums)
}

// update adds to s.sums how the sockets' statistics rose. The first statistics without an error add
// nothing: losses before them do not count.
func (s *sockets) update(all []*netlink.XDPDiagInfoResp, err error) {
	if err != nil {
		return // the kernel lacks the module, or the dump was interrupted: the next one is complete
	}
	isFirst := s.last == nil
	last := make(map[[2]uint32]socketLosses, len(all))
	for _, d := range all {
		i := d.XDPInfo
		if i.Stats == nil || i.Ifindex == 0 || s.ifindex != 0 && i.Ifindex != s.ifindex {
			continue
		}
		now := lossesOf(i.Stats)
		last[d.XDPDiagMsg.Cookie] = now
		if !isFirst {
			queue := socketQueue{i.Ifindex, i.QueueID}
			sum := s.sums[queue]
			sum.add(now.since(s.last[d.XDPDiagMsg.Cookie]))
			s.sums[queue] = sum
		}
	}
	s.last = last
}

// addSockets adds the losses of sockets by queue, and the failed redirects to sockets that are in
// no socket's statistics.
func (r *reading) addSockets(m *Meter, failed map[Loss]uint64) {
	for q, lost := range m.sockets.read() {
		l := Loss{Stage: XDP, Where: fmt.Sprintf("queue %d", q.queue)}
		if m.iface == nil {
			l.Device = culprit.NameOfLink(int(q.ifindex))
		}
		dropped := lost.noFrame + lost.unfit
		for reason, n := range map[string]uint64{noFrame: lost.noFrame, unfit: lost.unfit, noRoom: lost.noRoom} {
			l.Reason = reason
			r.addUnseen(l, Tally{Packets: n})
		}
		l.Stage, l.Reason = Egress, badTx
		r.addUnseen(l, Tally{Packets: lost.badTx})
		subtractFailures(failed, l.Device, dropped, noFrame, unfit)
		subtractFailures(failed, l.Device, lost.noRoom, noRoom)
	}
	for l, n := range failed {
		r.addUnseen(l, Tally{Packets: n})
	}
}

// subtractFailures subtracts n packets from the failed redirects with these reasons: first from
// those at the device, and then from evicted ones, whose device is unknown.
func subtractFailures(failed map[Loss]uint64, device string, n uint64, reasons ...string) {
	for _, name := range []string{device, meter.Gone} {
		for _, reason := range reasons {
			for l, failures := range failed {
				if l.Reason == reason && l.Device == name && l.Netns == 0 {
					part := min(n, failures)
					failed[l] -= part
					n -= part
				}
			}
		}
	}
}
