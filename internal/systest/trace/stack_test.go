package trace_test

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A stack reads the frames that reach the kernel's network stack on the receiving side of a pair.
type stack struct{ fd int }

func openStack(t *testing.T, pair *testnet.Pair) *stack {
	t.Helper()
	s := &stack{}
	testnet.Must(t, pair.Rx.Do(func() (err error) {
		s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(systest.Htons(unix.ETH_P_ALL)))
		if err != nil {
			return err
		}
		// The kernel removes the outer VLAN tag before a socket gets the frame, and passes it like
		// this.
		if err := unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_AUXDATA, 1); err != nil {
			return err
		}
		limit := unix.NsecToTimeval(testnet.Patience.Nanoseconds())
		if err := unix.SetsockoptTimeval(s.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &limit); err != nil {
			return err
		}
		return unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20)
	}))
	t.Cleanup(func() { unix.Close(s.fd) })
	return s
}

// read returns the frames up to the one that has last in it, tags included.
func (s *stack) read(t *testing.T, last []byte) (frames [][]byte) {
	t.Helper()
	data, aux := make([]byte, 1<<16), make([]byte, unix.CmsgSpace(tpacketAuxdata))
	for {
		n, auxN, flags, _, err := unix.Recvmsg(s.fd, data, aux, unix.MSG_TRUNC)
		if err != nil || flags&unix.MSG_TRUNC != 0 {
			t.Fatalf("frame %d: %d bytes, flags %#x, %v", len(frames), n, flags, err)
		}
		messages, err := unix.ParseSocketControlMessage(aux[:auxN])
		if err != nil || len(messages) != 1 {
			t.Fatalf("frame %d: %d control messages, %v", len(frames), len(messages), err)
		}
		frames = append(frames, withTag(data[:n], messages[0].Data))
		if bytes.Contains(data[:n], last) {
			return frames
		}
	}
}

// struct tpacket_auxdata of linux/if_packet.h: its size, the status bit for a tag, and the offset
// of the tag.
const (
	tpacketAuxdata = 20
	vlanValid      = 1 << 4
	vlanTCI        = 16
)

// withTag returns the frame as it was on the wire.
func withTag(data, aux []byte) []byte {
	frame := slices.Clone(data)
	if aux[0]&vlanValid == 0 {
		return frame
	}
	tci, tpid := aux[vlanTCI:vlanTCI+2], aux[vlanTCI+2:vlanTCI+4] // in the host's byte order
	return slices.Insert(frame, 12, tpid[1], tpid[0], tci[1], tci[0])
}

// variety is some hundred frames of all protocols and sizes, for each of the target's verdicts.
func variety() (frames [][]byte) {
	for round := range 5 {
		frames = append(frames, testnet.MixedTraffic()...)
		for i, a := range systest.Answers {
			size := (round*len(systest.Answers) + i) * 48
			frames = append(frames, testnet.TxToRx().UDP(1000, a.Port, bytes.Repeat([]byte{byte(size)}, size)))
		}
		for seq := range 20 {
			frames = append(frames, testnet.UDPFrame(testnet.MinFrame+seq*72+round, uint64(seq)))
		}
	}
	for size := 1500; size <= testnet.MaxFrame; size += 501 { // in several buffers
		frames = append(frames, testnet.UDPFrame(size, 0))
	}
	return frames
}

// through sends the frames and returns those that reach the stack.
func through(t *testing.T, pair *testnet.Pair, s *stack, frames [][]byte) [][]byte {
	t.Helper()
	for some := range slices.Chunk(frames, 64) { // fewer than fit into the receive queue
		testnet.Send(t, pair, some...)
	}
	last := fmt.Appendf(nil, "the last one, %v", time.Now())
	testnet.Send(t, pair, testnet.TxToRx().UDP(1000, 443, last))
	got := s.read(t, last)
	return got[:len(got)-1]
}

func compareFrames(t *testing.T, want, got [][]byte) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%d frames, want %d", len(got), len(want))
	}
	for i := range min(len(got), len(want)) {
		if !bytes.Equal(got[i], want[i]) {
			t.Fatalf("frame %d:\n%x, want\n%x", i, got[i], want[i])
		}
	}
}

// newJumboPair turns GRO on, so that the interface polls with and without an XDP program, and
// frames keep their order.
func newJumboPair(t *testing.T) *testnet.Pair {
	return testnet.MustPair(t, testnet.PairOptions{MTU: 9000, GRO: true})
}

// The stack gets the same frames, byte for byte and in the same order, without an XDP program and
// with xdpcap's.
func TestStackBesideCapture(t *testing.T) {
	t.Parallel()
	frames := variety()
	for _, mode := range []string{"native", "generic"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			pair := newJumboPair(t)
			stack := openStack(t, pair)
			compareFrames(t, frames, through(t, pair, stack, frames))

			p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--xdp-mode", mode, "-w", os.DevNull, "--json", "-s", "64", "udp")
			compareFrames(t, frames, through(t, pair, stack, frames))
			if s := systest.Account(t, p.Interrupt()); s.Seen != uint64(len(frames)+1) || s.Captured == 0 || s.FilteredOut == 0 {
				t.Errorf("summary %+v", s)
			}
		})
	}
}

// The stack also gets the same frames behind a host's own program, which drops some frames and
// rewrites those that it passes.
func TestStackBehindTrace(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	frames := variety()
	pair := newJumboPair(t)
	stack := openStack(t, pair)
	target := testnet.MustTarget(t, pair, testnet.Rewriting)
	want := through(t, pair, stack, frames)
	alone := systest.Verdicts(t, target)

	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "--rx-capture", "entry,exit", "-w", os.DevNull, "--json", "-s", "64", "udp")
	compareFrames(t, want, through(t, pair, stack, frames))
	if s := systest.Account(t, p.Interrupt()); s.Seen != 2*uint64(len(frames)+1) || s.Captured == 0 || s.FilteredOut == 0 {
		t.Errorf("summary %+v", s)
	}
	both := systest.Verdicts(t, target)
	for v, n := range alone {
		if both[v] != 2*n {
			t.Errorf("verdict %d: %d times alone and %d times traced", v, n, both[v]-n)
		}
	}
	if len(want) != int(alone[xdp.Pass])-1 || len(want) == len(frames) {
		t.Errorf("%d of %d frames reached the stack: %v", len(want), len(frames), alone)
	}
}
