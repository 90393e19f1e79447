package testnet

import (
	"bytes"
	"testing"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A receiver that copies has the bytes of each packet, in cache lines of its own.
func TestReceiverCopies(t *testing.T) {
	t.Parallel()
	p := MustPair(t, PairOptions{})
	r := MustReceiver(t, p, xdp.Drop, ReceiverOptions{Copy: true})
	copies, err := r.Copies()
	if err != nil {
		t.Fatal(err)
	}
	frames := [][]byte{UDPFrame(MinFrame, 1), UDPFrame(1514, 2), UDPFrame(MinFrame, 3)}
	var want []byte
	for _, f := range frames {
		Send(t, p, f)
		if len(f) == MinFrame {
			f = f[:56] // whole words
		}
		want = append(want, f...)
		want = append(want, make([]byte, -len(want)&63)...)
	}
	var got []byte
	for buffer := make([]byte, 1000); ; {
		n, err := copies.Take(buffer)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
		got = append(got, buffer[:n]...)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("copied %d bytes:\n%x\nwant %d:\n%x", len(got), got, len(want), want)
	}
}
