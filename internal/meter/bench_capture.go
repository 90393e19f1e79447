package meter

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

const (
	// MaxBenchPackets is the largest number of packets read from a capture.
	MaxBenchPackets = 256
	// maxBenchPacket is the longest packet in bytes: BPF_PROG_RUN takes at most 18 pages.
	maxBenchPacket = 65535
	// minBenchPacket is an Ethernet header. BPF_PROG_RUN refuses shorter packets.
	minBenchPacket = 14
)

// BenchPackets are the packets of a capture.
type BenchPackets struct {
	Data  [][]byte
	Cut   int  // packets of Data that the capture truncated
	Short int  // packets skipped because they are shorter than an Ethernet header
	Long  int  // packets skipped because they are longer than BPF_PROG_RUN takes
	More  bool // the capture has more packets than were read
}

// ReadBenchPackets reads the first MaxBenchPackets packets of a capture, pcapng or pcap. It fails
// if there is no usable packet, or if the packets do not begin with an Ethernet header.
func ReadBenchPackets(r io.Reader) (*BenchPackets, error) {
	source, err := newPacketSource(bufio.NewReader(r))
	if err != nil {
		return nil, err
	}
	p := &BenchPackets{}
	for {
		data, info, err := source.ReadPacketData()
		switch {
		case errors.Is(err, io.EOF):
			return p, p.check()
		case err != nil && len(p.Data) == 0:
			return nil, err
		case err != nil: // a capture that is still being written may end within a packet
			p.More = true
			return p, nil
		case len(p.Data) == MaxBenchPackets:
			p.More = true
			return p, nil
		case source.LinkType() != layers.LinkTypeEthernet:
			return nil, fmt.Errorf("its packets begin with %v instead of an Ethernet header, which XDP programs need", source.LinkType())
		case len(data) < minBenchPacket:
			p.Short++
		case len(data) > maxBenchPacket:
			p.Long++
		default:
			p.Data = append(p.Data, data)
			if info.Length > len(data) {
				p.Cut++
			}
		}
	}
}

func (p *BenchPackets) check() error {
	if len(p.Data) > 0 {
		return nil
	}
	if left := p.Short + p.Long; left > 0 {
		return fmt.Errorf("none of its %d packets has %d to %d bytes", left, minBenchPacket, maxBenchPacket)
	}
	return errors.New("it has no packets")
}

type packetSource interface {
	gopacket.PacketDataSource
	LinkType() layers.LinkType
}

// newPacketSource tells pcapng from pcap by the first four bytes.
func newPacketSource(r *bufio.Reader) (packetSource, error) {
	const sectionHeader = 0x0a0d0d0a // of pcapng, in either byte order
	magic, err := r.Peek(4)
	if errors.Is(err, io.EOF) {
		return nil, errors.New("it is too short for a capture file")
	}
	if err != nil {
		return nil, err
	}
	if binary.BigEndian.Uint32(magic) == sectionHeader {
		return pcapgo.NewNgReader(r, pcapgo.NgReaderOptions{ErrorOnMismatchingLinkType: true})
	}
	source, err := pcapgo.NewReader(r)
	if err != nil {
		return nil, errors.New("it is neither pcapng nor pcap")
	}
	return source, nil
}
