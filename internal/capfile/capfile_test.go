package capfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// second is a time in ns, n seconds after the first.
func second(n int) uint64 { return 1700000000e9 + uint64(n)*1e9 + 123456000 }

// pcapngFile has a packet at each of these seconds, whose data is the file's name and its number.
func pcapngFile(name string, seconds ...int) []byte {
	b := pcapng.AppendSection(nil, &pcapng.Section{Application: "test"})
	b = pcapng.AppendInterface(b, &pcapng.Interface{Name: name, LinkType: 1})
	for i, s := range seconds {
		b = pcapng.AppendPacket(b, &pcapng.Packet{
			Time: second(s), WireLen: 100, Data: fmt.Appendf(nil, "%s%d", name, i), ID: uint64(i), Fields: pcapng.HasID,
		})
	}
	return pcapng.AppendStatistics(b, &pcapng.Statistics{Time: second(0), Received: 7})
}

// pcapFile is a classic file with the same packets.
func pcapFile(order binary.AppendByteOrder, magic uint32, name string, seconds ...int) []byte {
	b := order.AppendUint32(nil, magic)
	b = order.AppendUint16(b, 2)
	b = order.AppendUint16(b, 4)
	for _, n := range []uint32{0, 0, 65535, 1} {
		b = order.AppendUint32(b, n)
	}
	for i, s := range seconds {
		data := fmt.Appendf(nil, "%s%d", name, i)
		fraction := second(s) % 1e9
		if magic != magicNano {
			fraction /= 1000
		}
		for _, n := range []uint64{second(s) / 1e9, fraction, uint64(len(data)), 100} {
			b = order.AppendUint32(b, uint32(n))
		}
		if magic == magicModified {
			b = order.AppendUint64(b, 0)
		}
		b = append(b, data...)
	}
	return b
}

func packed(t *testing.T, data []byte, by string) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if by == "zstd" {
		var err error
		if w, err = zstd.NewWriter(&b); err != nil {
			t.Fatal(err)
		}
	}
	w.Write(data)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// read returns the blocks of a file: a word for each.
func read(t testing.TB, next func() (*Block, error)) (words []string, err error) {
	t.Helper()
	for {
		b, err := next()
		if err != nil {
			return words, err
		}
		switch b.Kind {
		case Packet:
			words = append(words, fmt.Sprintf("%s@%d", b.Packet.Data, (b.Time-int64(second(0)))/1e9))
			if b.Packet.WireLen != 100 || b.Time%1e9 != 123456000 {
				t.Errorf("%s: %d bytes at %d", b.Packet.Data, b.Packet.WireLen, b.Time)
			}
		case Described:
			words = append(words, "interface "+b.Interface.Name)
		case Statistics:
			words = append(words, fmt.Sprint("statistics ", b.Statistics.Received))
		case Section:
			words = append(words, "section")
		}
	}
}

