package capture

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// headersEnd is where the headers of a frame end, which may be after its own end, as
// Options.HeadersOnly describes it.
func headersEnd(frame []byte) int {
	const mostTags, mostExtensions, lastByte = 2, 6, 1024
	has := func(at, n int) bool { return at <= lastByte && at+n <= len(frame) }
	number := func(at int) uint16 { return binary.BigEndian.Uint16(frame[at:]) }
	if !has(12, 2) {
		return 14
	}
	at, etherType := 14, number(12)
	for range mostTags {
		if etherType != 0x8100 && etherType != 0x88a8 {
			break
		}
		if !has(at, 4) {
			return at + 4
		}
		etherType = number(at + 2)
		at += 4
	}
	var protocol uint8
	switch etherType {
	case 0x806, 0x8035:
		return at + 28
	case 0x800:
		if !has(at, 20) {
			return at + 20
		}
		protocol = frame[at+9]
		size := int(frame[at]&15) * 4
		if size < 20 {
			return at + 20
		}
		if number(at+6)&0x1fff != 0 {
			return at + size
		}
		at += size
	case 0x86dd:
		if !has(at, 40) {
			return at + 40
		}
		protocol = frame[at+6]
		at += 40
		for range mostExtensions {
			if !slices.Contains([]uint8{0, 43, 44, 51, 60, 135}, protocol) {
				break
			}
			if !has(at, 8) {
				return at + 8
			}
			e := frame[at:]
			switch protocol {
			case 44:
				if at += 8; binary.BigEndian.Uint16(e[2:])>>3 != 0 {
					return at
				}
			case 51:
				at += 4 * (int(e[1]) + 2)
			default:
				at += 8 * (int(e[1]) + 1)
			}
			protocol = e[0]
		}
	default:
		return at
	}
	return at + transportSize(protocol, at, frame, has)
}

// transportSize is how many bytes the header of a protocol has that begins at this byte of a frame.
func transportSize(protocol uint8, at int, frame []byte, has func(at, n int) bool) int {
	switch protocol {
	case 6:
		if has(at+12, 1) {
			return max(20, int(frame[at+12]>>4)*4)
		}
		return 20
	case 1, 2, 17, 50, 58, 136:
		return 8
	case 33, 132:
		return 12
	case 47:
		size := 4
		for _, flag := range []byte{0x80, 0x20, 0x10} {
			if has(at, 1) && frame[at]&flag != 0 {
				size += 4
			}
		}
		return size
	}
	return 0
}

// Frames of all kinds, and where each is cut.
var headersTable = []struct {
	name  string
	frame []byte
	end   int
}{
	{"UDP", testnet.TxToRx().UDP(1, 2, make([]byte, 200)), 42},
	{"UDP of IPv6", testnet.TxToRx().UDPv6(1, 2, make([]byte, 200)), 62},
	{"TCP", testnet.TxToRx().TCP(testnet.Segment{SrcPort: 1, DstPort: 2, Payload: make([]byte, 200)}), 54},
	{"TCP with options", tcpWithOptions(12), 66},
	{"TCP with most options", tcpWithOptions(40), 94},
	{"TCP with an impossible size", withByte(tcpWithOptions(0), 14+20+12, 0x40), 54},
	{"TCP of IPv6", testnet.TxToRx().TCPv6(testnet.Segment{SrcPort: 1, DstPort: 2, Payload: make([]byte, 200)}), 74},
	{"ICMP", testnet.TxToRx().ICMPEcho(false, 1), 42},
	{"ICMPv6", testnet.TxToRx().ICMPv6Echo(false, 1), 62},
	{"SCTP", withByte(testnet.TxToRx().UDP(1, 2, make([]byte, 200)), 23, 132), 46},
	{"GRE", withByte(testnet.TxToRx().UDP(1, 2, make([]byte, 200)), 23, 47), 38},
	{"GRE with a key", withByte(withByte(testnet.TxToRx().UDP(1, 2, make([]byte, 200)), 23, 47), 34, 0x20), 42},
	{"GRE with everything", withByte(withByte(testnet.TxToRx().UDP(1, 2, make([]byte, 200)), 23, 47), 34, 0xb0), 50},
	{"IP in IP", withByte(testnet.TxToRx().UDP(1, 2, make([]byte, 200)), 23, 4), 34},
	{"VXLAN", testnet.TxToRx().UDP(1, 4789, slices.Concat([]byte{8, 0, 0, 0, 0, 0, 7, 0}, testnet.TxToRx().UDP(1, 2, make([]byte, 100)))), 42},
	{"VLAN", testnet.VLAN(testnet.TxToRx().UDP(1, 2, make([]byte, 200)), 5), 46},
	{"QinQ", testnet.QinQ(testnet.TxToRx().UDP(1, 2, make([]byte, 200)), 5, 6), 50},
	{"three tags", testnet.VLAN(testnet.QinQ(testnet.TxToRx().UDP(1, 2, make([]byte, 200)), 5, 6), 7), 22},
	{"first fragment", withByte(testnet.TxToRx().UDP(1, 2, make([]byte, 200)), 20, 0x20), 42},
	{"later fragment", withByte(testnet.TxToRx().UDP(1, 2, make([]byte, 200)), 21, 9), 34},
	{"IPv4 with an impossible size", withByte(testnet.TxToRx().UDP(1, 2, make([]byte, 200)), 14, 0x44), 34},
	{"fragment header and UDP", withExtension(44, 17, 0, 0, 1), 14 + 40 + 8 + 8},
	{"later fragment of IPv6", withExtension(44, 17, 0, 1, 1), 14 + 40 + 8},
	{"authentication", withExtension(51, 17, 4), 14 + 40 + 24 + 8},
	{"routing", withExtension(43, 6, 2), 14 + 40 + 24 + 20},
	{"no next header", withExtension(60, 59, 0), 14 + 40 + 8},
	{"ARP", append(testnet.TxToRx().ARPRequest(), make([]byte, 100)...), 42},
	{"unknown EtherType", ethernet(0x88b5, make([]byte, 100)...), 14},
	{"LLC", ethernet(100, make([]byte, 100)...), 14},
	{"MPLS", ethernet(0x8847, make([]byte, 100)...), 14},
	{"truncated TCP", tcpWithOptions(20)[:70], 70},
	{"truncated before TCP's size", tcpWithOptions(20)[:44], 44},
	{"truncated IPv4", testnet.TxToRx().UDP(1, 2, nil)[:30], 30},
	{"truncated tag", testnet.VLAN(testnet.TxToRx().UDP(1, 2, nil), 5)[:16], 16},
	{"several buffers", testnet.TxToRx().UDP(1, 2, bytes.Repeat([]byte{7}, 8900)), 42},
	{"nothing but Ethernet", testnet.TxToRx().UDP(1, 2, nil)[:14], 14},
}

