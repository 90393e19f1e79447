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
	"github.com/xdpcap/xdpcap/internal/testfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Files wait for the clients of a Server: who comes late and reads slowly has all packets, and the
// interfaces that were described before he came.
func TestFileInputServed(t *testing.T) {
	const packets = 60_000 // which are several times as much as the log has
	stored := testfile.Numbered(packets, 0, 1, "a", "b")
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(l, nil, Options{})
	server.feed.patience = testnet.Patience // a busy machine takes longer to read the rest
	type result struct {
		accounts []capture.Accounts
		err      error
	}
	from, err := file.NewInput([]file.InputFile{{Name: "file", In: bytes.NewReader(stored)}}, file.InputOptions{})
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
	next := uint64(0)
	for {
		n, err := in.Read(buf, nil)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range buf[:n] {
			if got := binary.LittleEndian.Uint64(p.Data); got != next || p.Dropped > 0 || in.Sources()[p.Source].Name != "ab"[next%2:next%2+1] {
				t.Fatalf("packet %d in place of %d, %d dropped", got, next, p.Dropped)
			}
			next++
		}
	}
	conn.Close()
	if r := <-ended; next != packets || r.err != nil || r.accounts[0].Total().Captured != packets {
		t.Errorf("%d packets: %+v", next, r)
	}
}
