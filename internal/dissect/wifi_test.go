package dissect

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/headers"
)

// The line of an 802.11 frame has its kind, its addresses and its length, or the packet in a data
// frame that is not encrypted.
func TestWiFi(t *testing.T) {
	t.Parallel()
	ap := []byte{2, 0, 0, 0, 0, 9}
	ip := append([]byte{0xaa, 0xaa, 3, 0, 0, 0, 8, 0}, frame(t, true, 0x0800, ip4(17), badUDP(5))[14:47]...)
	head := func(control, flags byte, addresses ...[]byte) []byte {
		return append(append([]byte{control, flags, 0, 0}, slices.Concat(addresses...)...), 0, 0)
	}
	radiotap := []byte{0, 0, 8, 0, 0, 0, 0, 0}
	for _, test := range []struct {
		name string
		data []byte
		want string
	}{
		{"beacon", append(head(0x80, 0, macB, macA, ap), 1, 2, 3), "802.11 Beacon, 02:00:00:00:00:01 > 02:00:00:00:00:02, length 27"},
		{"subtype without a name", head(0x70, 0, macB, macA, ap), "802.11 Management, 02:00:00:00:00:01 > 02:00:00:00:00:02, length 24"},
		{"acknowledgment", []byte{0xd4, 0, 0, 0, 2, 0, 0, 0, 0, 2}, "802.11 Acknowledgment, > 02:00:00:00:00:02, length 10"},
		{"request to send", append([]byte{0xb4, 0, 0, 0}, slices.Concat([]byte(macB), macA)...), "802.11 Request-To-Send, 02:00:00:00:00:01 > 02:00:00:00:00:02, length 16"},
		{"to the access point", append(head(0x08, 1, ap, macA, macB), ip...), "IP 10.0.0.1.40000 > 10.0.0.2.50001: UDP, length 5"},
		{"from it, with quality of service", append(append(head(0x88, 2, macB, ap, macA), 0, 0), ip...), "IP 10.0.0.1.40000 > 10.0.0.2.50001: UDP, length 5"},
		{"between access points", append(append(head(0x08, 3, ap, ap, macB), macA...), ip...), "IP 10.0.0.1.40000 > 10.0.0.2.50001: UDP, length 5"},
		{"encrypted", append(head(0x08, 0x41, ap, macA, macB), ip...), "802.11 Data, encrypted, 02:00:00:00:00:01 > 02:00:00:00:00:02, length 65"},
		{"no data", head(0x48, 1, ap, macA, macB), "802.11 Data, 02:00:00:00:00:01 > 02:00:00:00:00:02, length 24"},
		{"cut", []byte{0x80, 0, 0, 0, 2}, " [|802.11]"},
		{"several in one", append(append(head(0x88, 2, macB, ap, macA), 0x80, 0), ip...), "802.11 Data, 02:00:00:00:00:01 > 02:00:00:00:00:02, length 67"},
	} {
		for typ, before := range map[headers.Link][]byte{headers.WiFi: nil, headers.Radiotap: radiotap} {
			data := append(slices.Clone(before), test.data...)
			got := string(New(Options{Time: NoTime}).AppendLine(nil, Packet{Data: data, WireLen: len(data), Link: typ}))
			want := test.want + "\n"
			if begin, _, ok := strings.Cut(want, ", length "); ok && typ == headers.Radiotap && strings.HasPrefix(want, "802.11") {
				want, got = begin, got[:strings.LastIndex(got, ", length ")] // which has radiotap's bytes, too
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s, link type %d: (-want +got) %s", test.name, linkNumber(typ), diff)
			}
			for n := range data { // no cut of it is read beyond its end
				New(Options{Verbose: 1, LinkLevel: true}).AppendLine(nil, Packet{Data: data[:n:n], WireLen: len(data), Link: typ})
			}
		}
	}
}

// A flag of Radiotap means that the header of the frame is padded. The flags may come after further
// words of the present mask, and after a time.
func TestRadiotapPadding(t *testing.T) {
	t.Parallel()
	ip := append([]byte{0xaa, 0xaa, 3, 0, 0, 0, 8, 0}, frame(t, true, 0x0800, ip4(17), badUDP(5))[14:47]...)
	data := append([]byte{0x88, 2, 0, 0}, slices.Concat([]byte(macB), macA, macA, []byte{0, 0, 0, 0, 9, 9}, ip)...)
	for name, header := range map[string][]byte{
		"flags":       {0, 0, 9, 0, 2, 0, 0, 0, 0x20},
		"time before": {0, 0, 17, 0, 3, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0x20},
		"more words":  {0, 0, 25, 0, 3, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0x20},
	} {
		packet := append(header, data...)
		line := string(New(Options{Time: NoTime}).AppendLine(nil, Packet{Data: packet, WireLen: len(packet), Link: headers.Radiotap}))
		if line != "IP 10.0.0.1.40000 > 10.0.0.2.50001: UDP, length 5\n" {
			t.Errorf("%s: %s", name, line)
		}
		for n := range packet {
			headers.Radiotap.Frame(packet[:n:n])
		}
	}
}
