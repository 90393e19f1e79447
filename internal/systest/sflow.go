package systest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// An SflowListener is a collector that keeps every datagram. Datagrams wait in its socket until
// Read is called, so Read returns all datagrams sent before.
type SflowListener struct {
	Address   string // 127.0.0.1:PORT
	conn      *net.UDPConn
	raw       syscall.RawConn
	datagrams [][]byte
}

// ListenSFlow starts a collector on a namespace's loopback.
func ListenSFlow(t *testing.T, ns *testnet.Namespace) *SflowListener {
	t.Helper()
	l := new(SflowListener)
	testnet.Must(t, ns.Do(func() (err error) {
		l.conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		return err
	}))
	t.Cleanup(func() { l.conn.Close() })
	var err error
	l.raw, err = l.conn.SyscallConn()
	testnet.Must(t, err)
	l.raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20) })
	testnet.Must(t, err)
	l.Address = l.conn.LocalAddr().String()
	return l
}

// Read decodes the datagrams so far.
func (l *SflowListener) Read(t *testing.T) (all []SflowDatagram) {
	t.Helper()
	testnet.WaitHandled(t) // all sent datagrams are then in the socket
	var err error
	l.raw.Control(func(fd uintptr) {
		for {
			b, n := make([]byte, 1500), 0
			if n, _, err = unix.Recvfrom(int(fd), b, unix.MSG_DONTWAIT); err != nil {
				return
			}
			l.datagrams = append(l.datagrams, b[:n])
		}
	})
	if !errors.Is(err, unix.EAGAIN) {
		t.Fatal(err)
	}
	for _, b := range l.datagrams {
		all = append(all, decodeSFlow(t, b))
	}
	return all
}

// Wait waits until this many samples of a kind have arrived, and returns them.
func (l *SflowListener) Wait(t *testing.T, kind uint32, n int) (samples []SflowSample) {
	t.Helper()
	testnet.WaitFor(t, "samples", func() bool {
		samples = SamplesOf(l.Read(t), kind)
		return len(samples) >= n
	})
	return samples
}

// The kinds of samples.
const FlowSample, CounterSample, DiscardedSample = 3, 4, 5

// SamplesOf returns the samples of a kind, in order.
func SamplesOf(all []SflowDatagram, kind uint32) (samples []SflowSample) {
	for _, d := range all {
		for _, s := range d.Samples {
			if s.Kind == kind {
				samples = append(samples, s)
			}
		}
	}
	return samples
}

// An SflowDatagram has the fields of a datagram that tests check. It is decoded by the
// specification, without the package that encodes it.
type SflowDatagram struct {
	Agent                      netip.Addr
	SubAgent, Sequence, Length uint32
	Samples                    []SflowSample
}

type SflowSample struct {
	Kind, Sequence, SourceType, SourceIndex uint32

	Rate, Pool, Drops, Input, OutputFormat, Output uint32 // of a flow; drops and input also of a discarded packet
	Reason                                         uint32 // of a discarded packet

	Header                []byte
	FrameLength, Stripped uint32
	Vlan, Priority        uint32 // 0 = no tag
	Texts                 string // of a discarded packet
	Counters              map[uint32]int
}

// An xdrReader decodes numbers of a datagram.
type xdrReader struct {
	t *testing.T
	b []byte
}

func (r *xdrReader) number() uint32 { return binary.BigEndian.Uint32(r.bytes(4)) }

