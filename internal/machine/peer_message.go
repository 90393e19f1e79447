package machine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The layout of the messages by linux/inet_diag.h, after the netlink header. Numbers are in the
// machine's byte order, except ports and addresses.
const (
	requestSize = 56 // struct inet_diag_req_v2
	requestID   = 8  // its struct inet_diag_sockid
	answerSize  = 72 // struct inet_diag_msg
	answerState = 1
	answerID    = 4
	answerUID   = 64
	answerInode = 68

	idNear, idFar       = 4, 20 // addresses of struct inet_diag_sockid, which begins with the ports
	idCookie            = 40
	anyCookie           = 0xff // in each byte
	allStates           = 0xffffffff
	byFamily            = 20 // SOCK_DIAG_BY_FAMILY of linux/sock_diag.h
	tcpListen     uint8 = 10 // TCP_LISTEN of linux/tcp_states.h
)

var native = binary.NativeEndian

// A socket is the kernel's information about a socket.
type socket struct {
	state      uint8
	uid, inode uint32 // inode is 0 when no process has it open
}

// find looks up the socket with these ends. If there is no such socket, the error is ENOENT.
// netlink.SocketGet is not suitable: it lists sockets, for which the kernel compares only the
// ports, and these may be the ports of another user's connection.
func (f *PeerFinder) find(near, far netip.AddrPort) (*socket, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sequence++
	if _, err := unix.Write(f.socket, request(f.sequence, near, far)); err != nil {
		return nil, err
	}
	buf := make([]byte, 4096)
	for {
		n, err := unix.Read(f.socket, buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case n < unix.NLMSG_HDRLEN || native.Uint32(buf[8:]) != f.sequence: // the answer to an earlier request that timed out
			continue
		}
		return answer(native.Uint16(buf[4:]), buf[unix.NLMSG_HDRLEN:n], near.Port())
	}
}

// request returns a request for a TCP socket.
func request(sequence uint32, near, far netip.AddrPort) []byte {
	b := make([]byte, unix.NLMSG_HDRLEN+requestSize)
	native.PutUint32(b, uint32(len(b)))
	native.PutUint16(b[4:], byFamily)
	native.PutUint16(b[6:], unix.NLM_F_REQUEST)
	native.PutUint32(b[8:], sequence)
	body := b[unix.NLMSG_HDRLEN:]
	body[0], body[1] = unix.AF_INET, unix.IPPROTO_TCP
	if near.Addr().Is6() {
		body[0] = unix.AF_INET6
	}
	native.PutUint32(body[4:], allStates)
	id := body[requestID:]
	binary.BigEndian.PutUint16(id, near.Port())
	binary.BigEndian.PutUint16(id[2:], far.Port())
	copy(id[idNear:], near.Addr().AsSlice())
	copy(id[idFar:], far.Addr().AsSlice())
	for i := range 8 {
		id[idCookie+i] = anyCookie
	}
	return b
}

// answer parses the kernel's answer about the socket with this port.
func answer(kind uint16, body []byte, port uint16) (*socket, error) {
	switch {
	case kind == unix.NLMSG_ERROR && len(body) >= 4:
		return nil, unix.Errno(-int32(native.Uint32(body)))
	case kind != byFamily || len(body) < answerSize:
		return nil, fmt.Errorf("unknown answer of type %d, with %d bytes", kind, len(body))
	case binary.BigEndian.Uint16(body[answerID:]) != port:
		return nil, unix.ENOENT
	}
	return &socket{state: body[answerState], uid: native.Uint32(body[answerUID:]), inode: native.Uint32(body[answerInode:])}, nil
}
