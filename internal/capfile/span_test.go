package capfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// The span of a file is read from its ends alone, if its end can be read alone.
func TestSpanOf(t *testing.T) {
	t.Parallel()
	plain := pcapngFile("a", 3, 9, 5)
	for _, test := range []struct {
		name        string
		file        []byte
		first, last int // seconds; 0 = the end cannot be read
	}{
		{"pcapng", plain, 3, 5},
		{"one packet", pcapngFile("a", 4), 4, 4},
		{"truncated", plain[:len(plain)-20], 3, 0},
		{"gzip", packed(t, plain, "gzip"), 3, 0},
		{"zstd", packed(t, plain, "zstd"), 3, 0},
		{"pcap", pcapFile(binary.LittleEndian, magicNano, "a", 3, 9), 3, 0},
		{"an interface in the middle", slices.Concat(pcapngFile("a", 3), laterInterface(9)), 3, 0},
	} {
		s, err := SpanOf(bytes.NewReader(test.file), int64(len(test.file)), test.name, new(Memory))
		if err != nil || uint64(s.First) != second(test.first) || s.HasLast != (test.last > 0) || s.HasLast && uint64(s.Last) != second(test.last) {
			t.Errorf("%s: %+v, %v, want from %d to %d", test.name, s, err, test.first, test.last)
		}
	}
	for _, file := range [][]byte{pcapngFile("a"), pcapFile(binary.BigEndian, magicMicro, "a")} {
		if _, err := SpanOf(bytes.NewReader(file), int64(len(file)), "empty", new(Memory)); !errors.Is(err, io.EOF) {
			t.Errorf("a file without packets: %v", err)
		}
	}
	if _, err := SpanOf(bytes.NewReader(nil), 0, "nothing", new(Memory)); err == nil {
		t.Error("an empty file has a span")
	}
}

// laterInterface describes a second interface, with a packet of it.
func laterInterface(at int) []byte {
	b := pcapng.AppendInterface(nil, &pcapng.Interface{Name: "b", LinkType: 1})
	return pcapng.AppendPacket(b, &pcapng.Packet{Interface: 1, Time: second(at), WireLen: 100, Data: []byte("b0")})
}

// However a file is damaged, its span is found or not, in bounded time.
func FuzzSpanOf(f *testing.F) {
	f.Add(pcapngFile("a", 3, 9))
	f.Add(pcapFile(binary.LittleEndian, magicMicro, "a", 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := SpanOf(bytes.NewReader(b), int64(len(b)), "f", new(Memory)); err == nil && s.HasLast && s.Last < s.First {
			t.Errorf("%+v", s)
		}
	})
}
