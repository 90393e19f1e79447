package dissect

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// applicationPackets are packets of DHCP, NTP and HTTP.
func applicationPackets(t testing.TB) (packets []packet) {
	t.Helper()
	udp := func(name string, from, to layers.UDPPort, payload []byte) {
		h, i4 := layers.UDP{SrcPort: from, DstPort: to}, ip4(17)
		h.SetNetworkLayerForChecksum(i4)
		packets = append(packets, packet{name: name, data: frame(t, true, 0x0800, i4, &h, gopacket.Payload(payload))})
	}
	bootp := func(change func(b []byte), options ...byte) []byte {
		b := make([]byte, 240)
		copy(b, []byte{1, 1, 6, 0, 0, 0, 0x12, 0x34})
		copy(b[28:], macA)
		binary.BigEndian.PutUint32(b[236:], 0x63825363)
		if change != nil {
			change(b)
		}
		return append(b, options...)
	}
	ip := []byte{10, 0, 0, 5}
	option := func(kind byte, value ...byte) []byte { return append([]byte{kind, byte(len(value))}, value...) }
	offer := bytes.Join([][]byte{option(53, 2), option(54, ip...), option(51, 0, 1, 0x51, 0x80), option(58, 0, 0, 1, 0), option(59, 0, 0, 1, 1),
		option(1, 255, 255, 255, 0), option(28, ip...), option(3, append(ip, ip...)...), option(6, ip...), option(12, []byte("host")...),
		option(15, []byte("example.net")...), option(57, 5, 220), option(50, ip...), {255}}, nil)
	udp("discover", 68, 67, bootp(nil, 53, 1, 1, 55, 1, 3, 255))
	udp("offer", 67, 68, bootp(func(b []byte) { b[0] = 2; copy(b[16:], ip) }, offer...))
	for kind := range byte(20) {
		udp(fmt.Sprint("message ", kind), 67, 67, bootp(nil, 53, 1, kind, 255))
	}
	udp("all fields", 68, 67, bootp(func(b []byte) {
		copy(b[3:], []byte{2, 0, 0, 0, 9, 0, 5, 0x80, 0})
		copy(b[12:], bytes.Repeat(ip, 4))
		copy(b[44:], "server")
		copy(b[108:], "boot file")
	}, 255))
	udp("operation", 68, 67, bootp(func(b []byte) { b[0] = 3 }))
	udp("hardware", 68, 67, bootp(func(b []byte) { b[1] = 6 }))
	udp("address", 68, 67, bootp(func(b []byte) { b[2] = 5 }))
	udp("no cookie", 5, 68, bootp(func(b []byte) { b[237] = 0 }, 1, 2, 3))
	udp("other options", 5, 68, bootp(nil, 61, 1, 2, 53, 1, 1))
	for kind := range byte(255) {
		for _, size := range []int{0, 1, 2, 3, 4, 7, 8, 9} {
			value := option(kind, []byte{1, 2, 'a', 0, 5, 6, 7, 8, 9}[:size]...)
			udp(fmt.Sprintf("option %d of %d bytes", kind, size), 68, 67, bootp(nil, append(value, 53, 1, 10, 255)...))
		}
	}
	all := make([]byte, 250)
	for i := range all {
		all[i] = byte(i + 5)
	}
	for name, options := range map[string][]byte{
		"wanted": option(55, all[:125]...), "wanted, too": option(55, all[125:]...), "more wanted": option(55, 0, 1, 2, 3, 4, 255), "padding": {0, 0, 0, 53, 1, 1, 0, 57, 2, 1, 1, 255, 0, 0},
		"text client": option(61, 0, 'a', 0x80), "token ring": option(61, 6), "other hardware": option(61, 255, 1, 2),
		"name": option(81, 15, 1, 0, 'a'), "empty name": option(81, 0, 0, 0),
		"agent":        option(82, 1, 2, 'a', 'b', 2, 1, 'c', 5, 4, 10, 0, 0, 1, 6, 0, 9, 0, 151, 1, 9, 7),
		"long agent":   option(82, 1, 9, 3),
		"classes":      option(77, 1, 'a', 2, 'b', 'c'),
		"empty class":  option(77, 1, 'a', 0, 5),
		"long class":   option(77, 3, 'a'),
		"routes":       option(121, 24, 192, 168, 1, 10, 0, 0, 1, 0, 10, 0, 0, 2, 32, 1, 2, 3, 4, 5, 6, 7, 8),
		"other routes": append(option(249, 33, 1, 2, 3, 4, 5, 6), option(121, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9)...),
		"b-node":       append(option(46, 1), option(52, 3)...),
		"pairs":        append(option(33, make([]byte, 20)...), option(2, 255, 255, 255, 254)...),
		"long option":  {12, 5, 'a', 'b'}, "no length": {12}, "no options": {},
	} {
		udp("dhcp "+name, 68, 67, bootp(nil, options...))
	}
	udp("other vendor", 68, 67, bootp(func(b []byte) { copy(b[236:], []byte{1, 2, 3, 4}) }))
	udp("no vendor", 68, 67, bootp(func(b []byte) { copy(b[4:], make([]byte, 4)); copy(b[236:], make([]byte, 4)) }))
	udp("long sname", 68, 67, bootp(func(b []byte) { copy(b[44:], bytes.Repeat([]byte("s"), 64)) }))
	udp("long file", 68, 67, bootp(func(b []byte) { copy(b[108:], bytes.Repeat([]byte("f"), 128)) }))
	udp("short bootp", 68, 67, bootp(nil)[:100])
	udp("no bootp", 68, 67, []byte{1, 1, 6, 0, 0, 0, 0})
	udp("short bootp without address", 68, 67, []byte{0, 0, 0, 13, 20, 0, 0})

	ntp := func(first, stratum, poll byte) []byte {
		b := []byte{first, stratum, poll, 0xe8, 0, 1, 0x80, 0, 0xff, 2, 0, 9, 'L', 'O', 'C', 'L'}
		for _, word := range []uint32{1, 2, 3, 4, 5, 6, 0xe9000000, 0x80000000} {
			b = binary.BigEndian.AppendUint32(b, word)
		}
		return b
	}
	for first := range 256 {
		udp(fmt.Sprintf("ntp %#x", first), 123, 123, ntp(byte(first), byte(first), byte(first*7)))
	}
	udp("no times", 40000, 123, make([]byte, 48))
	for more := range 60 {
		after := make([]byte, more)
		for i := range after {
			after[i] = byte(i + 1)
		}
		udp(fmt.Sprintf("ntp and %d bytes", more), 123, 123, append(ntp(0x23, 2, 6), after...))
	}
	for _, from := range []byte{0, 1} {
		udp(fmt.Sprint("ntp from ", from), 123, 123, append(ntp(0x24, 2, 6)[:24], 0, 0, 0, from, 0, 0, 0, from, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0))
	}
	for first := range 256 {
		for _, count := range []byte{0, 6} {
			udp(fmt.Sprintf("ntp control %#x, %d", first, count), 123, 123, []byte{0x26, byte(first), 0, 5, byte(first), 0x15, 0, 7, 0, 2, 0, count, 'a', 'b', 'c', 'd', 'e', 'f'})
		}
	}
	udp("ntp control without data", 123, 123, []byte{0x26, 1, 0, 5, 0, 0, 0, 7, 0, 2, 0, 6})
	udp("ntp control with less data", 123, 123, []byte{0x26, 1, 0, 5, 0, 0, 0, 7, 0, 2, 0, 6, 1, 2})
	udp("short ntp control", 123, 123, []byte{0x26, 1, 0, 5, 0})
	udp("ntp control status", 123, 123, []byte{0x16, 1, 0, 5, 0, 0, 0, 7, 0, 2, 0, 0})
	udp("key", 123, 123, append(ntp(0x23, 2, 6), make([]byte, 20)...))
	udp("short ntp", 123, 123, ntp(0x23, 2, 6)[:20])
	udp("no ntp", 123, 123, nil)

	requests := []string{"GET /a?b HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\nServer: y\r\n\r\nbody", "body of something\r\nmore",
		"\x16\x03\x01\x02\x00", "GET", "GET / HTTP/1.1", "HTTP/1.1 404 Not Found\r\n", "PUT /\x01x HTTP/1.1\r\n", "HEAD / HTTP/1.1\n\n",
		"M-SEARCH * HTTP/1.1\r\n", "HTTP/1.1\r\n", "get / HTTP/1.1\r\n", "GET \r\n", "CONNECT a:443 HTTP/1.1\rX\r\n", " GET / HTTP/1.1\r\n", " 200 OK\r\n", "  200 OK\r\n", "\t200 OK\r\n", "200 OK\r\n", "x 200\r\n",
		"GET / HTTP/1.1\x00\r\n", "\r\nGET /\r\n", "G", "HTTP/", "TRACE /\r\n\tfold\r\n", "GET / HTTP/1.1\r", "HTTP/1.1 20x OK\r\n",
		"HTTP/1.1  200\r\n", "HTTP/1.1\t200\r\n", "GET\t/\r\n", "GET /\x80\r\n", strings.Repeat("x", 200) + " 200\r\n", strings.Repeat("x", 127) + " 200\r\n",
		strings.Repeat("x", 126) + " 200 \r\n", "PATCH / HTTP/1.1\r\n", "LINK /\r\n", "HTTP/1.1 200"}
	for _, method := range httpMethods {
		requests = append(requests, method+" / HTTP/1.1\r\n")
	}
	for _, request := range requests {
		for _, port := range []layers.TCPPort{80, 8080} {
			h, i4 := layers.TCP{SrcPort: 40000, DstPort: port, Seq: 1, Ack: 2, PSH: true, ACK: true, Window: 500}, ip4(6)
			h.SetNetworkLayerForChecksum(i4)
			packets = append(packets, packet{name: fmt.Sprintf("%q", request), data: frame(t, true, 0x0800, i4, &h, gopacket.Payload(request))})
		}
	}
	for _, port := range []layers.TCPPort{80, 8080, 81} { // HTTP, with any other port
		h, i4 := layers.TCP{SrcPort: 53, DstPort: port, Seq: 1, Ack: 2, PSH: true, ACK: true, Window: 500}, ip4(6)
		h.SetNetworkLayerForChecksum(i4)
		packets = append(packets, packet{name: fmt.Sprint("53 to ", port), data: frame(t, true, 0x0800, i4, &h, gopacket.Payload("GET / HTTP/1.1\r\n"))})
	}
	return packets
}

// With -v the lines of DHCP, NTP and HTTP are tcpdump's own.
func TestTcpdumpApplications(t *testing.T) {
	t.Parallel()
	packets := applicationPackets(t)
	for flag, o := range map[string]Options{"-v": {Verbose: 1}, "-vv": {Verbose: 2}, "-vvv": {Verbose: 3}} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			want, got := tcpdump(t, packets, 65535, flag), lines(packets, 65535, o)
			for i, p := range packets {
				if want[i] != got[i] {
					t.Errorf("%s\n-%s+%s", p.name, want[i], got[i])
				}
			}
		})
	}
}
