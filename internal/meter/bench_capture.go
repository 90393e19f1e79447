package meter

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/pcapng"
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

// ReadBenchPackets reads the first MaxBenchPackets packets of a capture file, of any format that
// capfile knows. name is the file's in errors. It fails if there is no usable packet, or if the
// packets do not begin with an Ethernet header.
func ReadBenchPackets(r io.Reader, name string) (*BenchPackets, error) {
	file, err := capfile.New(r, name, capfile.Options{})
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p := &BenchPackets{}
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
		case len(p.Data) == MaxBenchPackets:
			p.More = true
			return p, nil
		case b.Interface.LinkType != pcapng.Ethernet:
			return nil, fmt.Errorf("the packets of %s begin with %s instead of an Ethernet header, which XDP programs need",
				name, pcapng.LinkTypeName(b.Interface.LinkType))
		case len(b.Packet.Data) < minBenchPacket:
			p.Short++
		case len(b.Packet.Data) > maxBenchPacket:
			p.Long++
		default:
			p.Data = append(p.Data, bytes.Clone(b.Packet.Data))
			if int(b.Packet.WireLen) > len(b.Packet.Data) {
				p.Cut++
			}
		}
	}
}

func (p *BenchPackets) check(name string) error {
	if len(p.Data) > 0 {
		return nil
	}
	if left := p.Short + p.Long; left > 0 {
		return fmt.Errorf("none of the %d packets of %s has %d to %d bytes", left, name, minBenchPacket, maxBenchPacket)
	}
	return fmt.Errorf("%s has no packets", name)
}
