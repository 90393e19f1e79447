package culprit

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"path"
	"strconv"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/machine"
)

// A Socket is a socket of TCP or UDP, as the kernel reports it.
type Socket struct {
	Address       net.IP
	Port          uint16
	Backlog       uint32 // of a listener: the maximum number of connections that wait for accept
	ReceiveBuffer uint32 // bytes
	Inode         uint32
	Cookie        uint64
	Drops         uint64 // packets, cumulative
}

// States of sockets, as bits.
const (
	Listening = 1 << 10 // TCP_LISTEN
	AnyState  = 0xffff
)

// Endpoint returns the address and port of the socket: "192.0.2.1:53", or ":53" for all addresses.
func (s *Socket) Endpoint() string {
	host := ""
	if !s.Address.IsUnspecified() {
		host = s.Address.String()
	}
	return net.JoinHostPort(host, strconv.Itoa(int(s.Port)))
}

// The messages of linux/inet_diag.h. The request is a struct inet_diag_req_v2; the answer a struct
// inet_diag_msg, with attributes behind it.
const (
	socketRequest   = 56
	socketAnswer    = 72
	skMeminfo       = 7 // an array of numbers of 32 bits
	skMeminfoRcvbuf = 1 // the indices in it
	skMeminfoDrops  = 8
	withSkMeminfo   = 1 << (skMeminfo - 1)
)

// Sockets returns all sockets of a protocol in these states, in the calling thread's network
// namespace; nil if the kernel lacks inet_diag. The kernel selects them by their states.
func Sockets(protocol byte, states uint32) (all []Socket) {
	for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
		req := nl.NewNetlinkRequest(nl.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP)
		body := make([]byte, socketRequest)
		body[0], body[1], body[2] = family, protocol, withSkMeminfo
		binary.NativeEndian.PutUint32(body[4:], states)
		req.AddRawData(body)
		answers, err := req.Execute(unix.NETLINK_INET_DIAG, 0)
		if err != nil && !errors.Is(err, netlink.ErrDumpInterrupted) {
			continue
		}
		for _, a := range answers {
			if s, ok := parseSocket(a); ok {
				all = append(all, s)
			}
		}
	}
	return all
}

func parseSocket(b []byte) (s Socket, ok bool) {
	if len(b) < socketAnswer {
		return s, false
	}
	size := net.IPv4len
	if b[0] == unix.AF_INET6 {
		size = net.IPv6len
	}
	native := binary.NativeEndian
	s = Socket{
		Address: b[8 : 8+size], Port: binary.BigEndian.Uint16(b[4:]),
		Backlog: native.Uint32(b[60:]), Inode: native.Uint32(b[68:]), Cookie: native.Uint64(b[44:]),
	}
	for _, a := range parseAttributes(b[socketAnswer:]) {
		if a.kind == skMeminfo && len(a.value) >= 4*(skMeminfoDrops+1) {
			s.ReceiveBuffer = native.Uint32(a.value[4*skMeminfoRcvbuf:])
			s.Drops = uint64(native.Uint32(a.value[4*skMeminfoDrops:]))
		}
	}
	return s, true
}

// findSockets returns the UDP sockets whose drops rose. The kernel does not count drops by reason.
func (f *Finder) findSockets(Loss, lost.Counters) (found []Evidence) {
	for _, s := range Sockets(unix.IPPROTO_UDP, AnyState) {
		n := lost.Rise(f.sockets[s.Cookie], s.Drops)
		if n == 0 {
			continue
		}
		e := Evidence{Counter: "drops of the socket", Packets: n}
		e.Text = fmt.Sprintf("%s, receive buffer %s", s.Endpoint(), machine.Amount(int64(s.ReceiveBuffer)))
		if p := f.owners[s.Inode]; p.PID != 0 {
			e.Process, e.Cgroup = p.String(), p.Cgroup
			e.Text = e.Process + " " + e.Text
			if unit := path.Base(cmp.Or(p.Cgroup, "/")); unit != "/" {
				e.Text += ", cgroup " + unit
			}
		}
		found = append(found, e)
	}
	return found
}
