package pcapng

import (
	"bytes"
	"testing"
)

// A block with more losses before it equals the block of AppendPacket for the packet with these
// losses.
func TestAppendDropped(t *testing.T) {
	t.Parallel()
	for size := range 9 {
		for _, dropped := range []uint64{0, 3} {
			for _, fields := range []Fields{HasID, HasQueue, HasID | HasQueue | HasVerdict | HasHash} {
				p := Packet{Interface: 7, Data: make([]byte, size), Dropped: dropped, Fields: fields, Comments: []string{"comment"}}
				block := AppendPacket(nil, &p)
				if PacketInterface(block) != 7 || PacketSize(block) != size {
					t.Errorf("interface %d, %d bytes, want %d", PacketInterface(block), PacketSize(block), size)
				}
				got := AppendDropped([]byte("before"), block, 5)[len("before"):]
				b, err := ParseBlock(got, false)
				if err != nil {
					t.Fatal(err)
				}
				var back Packet
				if err := ParsePacket(b, 0, &back); err != nil || back.Dropped != dropped+5 || back.Fields != fields || !bytes.Equal(back.Data, p.Data) {
					t.Errorf("%d bytes, fields %b: %+v", size, fields, back)
				}
			}
		}
	}
}
