package xdp

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// SetPromiscuous sets an interface to promiscuous mode until the Closer is closed: its driver then
// also takes packets for other MAC addresses. The kernel counts the requests: the interface stays
// in this mode while there is another request, and a process's request ends when it dies. It needs
// CAP_NET_RAW.
func SetPromiscuous(index int) (io.Closer, error) {
	// A packet socket of no protocol receives no packets.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	member := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &member); err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("setsockopt", err)
	}
	return promiscuous(fd), nil
}

// promiscuous is a packet socket.
type promiscuous int

func (fd promiscuous) Close() error { return unix.Close(int(fd)) }
