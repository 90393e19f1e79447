package main_test

import (
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// An sflowListener is a collector that keeps every datagram. They wait in its socket until read is
// called, so that it has all that was sent before.
type sflowListener struct {
	address   string // 127.0.0.1:PORT
	conn      *net.UDPConn
	raw       syscall.RawConn
	datagrams [][]byte
}

// listenSFlow is a collector on a namespace's loopback.
func listenSFlow(t *testing.T, ns *testnet.Namespace) *sflowListener {
	t.Helper()
	l := new(sflowListener)
	err := ns.Do(func() (err error) {
		l.conn, err = net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.conn.Close() })
	if l.raw, err = l.conn.SyscallConn(); err != nil {
		t.Fatal(err)
	}
	l.raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20) })
	if err != nil {
		t.Fatal(err)
	}
	l.address = l.conn.LocalAddr().String()
	return l
}

// read decodes the datagrams so far.
func (l *sflowListener) read(t *testing.T) (all []sflowDatagram) {
	t.Helper()
	testnet.WaitHandled(t) // what was sent has reached the socket then
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

// wait waits until so many samples of a kind have come, and returns them.
func (l *sflowListener) wait(t *testing.T, kind uint32, n int) (samples []sflowSample) {
	t.Helper()
	testnet.WaitFor(t, "samples", func() bool {
		samples = samplesOf(l.read(t), kind)
		return len(samples) >= n
	})
	return samples
}

// The kinds of samples.
const flowSample, counterSample, discardedSample = 3, 4, 5

// samplesOf are the samples of a kind, in their order.
func samplesOf(all []sflowDatagram, kind uint32) (samples []sflowSample) {
	for _, d := range all {
		for _, s := range d.samples {
			if s.kind == kind {
				samples = append(samples, s)
			}
		}
	}
	return samples
}

// An sflowDatagram has the fields of a datagram that tests check. It is decoded by the
// specification, without the package that has made it.
type sflowDatagram struct {
	agent                      netip.Addr
	subAgent, sequence, length uint32
	samples                    []sflowSample
}

type sflowSample struct {
	kind, sequence, sourceType, sourceIndex uint32

	rate, pool, drops, input, outputFormat, output uint32 // of a flow; drops and input also of a discarded packet
	reason                                         uint32 // of a discarded packet

	header                []byte
	frameLength, stripped uint32
	vlan, priority        uint32 // 0 = no tag
	texts                 string // of a discarded packet
	counters              map[uint32]int
}

// An xdrReader takes numbers off a datagram.
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

// part is what has its length before it.
func (r *xdrReader) part() *xdrReader { return &xdrReader{r.t, r.bytes(r.number())} }

func decodeSFlow(t *testing.T, b []byte) (d sflowDatagram) {
	t.Helper()
	r := &xdrReader{t, b}
	if version, kind := r.number(), r.number(); version != 5 || kind != 1 {
		t.Fatalf("version %d, an agent address of type %d", version, kind)
	}
	d.agent, _ = netip.AddrFromSlice(r.bytes(4))
	d.subAgent, d.sequence, d.length = r.number(), r.number(), uint32(len(b))
	r.number() // uptime
	for n := r.number(); n > 0; n-- {
		kind := r.number()
		d.samples = append(d.samples, decodeSample(kind, r.part()))
	}
	if len(r.b) > 0 {
		t.Fatalf("%d bytes behind the last sample", len(r.b))
	}
	return d
}

func decodeSample(kind uint32, r *xdrReader) sflowSample {
	s := sflowSample{kind: kind, sequence: r.number(), sourceType: r.number(), sourceIndex: r.number()}
	switch kind {
	case flowSample:
		s.rate, s.pool, s.drops = r.number(), r.number(), r.number()
		r.number()
		s.input, s.outputFormat, s.output = r.number(), r.number(), r.number()
	case discardedSample:
		s.drops, s.input, s.output, s.reason = r.number(), r.number(), r.number(), r.number()
	}
	s.counters = make(map[uint32]int)
	for n := r.number(); n > 0; n-- {
		kind := r.number()
		record := r.part()
		switch {
		case s.kind == counterSample:
			s.counters[kind] = len(record.b)
		case kind == 1:
			record.number()
			s.frameLength, s.stripped = record.number(), record.number()
			s.header = record.bytes(record.number())
		case kind == 1001:
			s.vlan, s.priority = record.number(), record.number()
		case kind == 1038 || kind == 1042:
			s.texts = strings.TrimSpace(s.texts + " " + string(record.bytes(record.number())))
		default:
			r.t.Fatalf("a record of type %d", kind)
		}
	}
	return s
}
