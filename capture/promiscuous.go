package capture

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/support"
)

// Promiscuity says whether an interface is set to promiscuous mode while a session captures there.
// In that mode it also accepts packets for other MAC addresses.
type Promiscuity int

const (
	PromiscuousAuto Promiscuity = iota // with Sink, if this process has the right
	PromiscuousOn                      // always; an error if this process has no right
	PromiscuousOff                     // never
)

// setPromiscuous sets the session's interfaces to promiscuous mode if the options ask for it.
func (s *Session) setPromiscuous() error {
	o := &s.options
	if o.Promiscuous == PromiscuousOff || o.Promiscuous == PromiscuousAuto && !o.Sink {
		return nil
	}
	set := make(map[int]bool)
	for _, src := range s.roster.sources() {
		if set[src.Index] {
			continue
		}
		set[src.Index] = true
		p, err := beginPromiscuous(src.Index)
		switch {
		case err == nil:
			s.promiscuous = append(s.promiscuous, p)
		case o.Promiscuous == PromiscuousOn:
			return support.ExplainPromiscuous("set "+src.Name+" to promiscuous mode", err)
		default:
			s.notice(support.ExplainPromiscuous(src.Name+" may ignore packets for other MAC addresses: set it to promiscuous mode", err))
			return nil // the others have the same error
		}
	}
	return nil
}

// beginPromiscuous sets an interface to promiscuous mode until the Closer is closed. The kernel
// counts the requests: the interface stays in this mode while anybody else asks for it, and a
// process's request ends when it dies. It needs CAP_NET_RAW.
func beginPromiscuous(index int) (io.Closer, error) {
	// A packet socket of no protocol receives nothing.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	socket := os.NewFile(uintptr(fd), "packet")
	member := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC}
	if err := unix.SetsockoptPacketMreq(fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &member); err != nil {
		socket.Close()
		return nil, os.NewSyscallError("setsockopt", err)
	}
	return socket, nil
}

// unsetPromiscuous undoes setPromiscuous.
func (s *Session) unsetPromiscuous() error {
	var errs []error
	for _, p := range s.promiscuous {
		errs = append(errs, p.Close())
	}
	s.promiscuous = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("leave promiscuous mode: %w", err)
	}
	return nil
}