func (r *xdrReader) bytes(n uint32) []byte {
	r.t.Helper()
	if int(n) > len(r.b) {
		r.t.Fatalf("a datagram ends %d bytes too early", int(n)-len(r.b))
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// part returns a part that begins with its length.
func (r *xdrReader) part() *xdrReader { return &xdrReader{r.t, r.bytes(r.number())} }

func decodeSFlow(t *testing.T, b []byte) (d SflowDatagram) {
	t.Helper()
	r := &xdrReader{t, b}
	if version, kind := r.number(), r.number(); version != 5 || kind != 1 {
		t.Fatalf("version %d, an agent address of type %d", version, kind)
	}
	d.Agent, _ = netip.AddrFromSlice(r.bytes(4))
	d.SubAgent, d.Sequence, d.Length = r.number(), r.number(), uint32(len(b))
	r.number() // uptime
	for n := r.number(); n > 0; n-- {
		kind := r.number()
		d.Samples = append(d.Samples, decodeSample(kind, r.part()))
	}
	if len(r.b) > 0 {
		t.Fatalf("%d bytes behind the last sample", len(r.b))
	}
	return d
}

func decodeSample(kind uint32, r *xdrReader) SflowSample {
	s := SflowSample{Kind: kind, Sequence: r.number(), SourceType: r.number(), SourceIndex: r.number()}
	switch kind {
	case FlowSample:
		s.Rate, s.Pool, s.Drops = r.number(), r.number(), r.number()
		r.number()
		s.Input, s.OutputFormat, s.Output = r.number(), r.number(), r.number()
	case DiscardedSample:
		s.Drops, s.Input, s.Output, s.Reason = r.number(), r.number(), r.number(), r.number()
	}
	s.Counters = make(map[uint32]int)
	for n := r.number(); n > 0; n-- {
		kind := r.number()
		record := r.part()
		switch {
		case s.Kind == CounterSample:
			s.Counters[kind] = len(record.b)
		case kind == 1:
			record.number()
			s.FrameLength, s.Stripped = record.number(), record.number()
			s.Header = record.bytes(record.number())
		case kind == 1001:
			s.Vlan, s.Priority = record.number(), record.number()
		case kind == 1038 || kind == 1042:
			s.Texts = strings.TrimSpace(s.Texts + " " + string(record.bytes(record.number())))
		default:
			r.t.Fatalf("a record of type %d", kind)
		}
	}
	return s
}

// Fields are the fields of a sample that a collector decodes.
func (s *SflowSample) Fields(agent string, subAgent uint32) string {
	text := fmt.Sprintf("%s,%d type %d sequence %d source %d:%d", agent, subAgent, s.Kind, s.Sequence, s.SourceType, s.SourceIndex)
	if s.Kind == CounterSample {
		return fmt.Sprintf("%s %d", text, s.Counters[1])
	}
	return fmt.Sprintf("%s rate %d drops %d input %d output %d %d reason %d length %d-%d VLAN %d %d %x",
		text, s.Rate, s.Drops, s.Input, s.OutputFormat, s.Output, s.Reason, s.FrameLength, s.Stripped, s.Vlan, s.Priority, s.Header)
}

// InterfaceIndex returns the index of the pair's receiving interface.
func InterfaceIndex(t *testing.T, pair *testnet.Pair) (index uint32) {
	t.Helper()
	testnet.Must(t, pair.Rx.Do(func() error {
		ifi, err := net.InterfaceByName(pair.RxName)
		if err == nil {
			index = uint32(ifi.Index)
		}
		return err
	}))
	return index
}

// CheckDiscards checks the notifications about the frames of SendRound.
func CheckDiscards(t *testing.T, discards []SflowSample, frames [][]byte, index uint32, program string) {
	t.Helper()
	for i, verdict := range []string{"XDP_DROP", "XDP_ABORTED"} {
		want := SflowSample{
			Kind: DiscardedSample, Sequence: uint32(i + 1), SourceIndex: index, Input: index, Reason: 367,
			Header: frames[i], FrameLength: uint32(len(frames[i]) + 4), Stripped: 4,
			Texts: strings.TrimSpace(program + " " + verdict), Counters: map[uint32]int{},
		}
		if diff := cmp.Diff(want, discards[i], cmp.AllowUnexported(SflowSample{})); diff != "" {
			t.Errorf("discarded packet %d (-want +got):\n%s", i, diff)
		}
	}
}

// CheckOutputs checks the output interfaces in the flow samples of a round.
func CheckOutputs(t *testing.T, flows []SflowSample, known bool, index uint32) {
	t.Helper()
	for i, want := range []string{"1 367", "1 367", fmt.Sprint(0, index), "0 0", "0 0", "0 0"} {
		if !known {
			want = "0 0"
		}
		if i < len(flows) && fmt.Sprint(flows[i].OutputFormat, flows[i].Output) != want {
			t.Errorf("flow sample %d goes to %d %d, want %s", i, flows[i].OutputFormat, flows[i].Output, want)
		}
	}
}
