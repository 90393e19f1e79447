// Package testfile has the files that tests read: capture files, which it makes, and the project's
// texts, which tests hold against the code.
package testfile

import (
	"encoding/binary"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// Numbered is a pcapng file with packets of several sizes. Each begins with its number, which is
// also its time: first, and then step more each. They come from these interfaces in turn, and each
// is described before its first packet.
func Numbered(packets int, first, step int, names ...string) []byte {
	b := pcapng.AppendSection(nil, &pcapng.Section{Application: "test"})
	for i := range packets {
		if i < len(names) { // each is described before its first packet
			b = pcapng.AppendInterface(b, &pcapng.Interface{Name: names[i], LinkType: pcapng.Ethernet, SnapLen: 128})
		}
		data := make([]byte, 60+i%1000)
		binary.LittleEndian.PutUint64(data, uint64(first+i*step))
		b = pcapng.AppendPacket(b, &pcapng.Packet{
			Interface: uint32(i % len(names)), Time: uint64(first + i*step), Data: data, WireLen: 2000, ID: uint64(i), Fields: pcapng.HasID,
			Verdict: uint32(packet.Drop), Flags: pcapng.Inbound,
		})
	}
	return pcapng.AppendStatistics(b, &pcapng.Statistics{Received: 7, Delivered: uint64(packets)})
}
