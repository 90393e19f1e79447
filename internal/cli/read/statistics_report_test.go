package read

import (
	"testing"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/headers"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// The account of a file is an equation if the file has all numbers. Otherwise it is a list of the
// known numbers, without the unknown ones.
func TestFileAccount(t *testing.T) {
	t.Parallel()
	n := func(n uint64) *uint64 { return &n }
	for want, said := range map[string]file.InterfaceStatistics{
		"9 seen = 2 filtered out + 3 not sampled + 1 lost + 3 captured": {Seen: n(9), Matched: n(7), Lost: n(1), Dropped: n(1), Captured: n(3)},
		"42 seen, 3 lost":         {Seen: n(42), Lost: n(3)},
		"42 seen, 2 filtered out": {Seen: n(42), Matched: n(40)},
		"":                        {Matched: n(5)},
	} {
		if got := newFileAccount([]file.InterfaceStatistics{said}).String(); got != want {
			t.Errorf("%+v: %q, want %q", said, got, want)
		}
	}
}

// What has no IP header has no flow.
func TestPacketFlow(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		packet []byte
		want   bool
	}{
		{testnet.UDPFrame(100, 0), true},
		{testnet.TxToRx().ARPRequest(), false},
		{nil, false},
	} {
		if flow, ok := meter.FlowOf(headers.Ethernet, test.packet); ok != test.want || ok && flow.Class != meter.IPv4(17) {
			t.Errorf("%x: flow %+v, %v", test.packet, flow, ok)
		}
	}
}
