package stream

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/pcap"
	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/testfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Files wait for the clients of a Server: who comes late and reads slowly has all packets, and the
// interfaces that were described before he came.
func TestFileInputServed(t *testing.T) {
	t.Parallel()
	const packets = 60_000 // which are several times as much as the log has
	next := uint64(0)
	serveFiles(t, [][]byte{testfile.Numbered(packets, 0, 1, "a", "b")}, Options{}, packets, func(p *capture.Packet, source string) {
		if got := binary.LittleEndian.Uint64(p.Data); got != next || p.Dropped > 0 || source != "ab"[next%2:next%2+1] {
			t.Fatalf("packet %d in place of %d, %d dropped", got, next, p.Dropped)
		}
		next++
	})
}

// A packet of a file may be as long as a block can be, and then it arrives, too.
func TestFileInputServedLong(t *testing.T) {
	t.Parallel()
	lengths := []int{600, pcapng.MaxBlock, 601, 602, 603, pcapng.MaxBlock - 1, 604, pcapng.MaxBlock, 605}
	stored := make([][]byte, 2) // files, so that short and long packets are read together
	for i := range stored {
		stored[i] = pcap.AppendHeader(nil, pcap.Microseconds, 0, pcapng.Ethernet)
	}
	for i, n := range lengths {
		in := &stored[i%2]
		*in = pcap.AppendPacket(*in, pcap.Microseconds, int64(i)*1000, uint32(n), bytes.Repeat([]byte{byte(i)}, n))
	}
	next := 0
	// The stream is of pcap, because their blocks of pcapng are longer than a reader takes.
	serveFiles(t, stored, Options{PCAP: true}, uint64(len(lengths)), func(p *capture.Packet, _ string) {
		if n := lengths[next]; len(p.Data) != n || bytes.Count(p.Data, []byte{byte(next)}) != n {
			t.Fatalf("packet %d has %d bytes, want %d", next, len(p.Data), n)
		}
		next++
	})
}

// serveFiles serves files to one client, which is to get so many packets, and calls got for each.
func serveFiles(t *testing.T, stored [][]byte, o Options, packets uint64, got func(p *capture.Packet, source string)) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(l, nil, o)
	server.feed.patience = testnet.Patience // a busy machine takes longer to read the rest
	type result struct {
		accounts []capture.Accounts
		err      error
	}
	var files []file.InputFile
	for _, b := range stored {
		files = append(files, file.InputFile{Name: "file", In: bytes.NewReader(b)})
	}
	from, err := file.NewInput(files, file.InputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan result)
	go func() {
		accounts, err := capture.Run(context.Background(), from, server)
		ended <- result{accounts, err}
	}()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	in, err := file.NewInput([]file.InputFile{{Name: "tcp", In: conn, Waits: true}}, file.InputOptions{})
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]capture.Packet, groupSize)
	arrived := uint64(0)
	for {
		n, err := in.Read(buf, nil)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		arrived += uint64(n)
		for i := range buf[:n] {
			got(&buf[i], in.Sources()[buf[i].Source].Name)
		}
	}
	conn.Close()
	if r := <-ended; arrived != packets || r.err != nil || r.accounts[0].Total().Captured != packets {
		t.Errorf("%d packets: %+v", arrived, r)
	}
}
