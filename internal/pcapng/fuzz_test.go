package pcapng

import (
	"bytes"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/gopacket/gopacket/pcapgo"
)

// FuzzPacket writes a packet of any fields and data between two others, and reads it with gopacket,
// which returns the same fields and finds the packet after it.
func FuzzPacket(f *testing.F) {
	f.Add(uint64(sampleTime), uint64(1), uint64(2), uint32(3), uint32(4), uint32(5), uint32(6), uint8(7), []byte("hello"))
	f.Add(uint64(0), uint64(0), uint64(0), uint32(0), uint32(0), uint32(0), uint32(0), uint8(0), []byte{})
	f.Fuzz(func(t *testing.T, ns, dropped, id uint64, wire, queue, verdict, flags uint32, fields uint8, data []byte) {
		in := Packet{
			Time: ns, Dropped: dropped, ID: id, WireLen: wire, Queue: queue, Verdict: verdict, Flags: flags,
			Fields: Fields(fields), Data: data, Interface: uint32(fields >> 7),
		}
		file := AppendSection(nil, &Section{})
		file = AppendInterface(file, &Interface{LinkType: 1})
		file = AppendInterface(file, &Interface{LinkType: 1})
		marker := &Packet{Data: []byte("marker")}
		file = AppendPacket(file, marker)
		start := len(file)
		file = AppendPacket(file, &in)

		n := le.Uint32(file[start+4:])
		if n%4 != 0 || int(n) != len(file)-start || le.Uint32(file[len(file)-4:]) != n {
			t.Fatalf("lengths %d and %d in a block of %d bytes", n, le.Uint32(file[len(file)-4:]), len(file)-start)
		}

		file = AppendPacket(file, marker)
		r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.NgReaderOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := []Packet{*marker, readable(in), *marker}
		if diff := cmp.Diff(want, readAll(t, r), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("packets (-want +got):\n%s", diff)
		}
	})
}

// readable returns p as a reader sees it: without fields that are not written, and with only the
// bits of the flags that gopacket supports.
func readable(p Packet) Packet {
	p.Fields &= HasQueue | HasID | HasVerdict | HasHash
	if p.Fields&HasQueue == 0 {
		p.Queue = 0
	}
	if p.Fields&HasID == 0 {
		p.ID = 0
	}
	if p.Fields&HasVerdict == 0 {
		p.Verdict = 0
	}
	p.Flags &= knownFlags
	return p
}

const knownFlags = uint32(pcapgo.NgEpbFlagDirectionMask | pcapgo.NgEpbFlagReceptionTypeMask |
	pcapgo.NgEpbFlagFCSLengthMask | pcapgo.NgEpbFlagLinkLayerDependentErrorMask)

func readAll(t *testing.T, r *pcapgo.NgReader) []Packet {
	t.Helper()
	var packets []Packet
	for {
		data, ci, o, err := r.ReadPacketDataWithOptions()
		if err == io.EOF {
			return packets
		}
		if err != nil {
			t.Fatal(err)
		}
		p := Packet{
			Interface: uint32(ci.InterfaceIndex), Data: data, WireLen: uint32(ci.Length),
			Time: uint64(ci.Timestamp.Unix())*1e9 + uint64(ci.Timestamp.Nanosecond()),
		}
		if o.Flags != nil {
			p.Flags = o.Flags.ToUint32()
		}
		if o.DropCount != nil {
			p.Dropped = *o.DropCount
		}
		if o.PacketID != nil {
			p.ID, p.Fields = *o.PacketID, p.Fields|HasID
		}
		if o.Queue != nil {
			p.Queue, p.Fields = *o.Queue, p.Fields|HasQueue
		}
		if len(o.Hashes) == 1 && o.Hashes[0].Algorithm == 5 && len(o.Hashes[0].Hash) == 4 {
			p.Hash, p.Fields = le.Uint32(o.Hashes[0].Hash), p.Fields|HasHash
		}
		if len(o.Verdicts) == 1 && o.Verdicts[0].Type == pcapgo.NgEpbVerdictTypeLinuxeBPFXDP && len(o.Verdicts[0].Data) == 8 {
			v := le.Uint64(o.Verdicts[0].Data)
			if v>>32 != 0 {
				t.Errorf("verdict %#x", v)
			}
			p.Verdict, p.Fields = uint32(v), p.Fields|HasVerdict
		}
		packets = append(packets, p)
	}
}
