package pcapng

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// blocksOf takes a file apart.
func blocksOf(t testing.TB, file []byte) (blocks []Block) {
	t.Helper()
	big := false
	for len(file) > 0 {
		n, order, err := BlockLength(file, big)
		if err != nil {
			t.Fatal(err)
		}
		big = order
		b, err := ParseBlock(file[:n], big)
		if err != nil {
			t.Fatal(err)
		}
		blocks, file = append(blocks, b), file[n:]
	}
	return blocks
}

// The decoder reads all fields that the encoder writes.
func TestDecode(t *testing.T) {
	t.Parallel()
	blocks := blocksOf(t, sampleFile())
	section := parseSection(blocks[0])
	if want := (Section{Hardware: "x86_64", OS: "Linux 6.12", Application: "xdpcap test", Comment: "grüße"}); section != want {
		t.Errorf("%+v", section)
	}
	i, clock := ParseInterface(blocks[1])
	if i.Name != "eth0@fentry" || i.LinkType != Ethernet || i.SnapLen != 96 || clock != NewClock(9, 0) {
		t.Errorf("%+v %+v", i, clock)
	}
	packets := make([]Packet, 4)
	for i := range packets {
		if err := ParsePacket(blocks[3+i], 0, &packets[i]); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(samplePackets(), packets); diff != "" {
		t.Error(diff)
	}
	s, known := ParseStatistics(blocks[8])
	wantStatistics := Statistics{
		Interface: 1, Time: sampleTime + 9e9, Start: sampleTime - 1e9, End: sampleTime + 8e9,
		Received: 11, Dropped: 8, Accepted: 10, OSDropped: 7, Delivered: 2,
	}
	if diff := cmp.Diff(wantStatistics, s); diff != "" || known != HasReceived|HasAccepted|HasDropped|HasOSDropped|HasDelivered {
		t.Errorf("%s %b", diff, known)
	}
	if c := blocks[8].Comments(); len(c) != 1 || c[0] != "end" {
		t.Errorf("comments %q", c)
	}
}

// bigEndian turns the numbers of a little-endian file around: turning is its own inverse.
func bigEndian(t testing.TB, file []byte) (big []byte) {
	for _, b := range blocksOf(t, file) {
		raw := bytes.Clone(b.Raw)
		swapper{raw}.block(b)
		big = append(big, raw...)
	}
	return big
}

// A big-endian file is read as a little-endian one is, and its copy is that one.
func TestBigEndian(t *testing.T) {
	t.Parallel()
	little := sampleFile()
	little = appendNames(little)
	file := bigEndian(t, little)
	if binary.BigEndian.Uint32(file[8:]) != byteOrderMagic {
		t.Fatalf("% x", file[:12])
	}
	var copied []byte
	for i, b := range blocksOf(t, file) {
		var ok bool
		if copied, ok = AppendCopy(copied, b); !ok {
			t.Errorf("block %d of type %d is not copied", i, b.Type)
		}
	}
	if diff := cmp.Diff(little, copied); diff != "" {
		t.Error(diff)
	}
	var p, want Packet
	for i := 3; i <= 6; i++ {
		ParsePacket(blocksOf(t, file)[i], 0, &p)
		ParsePacket(blocksOf(t, little)[i], 0, &want)
		if diff := cmp.Diff(want, p); diff != "" {
			t.Error(diff)
		}
	}
	unknown := Block{Type: 77, Big: true, Raw: make([]byte, 16)}
	if got, ok := AppendCopy(nil, unknown); ok || got != nil {
		t.Errorf("an unknown big-endian block is copied: % x", got)
	}
}

// appendNames appends a name resolution block with a record and an option.
func appendNames(b []byte) []byte {
	start := len(b)
	b = appendHeader(b, typeNames)
	b = le.AppendUint32(b, 1|6<<16) // IPv4, four bytes of address and "a\0"
	b = append(b, 192, 0, 2, 1, 'a', 0, 0, 0)
	b = le.AppendUint32(b, 0)
	options := len(b)
	b = appendString(b, 2, "resolver")
	return finish(b, start, options)
}

func TestClock(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		resolution byte
		offset     int64
		stamp      uint64
		want       int64
	}{
		{6, 0, 1700000000123456, 1700000000123456000},
		{9, 0, sampleTime, sampleTime},
		{0, 0, 1700000000, 1700000000e9},
		{3, -5, 10_001, 5_001_000_000},
		{12, 0, 1700000000123456, 1700000000123},
		{19, 0, 20_000_000_000, 2},
		{30, 0, math.MaxUint64, 0},
		{127, 0, math.MaxUint64, 0},
		{0x80 | 20, 0, 3 << 19, 1.5e9},
		{0x80 | 32, 1, 1 << 31, 1.5e9},
		{0x80 | 63, 0, 3 << 62, 1.5e9},
		{0x80 | 64, 0, 1 << 63, 0.5e9},
		{0xff, 0, math.MaxUint64, 0},
		{0, 0, math.MaxUint64, math.MaxInt64},
		{6, 0, math.MaxUint64, math.MaxInt64},
		{9, math.MaxInt64, 1, math.MaxInt64},
		{9, math.MinInt64, 1, math.MinInt64},
		{9, 9223372036, 1 << 62, math.MaxInt64},
		{9, -9223372036, 0, -9223372036e9},
	} {
		c := NewClock(test.resolution, test.offset)
		if got := c.Time(test.stamp); got != test.want {
			t.Errorf("resolution %#x, offset %d: stamp %d is %d ns, want %d", test.resolution, test.offset, test.stamp, got, test.want)
		}
	}
	for _, resolution := range []byte{6, 9, 12, 0x80 | 20, 0x80 | 32, 0x80 | 40, 30} {
		c, at := NewClock(resolution, 0), int64(1000000123456789)
		if resolution == 30 {
			at = 0
		}
		if again := c.Time(c.Stamp(at)); again > at || again < at-1000 {
			t.Errorf("resolution %#x: the stamp of %d is that of %d", resolution, at, again)
		}
	}
}

