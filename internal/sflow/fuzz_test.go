package sflow

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// FuzzDatagram encodes two flow samples with any fields and data and the counters of an interface
// into a datagram, and decodes it with gopacket, which returns the same values.
func FuzzDatagram(f *testing.F) {
	f.Add([]byte{192, 0, 2, 1}, uint32(1), uint32(2), uint32(3), uint32(4), uint16(5), true, []byte("a packet of its own"))
	f.Add(make([]byte, 16), uint32(1<<31), uint32(1<<31), uint32(1<<31), uint32(1<<31), uint16(0xffff), false, []byte{})
	f.Add(make([]byte, 4), uint32(1), uint32(2), uint32(3), uint32(4), uint16(0xffff), true, []byte("every bit of a tag"))
	f.Fuzz(func(t *testing.T, address []byte, sequence, rate, index, length uint32, tag uint16, tagged bool, data []byte) {
		if len(data) > 1<<16 {
			t.Skip("no packet is as long")
		}
		agent, ok := netip.AddrFromSlice(address)
		if !ok {
			agent = netip.IPv4Unspecified()
		}
		if tag &^= 1 << 12; !tagged { // sFlow does not have this bit
			tag = 0
		}
		in := Flow{
			Sequence: sequence, Index: index, Sampling: Sampling{Rate: rate, Pool: sequence ^ rate, Drops: ^rate},
			Input: Interface{Value: index}, Output: Interface{Format: rate & 1, Value: ^index},
			Packet: Packet{Data: data, FrameLength: length, Stripped: 4, Tagged: tagged, Tag: tag},
		}
		b := appendHeader(nil, &Header{Agent: agent, SubAgent: index, Sequence: sequence, Uptime: length, Samples: 3})
		b = appendFlow(b, &in)
		b = appendCounters(b, sequence, &interfaceCounters)
		b = appendFlow(b, &in)

		var out layers.SFlowDatagram
		if err := out.DecodeFromBytes(b, gopacket.NilDecodeFeedback); err != nil {
			t.Fatalf("%v: %x", err, b)
		}
		if got, _ := netip.AddrFromSlice(out.AgentAddress); got.Unmap() != agent.Unmap() || out.SubAgentID != index ||
			out.SequenceNumber != sequence || out.AgentUptime != length || out.SampleCount != 3 {
			t.Errorf("the header became %+v", out)
		}
		if len(out.FlowSamples) != 2 || len(out.CounterSamples) != 1 {
			t.Fatalf("%d flow samples and %d counter samples", len(out.FlowSamples), len(out.CounterSamples))
		}
		for _, s := range out.FlowSamples {
			if diff := cmp.Diff(in, read(t, &s), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the flow sample (-want +got):\n%s", diff)
			}
		}
		c, ok := out.CounterSamples[0].Records[0].(layers.SFlowGenericInterfaceCounters)
		if w := &interfaceCounters; !ok || c.IfInOctets != w.In.Octets || c.IfOutOctets != w.Out.Octets ||
			c.IfOutErrors != w.Out.Errors || c.IfInUnknownProtos != w.UnknownIn || c.IfSpeed != w.Speed || c.IfPromiscuousMode != 1 {
			t.Errorf("the counters became %+v", out.CounterSamples[0].Records[0])
		}
	})
}

// read is a flow sample as gopacket has it.
func read(t *testing.T, s *layers.SFlowFlowSample) Flow {
	f := Flow{
		Sequence: s.SequenceNumber, Index: uint32(s.SourceIDIndex),
		Sampling: Sampling{Rate: s.SamplingRate, Pool: s.SamplePool, Drops: s.Dropped},
		Input:    Interface{Format: s.InputInterfaceFormat, Value: s.InputInterface},
		Output:   Interface{Format: s.OutputInterfaceFormat, Value: s.OutputInterface},
	}
	for _, r := range s.Records {
		switch r := r.(type) {
		case layers.SFlowRawPacketFlowRecord:
			f.Packet.FrameLength, f.Packet.Stripped = r.FrameLength, r.PayloadRemoved
			f.Packet.Data = r.Header.Data()[:r.HeaderLength] // without the padding
		case layers.SFlowExtendedSwitchFlowRecord:
			f.Packet.Tagged = true
			f.Packet.Tag = uint16(r.IncomingVLANPriority<<13 | r.IncomingVLAN)
			if r.OutgoingVLAN != r.IncomingVLAN || r.OutgoingVLANPriority != r.IncomingVLANPriority {
				t.Errorf("VLAN %d becomes %d", r.IncomingVLAN, r.OutgoingVLAN)
			}
		}
	}
	return f
}

// FuzzDiscard appends a notification with any names and data, and then counters: every length
// covers exactly its bytes.
func FuzzDiscard(f *testing.F) {
	f.Add("guard", "XDP_DROP", true, []byte("a packet"))
	f.Add("", "\xff\xfe", false, []byte{})
	f.Fuzz(func(t *testing.T, function, linux string, tagged bool, data []byte) {
		b := appendDiscard(nil, &Discard{Packet: Packet{Data: data, Tagged: tagged}, Function: function, Linux: linux})
		if len(b) > maxDiscard+len(data) {
			t.Errorf("%d bytes for %d of the packet", len(b), len(data))
		}
		b = appendCounters(b, 1, &InterfaceCounters{})
		for _, recordsAt := range []int{36, 20} { // of a notification, of counters
			end := 8 + int(be.Uint32(b[4:]))
			at := recordsAt + 4
			for range be.Uint32(b[recordsAt:]) {
				at += 8 + int(be.Uint32(b[at+4:]))
			}
			if at != end || end%4 != 0 {
				t.Fatalf("the records end after %d bytes, and the sample after %d", at, end)
			}
			b = b[end:]
		}
		if len(b) != 0 {
			t.Errorf("%d bytes more", len(b))
		}
	})
}
