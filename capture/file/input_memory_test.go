package file

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// madeBlocks is a file that is generated while it is read: a section, and then this many blocks.
type madeBlocks struct {
	next  int
	count int
	block func(number int) []byte
	rest  []byte
}

func (b *madeBlocks) Read(to []byte) (n int, err error) {
	if len(b.rest) == 0 {
		switch {
		case b.next == 0:
			b.rest = pcapng.AppendSection(nil, &pcapng.Section{})
		case b.next > b.count:
			return 0, io.EOF
		default:
			b.rest = b.block(b.next - 1)
		}
		b.next++
	}
	n = copy(to, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// An input's memory for each block of a file has an upper bound, even if the block has long texts:
// compressed, 64 KiB of text are 64 bytes of a file. Serial, because it measures the memory of the
// process.
func TestInputMemory(t *testing.T) {
	const perBlock, more = 2 << 10, 16 << 20 // bytes
	const count = 1024
	long := strings.Repeat("x", 65_000)
	plain := pcapng.AppendInterface(nil, &pcapng.Interface{Name: "x", LinkType: pcapng.Ethernet})
	packet := func(r pcapng.Remarks) []byte {
		return pcapng.AppendPacket(nil, &pcapng.Packet{WireLen: 60, Data: make([]byte, 60), Verdict: uint32(capture.Redirect), Fields: pcapng.HasVerdict, Remarks: r})
	}
	for _, test := range []struct {
		name  string
		block func(number int) []byte
	}{
		{"names", func(int) []byte {
			return pcapng.AppendInterface(nil, &pcapng.Interface{Name: long, LinkType: pcapng.Ethernet})
		}},
		{"descriptions", func(int) []byte {
			return pcapng.AppendInterface(nil, &pcapng.Interface{Name: "x", Description: "pod " + long[:300] + "/" + long[:100] + "; " + long[:64_000], LinkType: pcapng.Ethernet})
		}},
		{"sections", func(int) []byte { return pcapng.AppendSection(nil, &pcapng.Section{Comment: long, Hardware: long}) }},
		{"outlets", func(n int) []byte {
			if n == 0 {
				return plain
			}
			return packet(pcapng.Remarks{Outlet: fmt.Appendf(nil, "%d%s", n, long)})
		}},
		{"statistics", func(n int) []byte {
			if n < count/2 {
				return plain
			}
			return pcapng.AppendStatistics(nil, &pcapng.Statistics{Interface: uint32(n - count/2), Comments: []string{long}})
		}},
	} {
		before := heapInUse()
		in, err := NewInput([]InputFile{{Name: "file", In: &madeBlocks{count: count, block: test.block}}}, InputOptions{})
		must(t, err)
		for buf := make([]capture.Packet, groupSize); err == nil; {
			_, err = in.Read(buf, nil)
		}
		used := heapInUse() - before
		if err != io.EOF || used > count*perBlock+more {
			t.Errorf("%s: %v; of %d blocks it keeps %d bytes", test.name, err, count, used)
		}
		must(t, in.Close())
	}
}

// heapInUse returns how many bytes of Go's heap are in use.
func heapInUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
