package replay

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/xdpcap/xdpcap/capture"
)

// MaxSample is the largest number of packets in a Sample.
const MaxSample = 256

// A Sample is an output that keeps the first packets on which a program can run, to measure it.
type Sample struct {
	Data   [][]byte
	Cut    int    // packets of Data of which the capture has only the beginning
	More   bool   // the input has more packets than were kept
	NotRun NotRun // packets before the last of Data on which no program can run

	Direction capture.Direction // as in Options

	sources *capture.SourceList
}

// Begin keeps the sources.
func (s *Sample) Begin(d capture.Description) error {
	s.sources = capture.NewSourceList(&d)
	return nil
}

// Write keeps packets. The error is a [capture.ErrEnough] when there is room for no more.
func (s *Sample) Write(packets []capture.Packet) error {
	s.sources.Update()
	for i := range packets {
		p := &packets[i]
		if why := s.NotRun.counter(p, s.sources.Of(int(p.Source)), s.Direction); why != nil {
			*why++
			continue
		}
		if len(s.Data) == MaxSample {
			s.More = true
			return capture.ErrEnough
		}
		s.Data = append(s.Data, bytes.Clone(p.Data))
		if len(p.Data) < int(p.WireLen) {
			s.Cut++
		}
	}
	return nil
}

// Flush does nothing.
func (s *Sample) Flush() error { return nil }

// End fails if there are no packets.
func (s *Sample) End(final capture.Accounts) (capture.Accounts, error) {
	left := s.NotRun.Total()
	if len(s.Data) > 0 || left == 0 {
		return final, nil
	}
	came := "received"
	if s.Direction == capture.Out {
		came = "sent"
	}
	return final, fmt.Errorf("none of the %d packets is a %s Ethernet frame of %d to %d bytes", left, came, minPacket, maxPacket)
}

// commonPackets returns the most common kinds of packets, in the shortest frames: at a given
// bandwidth, short frames are the most packets.
func commonPackets() [][]byte {
	return [][]byte{
		commonPacket(0x0800, 6), commonPacket(0x0800, 17),
		commonPacket(0x86dd, 6), commonPacket(0x86dd, 17),
	}
}

// commonPacket makes a packet. All bytes are zero except those of its protocols.
func commonPacket(etherType uint16, protocol byte) []byte {
	if etherType == 0x0800 {
		p := make([]byte, 60)
		binary.BigEndian.PutUint16(p[12:], etherType)
		p[14], p[14+9] = 0x45, protocol
		return p
	}
	p := make([]byte, 14+40+20)
	binary.BigEndian.PutUint16(p[12:], etherType)
	p[14], p[14+6] = 0x60, protocol
	return p
}
