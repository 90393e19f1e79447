package headers

import (
	"encoding/binary"
	"net/netip"
	"testing"
)

// The hashes are published by the specification of the community ID for these flows, with the seed
// 0: baseline/baseline_deflt.json in github.com/corelight/community-id-spec.
func TestCommunityID(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		protocol            uint8
		source, destination string
		from, to            uint16
		want                string
	}{
		{58, "fe80::200:86ff:fe05:80da", "fe80::260:97ff:fe07:69ea", 135, 136, "1:dGHyGvjMfljg6Bppwm3bg0LO8TY="},
		{58, "fe80::260:97ff:fe07:69ea", "fe80::200:86ff:fe05:80da", 136, 135, "1:dGHyGvjMfljg6Bppwm3bg0LO8TY="},
		{58, "fe80::260:97ff:fe07:69ea", "fe80::200:86ff:fe05:80da", 135, 136, "1:zavyT/cezQr1fmImYCwYnMXbgck="},
		{58, "fe80::200:86ff:fe05:80da", "fe80::260:97ff:fe07:69ea", 136, 135, "1:zavyT/cezQr1fmImYCwYnMXbgck="},
		{58, "3ffe:501:1800:2345::2", "3ffe:507:0:1:200:86ff:fe05:80da", 3, 0, "1:2ObVBgIn28oZvibYZhZMBgh7WdQ="},
		{58, "3ffe:501:410:0:2c0:dfff:fe47:33e", "3ffe:507:0:1:200:86ff:fe05:80da", 1, 4, "1:hLZd0XGWojozrvxqE0dWB1iM6R0="},
		{58, "3ffe:507:0:1:200:86ff:fe05:80da", "3ffe:501:0:1001::2", 128, 129, "1:+TW+HtLHvV1xnGhV1lv7XoJrqQg="},
		{58, "3ffe:501:0:1001::2", "3ffe:507:0:1:200:86ff:fe05:80da", 129, 128, "1:+TW+HtLHvV1xnGhV1lv7XoJrqQg="},
		{58, "fe80::200:86ff:fe05:80da", "ff02::2", 133, 134, "1:hO+sN4H+MG5MY/8hIrXPqc4ZQz0="},
		{58, "fe80::260:97ff:fe07:69ea", "ff02::1", 134, 133, "1:pkvHqCL88/tg1k4cPigmZXUtL00="},
		{1, "192.168.0.89", "192.168.0.1", 8, 0, "1:X0snYXpgwiv9TZtqg64sgzUn6Dk="},
		{1, "192.168.0.1", "192.168.0.89", 0, 8, "1:X0snYXpgwiv9TZtqg64sgzUn6Dk="},
		{1, "10.0.0.1", "10.0.0.2", 11, 0, "1:YHxtAirCG//0OzkcVAukqKQN9xM="},
		{6, "2001:470:e5bf:dead:4957:2174:e82c:4887", "2607:f8b0:400c:c03::1a", 63943, 25, "1:/qFaeAR+gFe1KYjMzVDsMv+wgU4="},
		{6, "2607:f8b0:400c:c03::1a", "2001:470:e5bf:dead:4957:2174:e82c:4887", 25, 63943, "1:/qFaeAR+gFe1KYjMzVDsMv+wgU4="},
		{132, "192.168.170.8", "192.168.170.56", 7, 7, "1:MP2EtRCAUIZvTw6MxJHLV7N7JDs="},
		{132, "192.168.170.56", "192.168.170.8", 7, 7, "1:MP2EtRCAUIZvTw6MxJHLV7N7JDs="},
		{6, "128.232.110.120", "66.35.250.204", 34855, 80, "1:LQU9qZlK+B5F3KDmev6m5PMibrg="},
		{6, "66.35.250.204", "128.232.110.120", 80, 34855, "1:LQU9qZlK+B5F3KDmev6m5PMibrg="},
		{17, "192.168.1.52", "8.8.8.8", 54585, 53, "1:d/FP5EW3wiY1vCndhwleRRKHowQ="},
		{17, "8.8.8.8", "192.168.1.52", 53, 54585, "1:d/FP5EW3wiY1vCndhwleRRKHowQ="},
		{46, "10.1.12.1", "10.1.12.2", 0, 0, "1:KHlLkgoJW7ifUTyTSgyVfkFHzKw="},
		{46, "10.1.12.2", "10.1.12.1", 0, 0, "1:KHlLkgoJW7ifUTyTSgyVfkFHzKw="},
	} {
		h := Headers{Protocol: test.protocol, Family: 6, Source: netip.MustParseAddr(test.source), Destination: netip.MustParseAddr(test.destination)}
		if h.Source.Is4() {
			h.Family = 4
		}
		h.Rest = binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, test.from), test.to)
		if test.protocol == ICMP || test.protocol == ICMPv6 {
			// The ports of the list are the type, and the code or the type of the answer.
			h.Rest = []byte{byte(test.from), byte(test.to), 0, 0}
		}
		if got := string(h.AppendCommunityID(nil)); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
		h.Fragment = true
		if got := h.AppendCommunityID(nil); got != nil {
			t.Errorf("a fragment: %s", got)
		}
	}
}

// For any bytes, truncated anywhere, no byte behind them is read.
func FuzzParse(f *testing.F) {
	f.Add(make([]byte, 60))
	f.Fuzz(func(t *testing.T, frame []byte) {
		var h Headers
		Parse(Ethernet, frame, &h)
		h.Ports()
		h.TCPFlags()
		h.AppendCommunityID(nil)
	})
}
