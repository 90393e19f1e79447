package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

func TestProtocol(t *testing.T) {
	t.Parallel()
	out := testnet.TxToRx()
	for _, test := range []struct {
		name  string
		frame []byte
		want  string
	}{
		{"udp", out.UDP(1000, 53, nil), "IPv4 UDP"},
		{"udp over ipv6", out.UDPv6(1000, 53, nil), "IPv6 UDP"},
		{"tcp", out.TCP(testnet.Segment{SYN: true}), "IPv4 TCP"},
		{"icmp", out.ICMPEcho(false, 1), "IPv4 ICMP"},
		{"icmpv6", out.ICMPv6Echo(false, 1), "IPv6 ICMP"},
		{"arp", out.ARPRequest(), "ARP"},
		{"two tags", testnet.QinQ(out.ICMPEcho(false, 1), 200, 100), "VLAN VLAN IPv4 ICMP"},
		{"only a header", out.ARPRequest()[:14], "other"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := protocol(test.frame); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// A packetWriter is pcapgo's Writer or NgWriter.
type packetWriter interface {
	WritePacket(info gopacket.CaptureInfo, data []byte) error
}

// captureFile writes two datagrams and a ping cut short, a quarter of a second apart.
func captureFile(t *testing.T, begin func(io.Writer) (w packetWriter, end func() error, err error)) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "demo.pcapng")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, end, err := begin(f)
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	out := testnet.TxToRx()
	for _, p := range []struct {
		frame []byte
		kept  int
	}{{out.UDP(1, 2, make([]byte, 58)), 100}, {out.UDP(1, 2, make([]byte, 58)), 100}, {out.ICMPEcho(false, 1), 60}} {
		info := gopacket.CaptureInfo{Timestamp: at, Length: len(p.frame), CaptureLength: p.kept}
		if err := w.WritePacket(info, p.frame[:p.kept]); err != nil {
			t.Fatal(err)
		}
		at = at.Add(250 * time.Millisecond)
	}
	if err := end(); err != nil {
		t.Fatal(err)
	}
	return file
}

func pcapng(out io.Writer) (packetWriter, func() error, error) {
	ifi := pcapgo.NgInterface{Name: "rx0", LinkType: layers.LinkTypeEthernet, SnapLength: 100, TimestampResolution: 9}
	w, err := pcapgo.NewNgWriterInterface(out, ifi, pcapgo.NgWriterOptions{})
	if err != nil {
		return nil, nil, err
	}
	return w, func() error {
		seen := pcapgo.NgInterfaceStatistics{PacketsReceived: 7, PacketsDropped: pcapgo.NgNoValue64}
		if err := w.WriteInterfaceStats(0, seen); err != nil {
			return err
		}
		return w.Flush()
	}, nil
}

func pcap(out io.Writer) (packetWriter, func() error, error) {
	w := pcapgo.NewWriterNanos(out)
	return w, func() error { return nil }, w.WriteFileHeader(100, layers.LinkTypeEthernet)
}

func TestSummarize(t *testing.T) {
	t.Parallel()
	const packets = `3 packets, 274 bytes on the wire, 1 of them cut short, in 0.500 s from 2026-01-02 03:04:05.000 UTC
       2  IPv4 UDP
       1  IPv4 ICMP
`
	for _, test := range []struct {
		name  string
		begin func(io.Writer) (packetWriter, func() error, error)
		want  string
	}{
		{"pcapng", pcapng, "interface rx0, Ethernet, snapshot length 100, 7 packets seen\n" + packets},
		{"pcap", pcap, packets},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, err := summarize(captureFile(t, test.begin))
			if err != nil {
				t.Fatal(err)
			}
			if s.format != test.name {
				t.Errorf("format %s, want %s", s.format, test.name)
			}
			var out strings.Builder
			s.print(&out)
			_, got, _ := strings.Cut(strings.TrimPrefix(out.String(), "\n"), "\n") // behind the file's name and size
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A file that ends within a packet is an error that says how far it could be read.
func TestSummarizeCutFile(t *testing.T) {
	t.Parallel()
	file := captureFile(t, pcap)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data[:len(data)-10], 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := summarize(file); err == nil || !strings.Contains(err.Error(), "after 2 packets") {
		t.Errorf("error %v, want one that says after how many packets", err)
	}
}
