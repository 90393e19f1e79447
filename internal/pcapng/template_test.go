package pcapng

import (
	"bytes"
	"slices"
	"testing"
)

// A template makes the same block as AppendPacket, whatever bytes it copies after the packet, and
// does not change the bytes before the block.
func TestTemplate(t *testing.T) {
	t.Parallel()
	mac := []byte{2, 0, 0, 0, 0, 1}
	beginnings := map[uint32][]byte{
		Inbound | Unicast:     {2, 0, 0, 0, 0, 1},
		Inbound | Promiscuous: {2, 0, 0, 0, 0, 2},
		Inbound | Multicast:   {1, 0, 0x5e, 0, 0, 1},
		Inbound | Broadcast:   {0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	}
	for _, fields := range []Fields{HasID, HasID | HasQueue, HasID | HasQueue | HasVerdict} {
		in := NewTemplate(7, fields&HasQueue != 0, fields&HasVerdict != 0, Inbound, mac)
		for n := range 140 {
			for flags, beginning := range beginnings {
				memory := bytes.Repeat([]byte{0xaa}, 256) // behind the packet, as in a ring
				data := memory[:n]
				copy(data, beginning)
				if n < 6 {
					flags = Inbound
				}
				p := &Packet{
					Interface: 7, Flags: flags, Fields: fields, Time: 0x0102030405060708, WireLen: 0xfffffff0, Data: data, ID: 0x1112131415161718,
					Queue: 0x21222324, Verdict: 0x31323334,
				}
				if fields&HasQueue == 0 {
					p.Queue, p.Verdict = 0, 0
				}
				want := AppendPacket([]byte("before"), p)
				for _, from := range [][]byte{data, slices.Clip(data)} {
					for _, room := range []int{0, 4096} {
						b := append(make([]byte, 0, 6+room), "before"...)
						if got := in.Append(b, from, p.Time, p.ID, p.WireLen, p.Queue, p.Verdict); !bytes.Equal(got, want) {
							t.Fatalf("%d bytes, fields %x, flags %x:\n%x, want\n%x", n, fields, flags, got, want)
						}
					}
				}
				p.Dropped = 9
				want = AppendPacket(nil, p)
				p.Interface, p.Flags = 0, 0
				if got := in.AppendPacket(nil, p); !bytes.Equal(got, want) {
					t.Fatalf("%d bytes, with a drop count:\n%x, want\n%x", n, got, want)
				}
			}
		}
	}
}

// A packet's flags depend on its destination. A packet sent to one station is unicast; without an
// address of the interface a received packet for one station has no such flag.
func TestTemplateFlags(t *testing.T) {
	t.Parallel()
	own, other, zero := []byte{2, 0, 0, 0, 0, 1}, []byte{2, 0, 0, 0, 0, 2}, make([]byte, 6) // lo has the address 0
	for _, test := range []struct {
		name      string
		direction uint32
		mac, to   []byte
		want      uint32
	}{
		{"own", Inbound, own, own, Inbound | Unicast},
		{"other", Inbound, own, other, Inbound | Promiscuous},
		{"group", Inbound, own, []byte{0x33, 0x33, 0, 0, 0, 1}, Inbound | Multicast},
		{"all", Inbound, own, bytes.Repeat([]byte{255}, 6), Inbound | Broadcast},
		{"cut", Inbound, own, own[:5], Inbound},
		{"no own address", Inbound, nil, other, Inbound},
		{"a short own address", Inbound, []byte{2, 0, 0}, other, Inbound},
		{"group, no own address", Inbound, nil, []byte{0x33, 0x33, 0, 0, 0, 1}, Inbound | Multicast},
		{"sent", Outbound, own, other, Outbound | Unicast},
		{"sent, no own address", Outbound, nil, other, Outbound | Unicast},
		{"zero, no own address", Inbound, nil, zero, Inbound},
		{"zero", Inbound, zero, zero, Inbound | Unicast},
		{"to another than zero", Inbound, zero, other, Inbound | Promiscuous},
	} {
		t.Run(test.name, func(t *testing.T) {
			to := slices.Clone(test.to)
			if len(to) == 6 {
				to = append(to, make([]byte, 58)...)
			}
			template := NewTemplate(0, true, false, test.direction, test.mac)
			block, err := ParseBlock(template.Append(make([]byte, 0, 4096), to, 1, 2, 64, 3, 0), false)
			if err != nil {
				t.Fatal(err)
			}
			var p Packet
			if err := ParsePacket(block, 0, &p); err != nil || p.Flags != test.want {
				t.Errorf("flags %x, want %x; %v", p.Flags, test.want, err)
			}
		})
	}
}
