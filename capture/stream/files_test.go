package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/testfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// inLog is several times the number of packets of testfile.Numbered that fit into a log.
const inLog = 60_000

// Complete files wait for the clients of a Server: a client that connects late and reads slowly
// gets all packets, and the interfaces that were described before it connected.
func TestFileInputServed(t *testing.T) {
	t.Parallel()
	next := uint64(0)
	stored := testfile.Numbered(inLog, 0, 1, "a", "b")
	serveFiles(t, Options{}, inLog, readPackets(t, func(p *capture.Packet, source string) {
		if got := binary.LittleEndian.Uint64(p.Data); got != next || p.Dropped > 0 || source != "ab"[next%2:next%2+1] {
			t.Fatalf("packet %d in place of %d, %d dropped", got, next, p.Dropped)
		}
		next++
	}), stored)
}

// A packet of a file arrives even if its block has the maximum length.
func TestFileInputServedLong(t *testing.T) {
	t.Parallel()
	lengths := []int{600, pcapng.MaxBlock, 601, 602, 603, pcapng.MaxBlock - 1, 604, pcapng.MaxBlock, 605}
	stored := make([][]byte, 2) // files, so that short and long packets are read together
	for i := range stored {
		stored[i] = pcapng.AppendPcapHeader(nil, pcapng.PcapMicroseconds, 0, pcapng.Ethernet)
	}
	for i, n := range lengths {
		in := &stored[i%2]
		*in = pcapng.AppendPcapPacket(*in, pcapng.PcapMicroseconds, int64(i)*1000, uint32(n), bytes.Repeat([]byte{byte(i)}, n))
	}
	next := 0
	// The stream is pcap, because pcapng blocks of these packets are longer than a reader accepts.
	serveFiles(t, Options{PCAP: true}, len(lengths), readPackets(t, func(p *capture.Packet, _ string) {
		if n := lengths[next]; len(p.Data) != n || bytes.Count(p.Data, []byte{byte(next)}) != n {
			t.Fatalf("packet %d has %d bytes, want %d", next, len(p.Data), n)
		}
		next++
	}), stored...)
}

// A client of a pcap stream gets only a header and packets, also from several interfaces.
func TestServerPCAP(t *testing.T) {
	t.Parallel()
	feedTest(t)
	stored := testfile.Numbered(inLog, 0, 1, "a", "b")
	again := mustInput(t, file.InputFile{Name: "file", In: bytes.NewReader(stored)})
	serveFiles(t, Options{PCAP: true}, inLog, func(conn net.Conn) (packets int) {
		r, err := pcapgo.NewReader(conn)
		must(t, err)
		want := make([]capture.Packet, 1)
		for ; ; packets++ {
			data, info, err := r.ReadPacketData()
			if err == io.EOF {
				return packets
			}
			if err != nil {
				t.Fatalf("packet %d: %v", packets, err)
			}
			if n, err := again.Read(want, nil); n != 1 || err != nil {
				t.Fatal(err)
			}
			p := &want[0]
			if !bytes.Equal(data, p.Data) || info.Length != int(p.WireLen) || info.Timestamp.UnixMicro() != p.Time/1000 {
				t.Fatalf("packet %d: %x, %+v", packets, data, info)
			}
		}
	}, stored)
}

// serveFiles serves files to one client, which calls read and must get this many packets.
func serveFiles(t *testing.T, o Options, packets int, read func(net.Conn) int, stored ...[]byte) {
	t.Helper()
	l := listen(t)
	server := NewServer(l, nil, o)
	server.feed.patience = testnet.Patience // a busy machine needs longer to read the remaining packets
	var files []file.InputFile
	for _, b := range stored {
		files = append(files, file.InputFile{Name: "file", In: bytes.NewReader(b)})
	}
	from := mustInput(t, files...)
	ended := make(chan error)
	go func() {
		accounts, err := capture.Run(context.Background(), from, server)
		if err == nil && accounts[0].Total().Captured != uint64(packets) {
			t.Errorf("accounts %+v", accounts)
		}
		ended <- err
	}()
	conn := connect(t, l.Addr().String(), 0)
	arrived := read(conn)
	conn.Close()
	if err := <-ended; err != nil || arrived != packets {
		t.Errorf("%d packets of %d: %v", arrived, packets, err)
	}
}

func mustInput(t *testing.T, files ...file.InputFile) *file.Input {
	t.Helper()
	in, err := file.NewInput(files, file.InputOptions{})
	must(t, err)
	return in
}

// readPackets returns a function that reads a stream, calls got for each packet, and returns how
// many there were.
func readPackets(t *testing.T, got func(p *capture.Packet, source string)) func(net.Conn) int {
	return func(conn net.Conn) (packets int) {
		in := mustInput(t, file.InputFile{Name: "tcp", In: conn, Waits: true})
		buf := make([]capture.Packet, groupSize)
		for {
			n, err := in.Read(buf, nil)
			if err == io.EOF {
				return packets
			}
			must(t, err)
			packets += n
			for i := range buf[:n] {
				got(&buf[i], in.Sources()[buf[i].Source].Name)
			}
		}
	}
}

// Packets of another link type are rejected, at Begin or when they are read.
func TestPCAPLinkType(t *testing.T) {
	t.Parallel()
	feedTest(t)
	wlan := pcapng.AppendSection(nil, &pcapng.Section{})
	wlan = pcapng.AppendInterface(wlan, &pcapng.Interface{Name: "wlan0", LinkType: 105})
	wlan = pcapng.AppendPacket(wlan, &pcapng.Packet{WireLen: 4, Data: make([]byte, 4)})
	in := mustInput(t, file.InputFile{Name: "file", In: bytes.NewReader(wlan)})
	_, err := capture.Run(context.Background(), in, NewServer(listen(t), nil, Options{PCAP: true}))
	if err == nil || !strings.Contains(err.Error(), "a stream of pcap has packets of one link type") || !strings.Contains(err.Error(), "wlan0") {
		t.Errorf("error %v", err)
	}
}