func open(t testing.TB, name string, data []byte) *File {
	t.Helper()
	f, err := New(iotest{bytes.NewReader(data)}, name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// iotest gives a few bytes at a time, as a pipe may.
type iotest struct{ r io.Reader }

func (i iotest) Read(b []byte) (int, error) { return i.r.Read(b[:min(len(b), 7)]) }

// Every format has the same packets.
func TestFormats(t *testing.T) {
	t.Parallel()
	classic := []string{"interface ", "a0@0", "a1@1"}
	for name, file := range map[string][]byte{
		"little micro":    pcapFile(binary.LittleEndian, magicMicro, "a", 0, 1),
		"little nano":     pcapFile(binary.LittleEndian, magicNano, "a", 0, 1),
		"big micro":       pcapFile(binary.BigEndian, magicMicro, "a", 0, 1),
		"big nano":        pcapFile(binary.BigEndian, magicNano, "a", 0, 1),
		"DG/UX":           version543(pcapFile(binary.BigEndian, magicMicro, "a", 0, 1)),
		"Ixia":            withTotal(pcapFile(binary.LittleEndian, magicIxia, "a", 0, 1)),
		"Ixia card":       withTotal(pcapFile(binary.BigEndian, magicIxiaCard, "a", 0, 1)),
		"two gzip files":  append(packed(t, pcapFile(binary.LittleEndian, magicMicro, "a", 0, 1)[:50], "gzip"), packed(t, pcapFile(binary.LittleEndian, magicMicro, "a", 0, 1)[50:], "gzip")...),
		"modified":        pcapFile(binary.LittleEndian, magicModified, "a", 0, 1),
		"pcap in gzip":    packed(t, pcapFile(binary.LittleEndian, magicMicro, "a", 0, 1), "gzip"),
		"pcapng":          pcapngFile("a", 0, 1),
		"pcapng in gzip":  packed(t, pcapngFile("a", 0, 1), "gzip"),
		"pcapng in zstd":  packed(t, pcapngFile("a", 0, 1), "zstd"),
		"two zstd frames": append(packed(t, pcapngFile("a", 0, 1)[:100], "zstd"), packed(t, pcapngFile("a", 0, 1)[100:], "zstd")...),
	} {
		want := classic
		if strings.Contains(name, "pcapng") || strings.Contains(name, "frames") {
			want = []string{"section", "interface a", "a0@0", "a1@1", "statistics 7"}
		}
		words, err := read(t, open(t, "file", file).Next)
		if diff := cmp.Diff(want, words); diff != "" || err != io.EOF {
			t.Errorf("%s: %v %s", name, err, diff)
		}
		if err := Recognise(file, "file"); err != nil {
			t.Errorf("%s: not recognised: %v", name, err)
		}
	}
}

// Recognise returns New's error for a file that is no capture file, as far as four bytes determine
// that.
func TestRecognise(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "{", `{"time"`, "no capture file", "\x50\x2a\x4d", "\x1f\x8c\x08\x00", "\x0a\x0d\x0d\x0b"} {
		_, want := New(strings.NewReader(text), "file", Options{})
		got := Recognise([]byte(text), "file")
		if partial := len(text) > 0 && len(text) < 4; partial && got != nil || !partial && fmt.Sprint(got) != fmt.Sprint(want) || want == nil {
			t.Errorf("%q: %v, and New says %v", text, got, want)
		}
	}
}

// version543 makes a big-endian pcap file one of DG/UX's tcpdump, which has the lengths of a packet
// the other way round.
func version543(b []byte) []byte {
	binary.BigEndian.PutUint16(b[4:], 543)
	binary.BigEndian.PutUint16(b[6:], 0)
	for at := classicFileHeader; at < len(b); {
		kept, length := b[at+8:at+12], b[at+12:at+16]
		at += 16 + int(binary.BigEndian.Uint32(kept))
		both := append(bytes.Clone(length), kept...)
		copy(kept, both[:4])
		copy(length, both[4:])
	}
	return b
}

// withTotal adds the field that Ixia's header has in addition.
func withTotal(b []byte) []byte { return slices.Insert(b, classicFileHeader, 1, 2, 3, 4) }

// Bytes after the compressed data of a gzip file are not reported as a truncated member: all
// packets are returned, and the error shows the bytes.
func TestGzipGarbage(t *testing.T) {
	t.Parallel()
	file := packed(t, pcapngFile("a", 0, 1), "gzip")
	all, _ := read(t, open(t, "file", pcapngFile("a", 0, 1)).Next)
	for _, after := range []string{"x", "xy", "\x00", strings.Repeat("garbage", 100), "\x1e\x8b\x08"} {
		words, err := read(t, open(t, "file", append(bytes.Clone(file), after...)).Next)
		if diff := cmp.Diff(all, words); diff != "" || !errors.Is(err, errDamaged) || errors.Is(err, errCut) || !strings.Contains(err.Error(), "not gzip's") {
			t.Errorf("%.9q: %v %s", after, err, diff)
		}
	}
	for _, after := range []string{"\x1f", "\x1f\x8b", "\x1f\x8b\x08\x00"} { // of a further part
		if words, err := read(t, open(t, "file", append(bytes.Clone(file), after...)).Next); !errors.Is(err, errCut) || len(words) != len(all) {
			t.Errorf("%.9q: %v", after, err)
		}
	}
}

// A file that is cut anywhere is read to its last whole block. Only between blocks is that no
// error.
func TestCut(t *testing.T) {
	t.Parallel()
	for _, file := range [][]byte{pcapngFile("a", 0, 1, 2), pcapFile(binary.LittleEndian, magicNano, "a", 0, 1, 2)} {
		all, _ := read(t, open(t, "file", file).Next)
		whole := 0
		for n := range len(file) {
			f, err := New(bytes.NewReader(file[:n]), "file", Options{})
			var words []string
			if err == nil {
				words, err = read(t, f.Next)
			}
			switch {
			case n == 0 && !errors.Is(err, errUnknown), n > 0 && !errors.Is(err, errCut) && err != io.EOF:
				t.Errorf("cut to %d bytes: %v", n, err)
			case cmp.Diff(all[:len(words)], words) != "" && len(words) > 0:
				t.Errorf("cut to %d bytes: %q", n, words)
			}
			if err == io.EOF {
				whole++
			}
		}
		if whole < 3 || whole > 6 {
			t.Errorf("%d places between blocks", whole)
		}
	}
	// Compressed data can be truncated within any block.
	for _, by := range []string{"gzip", "zstd"} {
		data := packed(t, pcapngFile("a", 0, 1, 2), by)
		f, err := New(bytes.NewReader(data[:len(data)-5]), "file", Options{})
		if err == nil {
			_, err = read(t, f.Next)
		}
		if !errors.Is(err, errCut) {
			t.Errorf("%s: %v", by, err)
		}
	}
}

// A length that a file claims needs no memory if the file does not have these bytes. Runs alone,
// because memory is counted for the whole process.
func TestClaims(t *testing.T) {
	section := pcapng.AppendSection(nil, &pcapng.Section{})
	le := binary.LittleEndian
	long := le.AppendUint32(le.AppendUint32(bytes.Clone(section), 6), 0xfffffff0)
	most := le.AppendUint32(le.AppendUint32(bytes.Clone(section), 6), pcapng.MaxBlock)
	classic := pcapFile(le, magicMicro, "a")
	classic = append(classic, bytes.Repeat([]byte{0xff}, 100)...)
	for name, test := range map[string]struct {
		file []byte
		kind error
	}{
		"a long block":             {append(long, make([]byte, 1000)...), errDamaged},
		"the longest":              {append(most, make([]byte, 2*windowSize)...), errCut},
		"a long packet":            {classic, errDamaged},
		"no length":                {append(bytes.Clone(section), make([]byte, 64)...), errDamaged},
		"a packet of no interface": {pcapng.AppendPacket(bytes.Clone(section), &pcapng.Packet{Data: []byte("x")}), errDamaged},
		"many interfaces": {append(bytes.Clone(section), bytes.Repeat(pcapng.AppendInterface(nil, &pcapng.Interface{}), maxInterfaces+1)...),
			errDamaged},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := read(t, open(t, "file", test.file).Next)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, test.kind) {
			t.Errorf("%s: %v", name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; name != "many interfaces" && used > 16*windowSize {
			t.Errorf("%s: %d bytes were allocated", name, used)
		}
	}
	for _, no := range []string{"", "GET / HTTP/1.1", "\x7fELF"} {
		if _, err := New(strings.NewReader(no), "file", Options{}); !errors.Is(err, errUnknown) {
			t.Errorf("%q: %v", no, err)
		}
	}
}

// Packets are ordered by time, equal times by the order of the files, and the order within a file
// stays.
func TestMerge(t *testing.T) {
	t.Parallel()
	files := []*File{
		open(t, "a", pcapngFile("a", 1, 5, 2, 6)),
		open(t, "b", pcapFile(binary.BigEndian, magicMicro, "b", 1, 3, 9)),
		open(t, "c", pcapngFile("c", 4)),
		open(t, "d", pcapngFile("d")),
	}
	words, err := read(t, NewMerge(files).Next)
	want := []string{
		"section", "interface a", "interface ", "section", "interface c", "section", "interface d", "statistics 7",
		"a0@1", "b0@1", "b1@3", "c0@4", "statistics 7", "a1@5", "a2@2", "a3@6", "statistics 7", "b2@9",
	}
	if diff := cmp.Diff(want, words); diff != "" || err != io.EOF {
		t.Error(err, diff)
	}
}

// While a file is late the others are read, and a packet of it that comes later is where it comes.
// The names of a file's interfaces may have a prefix.
func TestMergeLate(t *testing.T) {
	t.Parallel()
	whole := pcapngFile("a", 1, 2)
	head := len(whole) - 100 // within the second packet
	in := &lateInput{parts: [][]byte{whole[:head], nil, nil, nil, nil, nil, whole[head:]}}
	late, err := New(in, "a", Options{BeforeRead: func() error { return nil }, Late: func() bool { return true }, Prefix: "host:"})
	if err != nil {
		t.Fatal(err)
	}
	words, err := read(t, NewMerge([]*File{late, open(t, "b", pcapngFile("b", 3, 9))}).Next)
	want := []string{"section", "interface host:a", "section", "interface b", "a0@1", "b0@3", "b1@9", "statistics 7", "a1@2", "statistics 7"}
	if diff := cmp.Diff(want, words); diff != "" || err != io.EOF {
		t.Error(err, diff)
	}
}

// A lateInput returns a part at each Read; an empty one is nothing yet.
type lateInput struct{ parts [][]byte }

func (l *lateInput) Read(b []byte) (n int, err error) {
	if len(l.parts) == 0 {
		return 0, io.EOF
	}
	n = copy(b, l.parts[0])
	l.parts = l.parts[1:]
	return n, nil
}

// One file that is damaged does not keep the others from being read.
func TestMergeDamaged(t *testing.T) {
	t.Parallel()
	a := pcapngFile("a", 1, 3, 5)
	files := []*File{open(t, "a", a[:len(a)-120]), open(t, "b", pcapngFile("b", 2, 4, 6))}
	words, err := read(t, NewMerge(files).Next)
	if !errors.Is(err, errCut) || !strings.Contains(err.Error(), "a is truncated after 2 packets") || words[len(words)-2] != "b2@6" {
		t.Errorf("%q, %v", words, err)
	}
}

// Merging allocates no memory per packet. Allocations are counted for the whole process, so this
// runs alone.
func TestMergeAllocates(t *testing.T) {
	seconds := make([]int, 500)
	var files []*File
	for i := range 5 {
		for k := range seconds {
			seconds[k] = rand.IntN(1000)
		}
		files = append(files, open(t, fmt.Sprint(i), pcapngFile("x", seconds...)))
	}
	m := NewMerge(files)
	for range 50 {
		m.Next()
	}
	if n := testing.AllocsPerRun(1000, func() { m.Next() }); n > 0.1 {
		t.Errorf("%v allocations per packet", n)
	}
}

// FuzzRead reads anything: it ends, with an error of a kind, and never panics.
func FuzzRead(f *testing.F) {
	f.Add(pcapngFile("a", 0, 1))
	f.Add(pcapFile(binary.BigEndian, magicMicro, "a", 0, 1))
	f.Add(pcapFile(binary.LittleEndian, magicModified, "a", 0))
	f.Add([]byte{0x28, 0xb5, 0x2f, 0xfd})
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := New(bytes.NewReader(data), "file", Options{})
		if err != nil {
			return
		}
		defer file.Close()
		m := NewMerge([]*File{file})
		for n := 0; ; n++ {
			b, err := m.Next()
			if err != nil {
				break
			}
			if b.Raw.Raw != nil {
				b.Raw.Comments()
				if copied, ok := pcapng.AppendCopy(nil, b.Raw); ok && b.Kind == Packet {
					pcapng.Renumber(copied, uint32(b.Interface.Number))
				}
			}
			if n > len(data) && file.decode == nil {
				t.Fatalf("%d blocks of %d bytes", n, len(data))
			}
		}
	})
}
