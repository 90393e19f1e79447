package file

import (
	"fmt"
	"io"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// BenchmarkInput reads packets of a program's exit, as the encoder writes them.
func BenchmarkInput(b *testing.B) {
	for _, size := range []int{64, 1500} {
		file := pcapng.AppendSection(nil, &pcapng.Section{})
		file = pcapng.AppendInterface(file, &pcapng.Interface{Name: "eth0", LinkType: pcapng.Ethernet})
		const packets = 10_000
		for i := range packets {
			file = pcapng.AppendPacket(file, &pcapng.Packet{
				Time: uint64(i), Data: make([]byte, size), WireLen: uint32(size), Flags: pcapng.Inbound, ID: uint64(i), Queue: 1, Verdict: 2,
				Fields: pcapng.HasID | pcapng.HasQueue | pcapng.HasVerdict,
			})
		}
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			buf := make([]capture.Packet, groupSize)
			for n := 0; n < b.N; {
				in := inputOf(b, InputOptions{Memory: 1 << 30}, file)
				for {
					got, err := in.Read(buf, nil)
					n += got
					if err == io.EOF || n >= b.N {
						break
					}
				}
			}
		})
	}
}
