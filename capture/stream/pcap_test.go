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

// A client of a stream of pcap gets a header and packets, and nothing else, also from several
// interfaces.
func TestServerPCAP(t *testing.T) {
	t.Parallel()
	feedTest(t)
	const packets = 60_000 // which are several times as much as the log has
	stored := testfile.Numbered(packets, 0, 1, "a", "b")
	in, err := file.NewInput([]file.InputFile{{Name: "file", In: bytes.NewReader(stored)}}, file.InputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(l, nil, Options{PCAP: true})
	server.feed.patience = testnet.Patience // a busy machine takes longer to read the rest
	ended := make(chan error)
	go func() {
		accounts, err := capture.Run(context.Background(), in, server)
		if err == nil && accounts[0].Total().Captured != packets {
			t.Errorf("accounts %+v", accounts)
		}
		ended <- err
	}()
	again, err := file.NewInput([]file.InputFile{{Name: "file", In: bytes.NewReader(stored)}}, file.InputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	r, err := pcapgo.NewReader(conn)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]capture.Packet, 1)
	for i := range packets {
		data, info, err := r.ReadPacketData()
		if err != nil {
			t.Fatalf("packet %d: %v", i, err)
		}
		if n, err := again.Read(want, nil); n != 1 || err != nil {
			t.Fatal(err)
		}
		p := &want[0]
		if !bytes.Equal(data, p.Data) || info.Length != int(p.WireLen) || info.Timestamp.UnixMicro() != p.Time/1000 {
			t.Fatalf("packet %d: %x, %+v", i, data, info)
		}
	}
	if data, _, err := r.ReadPacketData(); err != io.EOF {
		t.Errorf("after the last packet: %x, %v", data, err)
	}
	conn.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A client that is too slow loses whole packets, so that its stream can be read on.
func TestFeedLogPCAP(t *testing.T) {
	t.Parallel()
	feedTest(t)
	l := newFeedLog(4096, 1)
	l.asPCAP = true
	c := l.join()
	var packet []byte
	for i := range uint64(200) {
		data := binary.BigEndian.AppendUint64(nil, i)
		packet = pcapng.AppendPacket(packet[:0], &pcapng.Packet{Time: i * 1000, WireLen: 100, Data: data})
		l.add(packet, []sent{{end: int64(len(packet)), bytes: 8}})
	}
	got := l.take(c, nil, 1<<20)
	const size = 16 + 8
	if n := uint64(len(got) / size); n == 0 || n == 200 || len(got)%size != 0 || c.lost.Total().Lost != 200-n {
		t.Fatalf("%d bytes, %+v", len(got), c.lost)
	}
	for i := 200 - uint64(len(got)/size); i < 200; i++ {
		record := got[:size]
		got = got[size:]
		le := binary.LittleEndian
		if le.Uint32(record[4:]) != uint32(i) || le.Uint32(record[8:]) != 8 || le.Uint32(record[12:]) != 100 || binary.BigEndian.Uint64(record[16:]) != i {
			t.Fatalf("packet %d: %x", i, record)
		}
	}
	if rest := l.describeRest(c, nil); len(rest) > 0 {
		t.Errorf("%d bytes at the end", len(rest))
	}
}

// Packets of another link type are refused, when the session begins or when they come.
func TestPCAPLinkType(t *testing.T) {
	t.Parallel()
	feedTest(t)
	wlan := pcapng.AppendSection(nil, &pcapng.Section{})
	wlan = pcapng.AppendInterface(wlan, &pcapng.Interface{Name: "wlan0", LinkType: 105})
	wlan = pcapng.AppendPacket(wlan, &pcapng.Packet{WireLen: 4, Data: make([]byte, 4)})
	in, err := file.NewInput([]file.InputFile{{Name: "file", In: bytes.NewReader(wlan)}}, file.InputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, err = capture.Run(context.Background(), in, NewServer(l, nil, Options{PCAP: true}))
	if err == nil || !strings.Contains(err.Error(), "a stream of pcap has packets of one link type") || !strings.Contains(err.Error(), "wlan0") {
		t.Errorf("error %v", err)
	}
}
