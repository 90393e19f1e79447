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

// socketReasons are those of redirects that fail with an error: net/xdp/xsk.c of Linux 6.1 to 6.18.
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

// lossesOf reads a socket's statistics. A packet that finds the fill ring empty is in rx_dropped as
// well. A driver that copies nothing may find that ring empty without a packet.
func lossesOf(s *netlink.XDPDiagStats) socketLosses {
	empty := min(s.FillRingEmpty, s.RxDropped)
	return socketLosses{noFrame: empty, unfit: s.RxDropped - empty, noRoom: s.RxFull, badTx: s.TxInvalid}
}

// since is how the losses rose. Sockets that share a fill ring share its counter, so that one may
// have the other's share of rx_dropped.
func (l socketLosses) since(before socketLosses) socketLosses {
	return socketLosses{less(l.noFrame, before.noFrame), less(l.unfit, before.unfit), less(l.noRoom, before.noRoom), less(l.badTx, before.badTx)}
}

// sockets counts what the AF_XDP sockets of the calling thread's network namespace lose, by the
// kernel's module xsk_diag. Nothing is counted where the kernel does not have it. Its methods may
// be called concurrently.
type sockets struct {
	ifindex uint32 // 0 = all

	mu   sync.Mutex
	last map[[2]uint32]socketLosses // of each socket, by its cookie
	sums map[socketQueue]socketLosses
}

// openSockets begins to count at the sockets of one interface, or of all if it is nil.
func openSockets(iface *xdp.Interface) *sockets {
	s := &sockets{sums: make(map[socketQueue]socketLosses)}
	if iface != nil {
		s.ifindex = uint32(iface.Index)
	}
	s.update(true)
	return s
}

// read returns the losses by queue, cumulative since openSockets. What a socket lost after the last
// read and before it was closed is not in them. The caller owns the result.
func (s *sockets) read() map[socketQueue]socketLosses {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.update(false)
	return maps.Clone(s.sums)
}

// update asks for the sockets' statistics. What a socket lost before the first time does not count.
func (s *sockets) update(first bool) {
	all, err := netlink.SocketDiagXDP()
	if err != nil {
		return // this kernel does not tell, or only a part: the next read tells all
	}
	last := make(map[[2]uint32]socketLosses, len(all))
	for _, d := range all {
		i := d.XDPInfo
		if i.Stats == nil || i.Ifindex == 0 || s.ifindex != 0 && i.Ifindex != s.ifindex {
			continue
		}
		now := lossesOf(i.Stats)
		last[d.XDPDiagMsg.Cookie] = now
		if !first {
			at := socketQueue{i.Ifindex, i.QueueID}
			sum := s.sums[at]
			sum.add(now.since(s.last[d.XDPDiagMsg.Cookie]))
			s.sums[at] = sum
		}
	}
	s.last = last
}

// addSockets adds what sockets lost, by queue where the kernel tells their statistics. The rest of
// the failed redirects to sockets is told by their errors alone.
func (r *reading) addSockets(m *Meter, failed map[Loss]uint64) {
	for at, lost := range m.sockets.read() {
		l := Loss{Stage: XDP, Where: fmt.Sprintf("queue %d", at.queue)}
		if m.iface == nil {
			l.Device = culprit.NameOfLink(int(at.ifindex))
		}
		dropped := lost.noFrame + lost.unfit
		for reason, n := range map[string]uint64{noFrame: lost.noFrame, unfit: lost.unfit, noRoom: lost.noRoom} {
			l.Reason = reason
			r.addUnseen(l, Tally{Packets: n})
		}
		l.Stage, l.Reason = Egress, badTx
		r.addUnseen(l, Tally{Packets: lost.badTx})
		take(failed, l.Device, dropped, noFrame, unfit)
		take(failed, l.Device, lost.noRoom, noRoom)
	}
	for l, n := range failed {
		r.addUnseen(l, Tally{Packets: n})
	}
}

// take subtracts n packets from the failed redirects with these reasons: from those at the device,
// and then from those of former interfaces, because the device's may be among these.
func take(failed map[Loss]uint64, device string, n uint64, reasons ...string) {
	for _, at := range []string{device, meter.Gone} {
		for _, reason := range reasons {
			for l, failures := range failed {
				if l.Reason == reason && l.Device == at && l.Netns == 0 {
					part := min(n, failures)
					failed[l] -= part
					n -= part
				}
			}
		}
	}
}
