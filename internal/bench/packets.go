package bench

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

const (
	// MaxPackets is the largest number of packets read from a capture.
	MaxPackets = 256
	// maxPacket is the longest packet in bytes: BPF_PROG_RUN takes at most 18 pages.
	maxPacket = 65535
	// minPacket is an Ethernet header. BPF_PROG_RUN refuses shorter packets.
	minPacket = 14
)

// Packets are the packets of a capture.
type Packets struct {
	Data  [][]byte
	Cut   int  // packets of Data that the capture truncated
	Short int  // packets skipped because they are shorter than an Ethernet header
	Long  int  // packets skipped because they are longer than BPF_PROG_RUN takes
	More  bool // the capture has more packets than were read
}

// ReadPackets reads the first MaxPackets packets of a capture file, of any format that
// capfile knows. name is the file's in errors. It fails if there is no usable packet, or if the
// packets do not begin with an Ethernet header.
func ReadPackets(r io.Reader, name string) (*Packets, error) {
	file, err := capfile.New(r, name, capfile.Options{})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &Packets{}
	for {
		b, err := file.Next()
		switch {
		case errors.Is(err, io.EOF):
			return p, p.check(name)
		case err != nil && len(p.Data) == 0:
			return nil, err
		case err != nil: // a capture that is still being written may end within a packet
			p.More = true
			return p, nil
		case b.Kind != capfile.Packet:
		case len(p.Data) == MaxPackets:
			p.More = true
			return p, nil
		case b.Interface.LinkType != pcapng.Ethernet:
			return nil, fmt.Errorf("the packets of %s begin with %s instead of an Ethernet header, which XDP programs need",
				name, pcapng.LinkTypeName(b.Interface.LinkType))
		case len(b.Packet.Data) < minPacket:
			p.Short++
		case len(b.Packet.Data) > maxPacket:
			p.Long++
		default:
			p.Data = append(p.Data, bytes.Clone(b.Packet.Data))
			if int(b.Packet.WireLen) > len(b.Packet.Data) {
				p.Cut++
			}
		}
	}
}

func (p *Packets) check(name string) error {
	if len(p.Data) > 0 {
		return nil
	}
	if left := p.Short + p.Long; left > 0 {
		return fmt.Errorf("none of the %d packets of %s has %d to %d bytes", left, name, minPacket, maxPacket)
	}
	return fmt.Errorf("%s has no packets", name)
}

// commonPackets returns the most common kinds of packets, in the shortest frames: at a given
// bandwidth, short frames are the most packets.
func commonPackets() [][]byte {
	return [][]byte{
		commonPacket(0x0800, 6), commonPacket(0x0800, 17),
		commonPacket(0x86dd, 6), commonPacket(0x86dd, 17),
	}
}

// commonPacket makes a packet. All bytes are zero except those that tell its protocol.
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