// withByte changes one byte of a frame.
func withByte(frame []byte, at int, to byte) []byte {
	frame = slices.Clone(frame)
	frame[at] = to
	return frame
}

func tcpWithOptions(size int) []byte {
	frame := testnet.TxToRx().TCP(testnet.Segment{SrcPort: 1, DstPort: 2, Payload: slices.Repeat([]byte{1}, 200)})
	frame[14+20+12] = byte(5+size/4) << 4
	return frame
}

// withExtension has one extension header of IPv6, of which the bytes after the first are given.
func withExtension(kind, next byte, rest ...byte) []byte {
	frame := testnet.TxToRx().UDPv6(1, 2, make([]byte, 200))
	frame[20] = kind
	size := 8 * (int(rest[0]) + 1)
	if kind == 51 {
		size = 4 * (int(rest[0]) + 2)
	}
	extension := make([]byte, size)
	extension[0] = next
	copy(extension[1:], rest)
	return slices.Concat(frame[:54], extension, frame[54:])
}

// A record ends where the headers of the packet end, or Payload bytes after it. Its length on the
// wire is that of the packet.
func TestProgramHeaders(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, transport Transport) {
		for i, o := range []Options{
			{HeadersOnly: true},
			{HeadersOnly: true, Direction: Out},
			{HeadersOnly: true, Payload: 64},
			{HeadersOnly: true, Payload: 64, Direction: Out},
			{HeadersOnly: true, Payload: 8000},
			{HeadersOnly: true, Payload: 1 << 40},
			{HeadersOnly: true, Payload: 3, SnapLen: 50},
			{HeadersOnly: true, SampleFlows: 1, First: 1000, Filter: "greater 1"},
		} {
			if !testnet.Shared(i + int(transport)) {
				continue
			}
			o.Transport = transport
			t.Run(fmt.Sprintf("%d bytes of payload, %v, snaplen %d", o.Payload, o.Direction, o.SnapLen), func(t *testing.T) {
				t.Parallel()
				h := newHeadersTest(t, o)
				for _, test := range headersTable {
					h.check(test.name, test.frame, test.end)
				}
				h.account()
			})
		}
	})
}

// A headersTest gives frames to a program that cuts them.
type headersTest struct {
	*programTest
	options Options
	runs    uint64
}

func newHeadersTest(t *testing.T, o Options) *headersTest {
	t.Helper()
	return &headersTest{programTest: newProgramTest(t, o), options: o}
}