// A merged section has the comments of all sections, and the options in which the others differ.
func TestMergedSection(t *testing.T) {
	t.Parallel()
	one := blocksOf(t, AppendSection(nil, &Section{Hardware: "a", OS: "b", Application: "c", Comment: "first"}))[0]
	two := blocksOf(t, bigEndian(t, AppendSection(nil, &Section{Hardware: "x", OS: "b", Application: "c", Comment: "second"})))[0]
	merged := blocksOf(t, AppendMergedSection(nil, []string{"one", "two", "three"}, []Block{one, two, one}))[0]
	if diff := cmp.Diff([]string{"first", "two: c on b, x", "second", "first"}, merged.Comments()); diff != "" {
		t.Error(diff)
	}
	if s := parseSection(merged); s.Hardware != "a" || s.OS != "b" || s.Application != "c" || merged.Big {
		t.Errorf("%+v", s)
	}
}

// The fast path for options has the same results as the path for any options, even if options are
// truncated, repeated, or have unusual lengths.
func TestParseKnown(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		var b []byte
		for range random.IntN(6) {
			code, n := random.IntN(9), []int{0, 4, 5, 8, 9, 8, 4, 9, 3}[random.IntN(9)]
			b = le.AppendUint32(b, uint32(code)|uint32(n)<<16)
			for i := range (n + 3) &^ 3 {
				b = append(b, byte(i+random.IntN(4)*random.IntN(256)))
			}
		}
		b = b[:random.IntN(len(b)+1)&^3]
		var fast, slow Packet
		rest := fast.parseKnown(b)
		if len(rest) > 0 {
			fast.parseOptions(options{rest, false})
		}
		slow.parseOptions(options{b, false})
		if diff := cmp.Diff(slow, fast); diff != "" {
			t.Fatalf("% x: %s", b, diff)
		}
	}
}

// Statistics have the counters in Known, and all counters if Known is 0.
func TestKnownStatistics(t *testing.T) {
	t.Parallel()
	for _, known := range []Counters{HasReceived, HasDropped | HasDelivered, HasAccepted | HasOSDropped} {
		b, err := ParseBlock(AppendStatistics(nil, &Statistics{Received: 1, Accepted: 2, Dropped: 3, OSDropped: 4, Delivered: 5, Known: known}), false)
		if err != nil {
			t.Fatal(err)
		}
		if _, got := ParseStatistics(b); got != known {
			t.Errorf("the block has the counters %b, want %b", got, known)
		}
	}
}
