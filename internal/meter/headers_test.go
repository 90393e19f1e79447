package meter

import (
	"fmt"
	"testing"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

func classOf(h testnet.Headers) Class {
	switch {
	case h.Truncated:
		return Truncated
	case h.IPVersion == 4:
		return IPv4(uint8(h.Protocol))
	case h.IPVersion == 6:
		return IPv6(uint8(h.Protocol))
	}
	return EtherType(uint16(h.Protocol))
}

// Class and flow of every packet equal what gopacket decodes, also for packets cut at any length,
// received or sent.
func TestProtocolsAgreeWithGopacket(t *testing.T) {
	t.Parallel()
	for _, sent := range []bool{false, true} {
		t.Run(fmt.Sprintf("sent=%v", sent), func(t *testing.T) {
			t.Parallel()
			checkAgainstGopacket(t, sent)
		})
	}
}

func checkAgainstGopacket(t *testing.T, sent bool) {
	b := newCountBench(t, ProtocolsOptions{Flows: true, Sent: sent, flowBuckets: 4096})
	want := newTruth(nil)
	table := testnet.HeaderTable()
	step := 1
	if testnet.Emulated() || testing.Short() {
		step = 14 // in each direction
	}
	for i, whole := range table {
		for n := 14; n <= len(whole.Frame); n += step {
			h := whole.Cut(n)
			if sent && !isRunnable(h.Frame) {
				continue
			}
			b.run(h.Frame, 1)
			p := protocolPacket{packet: h.Frame, class: classOf(h)}
			if h.IPVersion != 0 {
				p.flow = &Flow{p.class, h.Source, h.Destination}
			}
			want.add(p, 1)
		}
		if i%20 != 0 && i != len(table)-1 {
			continue // reading all counters takes longer than counting many packets
		}
		got := b.counts()
		want.checkClasses(t, "up to "+whole.Name, got)
		want.checkFlows(t, "up to "+whole.Name, got, NoVerdict)
	}
}