// check expects a record that ends after `end` bytes and the payload. At egress, BPF_PROG_RUN
// takes no frames of several buffers, and only those in which the header after Ethernet's is whole.
func (h *headersTest) check(name string, frame []byte, end int) {
	h.t.Helper()
	if h.options.Direction == Out && (len(frame) > maxSent || len(frame) < max(15, headersEnd(frame[:14]))) {
		return
	}
	want := min(len(frame), end+min(h.options.Payload, MaxSnapLen))
	if h.options.SnapLen > 0 {
		want = min(want, h.options.SnapLen)
	}
	h.run(1, frame, 1)
	h.runs++
	facts, packets := h.samples()
	if len(packets) != 1 {
		h.t.Fatalf("%s: %d records", name, len(packets))
	}
	if int(facts[0].WireLen) != len(frame) {
		h.t.Errorf("%s: %d bytes on the wire, want %d", name, facts[0].WireLen, len(frame))
	}
	if !bytes.Equal(packets[0], frame[:want]) {
		h.t.Errorf("%s: %d bytes, want %d of %x", name, len(packets[0]), want, frame)
	}
}

// account expects that every frame was sent.
func (h *headersTest) account() {
	h.t.Helper()
	if a := h.accounts()[1]; a.Seen != h.runs || a.Sent != h.runs {
		h.t.Errorf("%d frames, %+v", h.runs, a)
	}
}

// Without HeadersOnly the verifier removes the search for headers: the program then calls no other
// function, and with HeadersOnly the two that find where headers end.
func TestHeadersCostNothing(t *testing.T) {
	t.Parallel()
	eachTransport(t, func(t *testing.T, transport Transport) {
		for _, d := range []Direction{In, Out} {
			for want, o := range map[int]Options{0: {}, 2: {HeadersOnly: true}} {
				o.Transport, o.Direction = transport, d
				calls := 0
				for _, i := range newProgramTest(t, o).instructions(0) {
					if i.IsFunctionCall() {
						calls++
					}
				}
				if calls != want {
					t.Errorf("%v, HeadersOnly %v: %d calls of functions, want %d", d, o.HeadersOnly, calls, want)
				}
			}
		}
	})
}

// Whatever is in a packet, it is cut where the reference cuts it, and never after its end.
func TestProgramHeadersOfAnything(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	frames := 4000
	if testnet.Emulated() {
		frames = 300
	}
	for i, o := range []Options{{HeadersOnly: true}, {HeadersOnly: true, Direction: Out, Transport: TransportRing}} {
		if !testnet.Shared(i) {
			continue
		}
		h := newHeadersTest(t, o)
		for range frames {
			frame := randomFrame(random)
			h.check("random", frame, headersEnd(frame))
		}
		h.account()
	}
}

// randomFrame makes a frame of headers that are likely to be understood, some of them truncated or
// with nonsense in them.
func randomFrame(random *rand.Rand) []byte {
	pick := func(of ...int) int { return of[random.IntN(len(of))] }
	noise := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		return b
	}
	frame := noise(12)
	for range pick(0, 0, 0, 1, 1, 2, 3) {
		frame = append(append(frame, [][]byte{{0x81, 0}, {0x88, 0xa8}}[random.IntN(2)]...), noise(2)...)
	}
	protocols := []int{0, 1, 2, 4, 6, 6, 6, 17, 17, 33, 41, 43, 44, 47, 47, 50, 51, 58, 59, 60, 89, 132, 135, 136, 255}
	switch pick(4, 4, 4, 6, 6, 6, 1, 0) {
	case 4:
		ip := noise(20)
		ip[0], ip[9] = byte(0x40|pick(5, 5, 5, 5, 6, 15, random.IntN(16))), byte(pick(protocols...))
		binary.BigEndian.PutUint16(ip[6:], uint16(pick(0, 0, 0x4000, 0x2000, 0x2001, 0x1fff)))
		frame = append(append(append(frame, 8, 0), ip...), noise(max(0, int(ip[0]&15)*4-20))...)
	case 6:
		ip := noise(40)
		ip[0] = 0x60
		frame = append(append(frame, 0x86, 0xdd), ip...)
		next := len(frame) - 34
		for range pick(0, 0, 1, 2, 3, 6, 7) {
			kind := pick(0, 43, 44, 51, 60, 135)
			frame[next] = byte(kind)
			next = len(frame)
			length := pick(0, 0, 1, 2, 5, random.IntN(256))
			size := 8 * (length + 1)
			switch kind {
			case 44:
				size = 8
			case 51:
				size = 4 * (length + 2)
			}
			extension := noise(size)
			extension[1] = byte(length)
			if kind == 44 {
				binary.BigEndian.PutUint16(extension[2:], uint16(pick(0, 0, 0, 1, 1, 8, 0xfff8)))
			}
			frame = append(frame, extension...)
		}
		frame[next] = byte(pick(protocols...))
	case 1:
		frame = append(frame, 8, 6)
	default:
		frame = append(frame, noise(2)...)
	}
	frame = append(frame, noise(random.IntN(120))...)
	if random.IntN(4) == 0 {
		frame = frame[:14+random.IntN(max(1, len(frame)-14))]
	}
	return frame[:min(max(len(frame), 14), maxSent)]
}
