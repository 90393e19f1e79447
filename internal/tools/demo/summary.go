package main

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// A summary describes the contents of a capture file.
type summary struct {
	file        string
	format      string
	fileBytes   int64
	interfaces  []pcapgo.NgInterface // none in a classic pcap file
	packets     int
	wireBytes   int
	cut         int // packets that the snapshot length cut
	first, last time.Time
	protocols   map[string]int // packets by a name like "IPv4 TCP"
}

// summarize reads a file with a reader that is not xdpcap's own.
func summarize(file string) (*summary, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	s := &summary{file: file, fileBytes: info.Size(), protocols: map[string]int{}}
	if err := s.read(f); err != nil {
		return nil, fmt.Errorf("read %s after %d packets: %w", file, s.packets, err)
	}
	return s, nil
}

func (s *summary) read(f io.Reader) error {
	in := bufio.NewReader(f)
	magic, err := in.Peek(4)
	if err != nil {
		return err
	}
	if !slices.Equal(magic, []byte{0x0a, 0x0d, 0x0d, 0x0a}) {
		s.format = "pcap"
		r, err := pcapgo.NewReader(in)
		if err != nil {
			return err
		}
		return s.readPackets(r)
	}
	s.format = "pcapng"
	r, err := pcapgo.NewNgReader(in, pcapgo.NgReaderOptions{WantMixedLinkType: true})
	if err != nil {
		return err
	}
	err = s.readPackets(r)
	for i := range r.NInterfaces() {
		if ifi, err := r.Interface(i); err == nil {
			s.interfaces = append(s.interfaces, ifi)
		}
	}
	return err
}

func (s *summary) readPackets(r gopacket.PacketDataSource) error {
	for {
		data, info, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if s.packets == 0 {
			s.first = info.Timestamp
		}
		s.last = info.Timestamp
		s.packets++
		s.wireBytes += info.Length
		if info.CaptureLength < info.Length {
			s.cut++
		}
		s.protocols[protocol(data)]++
	}
}

// protocolNames are the layers by which a frame is named.
var protocolNames = map[gopacket.LayerType]string{
	layers.LayerTypeDot1Q:  "VLAN",
	layers.LayerTypeARP:    "ARP",
	layers.LayerTypeIPv4:   "IPv4",
	layers.LayerTypeIPv6:   "IPv6",
	layers.LayerTypeTCP:    "TCP",
	layers.LayerTypeUDP:    "UDP",
	layers.LayerTypeICMPv4: "ICMP",
	layers.LayerTypeICMPv6: "ICMP",
}

// protocol names a frame by its tags, its network and its transport layer.
func protocol(frame []byte) string {
	var names []string
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
	for _, layer := range p.Layers() {
		if name, ok := protocolNames[layer.LayerType()]; ok {
			names = append(names, name)
		}
	}
	return cmp.Or(strings.Join(names, " "), "other")
}

func (s *summary) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s: %s, %d bytes\n", s.file, s.format, s.fileBytes)
	for _, ifi := range s.interfaces {
		fmt.Fprintf(out, "interface %s, %v, snapshot length %d", ifi.Name, ifi.LinkType, ifi.SnapLength)
		if seen := ifi.Statistics.PacketsReceived; seen != pcapgo.NgNoValue64 {
			fmt.Fprintf(out, ", %d packets seen", seen)
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "%d packets, %d bytes on the wire", s.packets, s.wireBytes)
	if s.cut > 0 {
		fmt.Fprintf(out, ", %d of them cut short", s.cut)
	}
	if s.packets > 0 {
		fmt.Fprintf(out, ", in %.3f s from %s", s.last.Sub(s.first).Seconds(), s.first.Format("2006-01-02 15:04:05.000 MST"))
	}
	fmt.Fprintln(out)

	names := slices.SortedFunc(maps.Keys(s.protocols), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.protocols[b], s.protocols[a]), cmp.Compare(a, b))
	})
	for _, name := range names {
		fmt.Fprintf(out, "%8d  %s\n", s.protocols[name], name)
	}
}
