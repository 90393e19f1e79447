package file

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/lines"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// must ends the test if there is an error.
var must = testnet.Must

func describeTwo() capture.Description {
	return capture.Description{
		Sources: []capture.Source{{Name: "a"}, {Name: "b"}},
		Options: capture.Options{SnapLen: capture.MaxSnapLen, Sample: 1, Buffer: capture.DefaultBuffer},
	}
}

func packetOf(n int, seed byte) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i)
	}
	return b
}

func testWriter(out io.Writer, o Options) *Writer {
	w := NewWriter(out, o)
	w.Begin(describeTwo()) // writes nothing yet
	return w
}

// A limited output accepts this many bytes and then has no room.
type limited struct {
	bytes.Buffer
	room int
}

var errNoRoom = errors.New("no room")

func (l *limited) Write(b []byte) (int, error) {
	n := min(len(b), l.room-l.Len())
	l.Buffer.Write(b[:n])
	if n < len(b) {
		return n, errNoRoom
	}
	return n, nil
}

// mustSeries opens a series of pcapng files.
func mustSeries(t *testing.T, r Rotation) *File {
	t.Helper()
	f, err := OpenSeries(r, Options{})
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

// mustWrite hands packets to the goroutine that writes.
func mustWrite(t *testing.T, f *File, packets ...*capture.Packet) {
	t.Helper()
	for _, p := range packets {
		must(t, f.Write([]capture.Packet{*p}))
	}
	must(t, f.Flush())
}

// mustRead reads a pcapng file to its end, and returns the number of packets of each interface.
func mustRead(t *testing.T, name string, file []byte) (r *pcapgo.NgReader, packets map[int]uint64) {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	packets = make(map[int]uint64)
	for err == nil {
		var ci gopacket.CaptureInfo
		if _, ci, err = r.ReadPacketData(); err == nil {
			packets[ci.InterfaceIndex]++
		}
	}
	if err != io.EOF {
		t.Fatalf("%s: after %v packets: %v", name, packets, err)
	}
	return r, packets
}

// packetFrom is a packet of a source.
func packetFrom(source uint16, size int) *capture.Packet {
	return &capture.Packet{Source: source, Facts: &capture.Facts{WireLen: uint32(size)}, Data: packetOf(size, 0)}
}

func testPacket(i int) *capture.Packet {
	data := packetOf(60+i%40, byte(i))
	return &capture.Packet{Source: uint16(i % 2), Facts: &capture.Facts{WireLen: uint32(len(data)), Time: int64(i)}, Data: data}
}

// The account has exactly the number of whole packets in the output, at any length of the output.
func TestWriterAccount(t *testing.T) {
	t.Parallel()
	for _, format := range []Format{PCAPNG, PCAP, JSON} {
		var all bytes.Buffer
		w := testWriter(&all, Options{Format: format})
		for i := range 50 {
			must(t, w.Write([]capture.Packet{*testPacket(i)}))
		}
		w.End(make(capture.Accounts, 2))
		step := 7
		if testnet.Emulated() || testing.Short() {
			step = 71
		}
		for room := 0; room <= all.Len(); room += step {
			out := &limited{room: room}
			w := testWriter(out, Options{Format: format, Immediate: room%2 == 0})
			var read [2]capture.Account
			var err error
			for i := 0; i < 50 && err == nil; i++ {
				p := testPacket(i)
				err = w.Write([]capture.Packet{*p})
				read[p.Source].Captured++
				read[p.Source].Seen++
			}
			accounts, err := w.End(read[:])
			if !errors.Is(err, errNoRoom) && room < all.Len() {
				t.Fatalf("room for %d of %d bytes: %v", room, all.Len(), err)
			}
			got := accounts.Total()
			if want := countPackets(format, out.Bytes()); got.Captured != want || got.Seen != got.Lost+got.Captured {
				t.Errorf("format %d, room for %d: %d packets are whole, the account is %+v", format, room, want, got)
			}
		}
	}
}

func countPackets(format Format, file []byte) (n uint64) {
	forPackets(format, file, func(int64) { n++ })
	return n
}

// forPackets calls do with the time of each packet, in nanoseconds, up to the end of the file or
// the first error.
func forPackets(format Format, file []byte, do func(ns int64)) error {
	var r interface {
		ZeroCopyReadPacketData() ([]byte, gopacket.CaptureInfo, error)
	}
	var err error
	if format == JSON {
		for line := range bytes.Lines(file) {
			if line[len(line)-1] == '\n' {
				var keys struct{ Time time.Time }
				if err := json.Unmarshal(line, &keys); err != nil {
					return err
				}
				do(keys.Time.UnixNano())
			}
		}
		return nil
	}
	if format == PCAP {
		r, err = pcapgo.NewReader(bytes.NewReader(file))
	} else {
		r, err = pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	}
	for err == nil {
		var ci gopacket.CaptureInfo
		if _, ci, err = r.ZeroCopyReadPacketData(); err == nil {
			do(ci.Timestamp.UnixNano())
		}
	}
	if err == io.EOF {
		return nil
	}
	return err
}

// A disk is a file on a file system that has room for this many more blocks. If it is greedy,
// another program immediately uses the blocks that the file frees.
type disk struct {
	bytes.Buffer
	blocks int
	greedy bool
}

const diskBlock = 512

func (d *disk) Write(b []byte) (int, error) {
	have := (d.Len() + diskBlock - 1) / diskBlock
	n := min(len(b), (have+d.blocks)*diskBlock-d.Len())
	d.Buffer.Write(b[:n])
	d.blocks -= (d.Len()+diskBlock-1)/diskBlock - have
	if n < len(b) {
		return n, unix.ENOSPC
	}
	return n, nil
}

func (d *disk) Seek(offset int64, _ int) (int64, error) { return int64(d.Len()) + offset, nil }

func (d *disk) Truncate(size int64) error {
	have := (d.Len() + diskBlock - 1) / diskBlock
	d.Buffer.Truncate(int(size))
	if !d.greedy {
		d.blocks += have - (d.Len()+diskBlock-1)/diskBlock
	}
	return nil
}

// The file ends with its statistics at any size of the disk, and the account counts the packets
// that were removed for them as lost.
func TestWriterMakesRoom(t *testing.T) {
	t.Parallel()
	const packets = 3000 // more than a Writer keeps in `recent`
	step := 1
	if testnet.Emulated() {
		step = 50
	}
	for _, size := range []int{60, 300, 1514} {
		for blocks := 3; blocks < 100; blocks += step {
			out := &disk{blocks: blocks, greedy: blocks%2 == 0}
			w := testWriter(out, Options{Immediate: blocks%3 == 0})
			var read [2]capture.Account
			var err error
			for i := 0; i < packets && err == nil; i++ {
				data := packetOf(size+blocks%7, byte(i))
				err = w.Write([]capture.Packet{{Source: uint16(i % 2), Facts: &capture.Facts{WireLen: uint32(len(data)), Time: int64(i)}, Data: data}})
				read[i%2].Captured++
				read[i%2].Seen++
			}
			own, last := w.End(read[:])
			if !errors.Is(err, unix.ENOSPC) && !errors.Is(last, unix.ENOSPC) {
				t.Fatalf("%d blocks: %v, %v", blocks, err, last)
			}
			name := fmt.Sprintf("packets of %d bytes, %d blocks", size, blocks)
			checkStatistics(t, name, out.Bytes(), own)
			if int64(out.Len()) != w.Size() {
				t.Errorf("%s: %d bytes, Size says %d", name, out.Len(), w.Size())
			}
			if room := blocks*diskBlock - out.Len(); !out.greedy && room > 2*(size+200) {
				t.Errorf("%s: %d bytes were left free", name, room)
			}
		}
	}
}

// checkStatistics checks that a file has an interface statistics block for each source, with this
// account, and as many packets.
func checkStatistics(t *testing.T, name string, file []byte, own capture.Accounts) {
	t.Helper()
	r, packets := mustRead(t, name, file)
	for i, a := range own {
		ifi, err := r.Interface(i)
		if err != nil || ifi.Statistics.PacketsReceived != a.Seen {
			t.Errorf("%s: interface %d has the statistics %+v, %v", name, i, ifi.Statistics, err)
		}
		if packets[i] != a.Captured || a.Seen != a.Captured+a.Lost || a.NotTaken != a.Lost {
			t.Errorf("%s: %d packets of interface %d, the account is %+v", name, packets[i], i, a)
		}
	}
}

// If there is no room for the header, the file stays empty.
func TestWriterNoRoomForHeader(t *testing.T) {
	t.Parallel()
	out := &disk{}
	w := testWriter(out, Options{})
	w.Write([]capture.Packet{*testPacket(0)})
	own, err := w.End(capture.Accounts{{Seen: 1, Captured: 1}, {}})
	if !errors.Is(err, unix.ENOSPC) || out.Len() != 0 {
		t.Errorf("%d bytes in the file, %v", out.Len(), err)
	}
	if diff := cmp.Diff(capture.Accounts{{Seen: 1, Lost: 1, NotTaken: 1}, {}}, own); diff != "" {
		t.Error(diff)
	}
}

// The statistics blocks have the numbers of the account.
func TestWriterStatistics(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := testWriter(&out, Options{Application: "xdpcap test"})
	want := capture.Accounts{{Seen: 10, FilteredOut: 3, Lost: 7}, {Seen: 20, NotSampled: 20}}
	if _, err := w.End(want); err != nil {
		t.Fatal(err)
	}
	if err := w.Write([]capture.Packet{*testPacket(0)}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Write after Close: %v", err)
	}
	r, packets := mustRead(t, "a file without packets", out.Bytes())
	if len(packets) > 0 {
		t.Errorf("there are %v packets", packets)
	}
	for i, c := range want {
		ifi, err := r.Interface(i)
		if err != nil || ifi.Statistics.PacketsReceived != c.Seen {
			t.Errorf("interface %d: %+v, %v", i, ifi, err)
		}
	}
	if got := r.SectionInfo().Application; got != "xdpcap test" {
		t.Errorf("application %q", got)
	}
}

func TestWholeBlocksPerWrite(t *testing.T) {
	t.Parallel()
	var out blocks
	w := testWriter(&out, Options{})
	for i := range 10_000 {
		w.Write([]capture.Packet{*testPacket(i)})
	}
	w.End(make(capture.Accounts, 2))
	if out.writes < 3 || out.torn > 0 {
		t.Errorf("%d writes, %d of them not whole blocks", out.writes, out.torn)
	}
}

type blocks struct{ writes, torn int }

func (o *blocks) Write(b []byte) (int, error) {
	o.writes++
	n := len(b)
	for len(b) >= 8 {
		size := int(b[4]) | int(b[5])<<8 | int(b[6])<<16
		if size < 12 || size > len(b) {
			break
		}
		b = b[size:]
	}
	if len(b) > 0 {
		o.torn++
	}
	return n, nil
}

// groupOf is a group of packets with this data.
func groupOf(data []byte) (packets []capture.Packet) {
	for i := range groupSize {
		facts := &capture.Facts{WireLen: uint32(len(data)), Time: int64(i), ID: uint64(i)}
		packets = append(packets, capture.Packet{Facts: facts, Data: data})
	}
	return packets
}

// Serial, because it counts allocations.
func TestNoAllocations(t *testing.T) {
	for _, format := range []Format{PCAPNG, PCAP, JSON} {
		packets := groupOf(segment())
		w := testWriter(io.Discard, Options{Format: format})
		for range 2_000 { // until the buffers have grown to their final size
			w.Write(packets)
		}
		n := testing.AllocsPerRun(200, func() {
			must(t, w.Write(packets))
		})
		if n != 0 {
			t.Errorf("format %d: %v allocations per %d packets", format, n, groupSize)
		}
	}
}

// BenchmarkFormats measures the time of a packet in each format, to /dev/null and, as lines and as
// lines one by one, to a pipe.
func BenchmarkFormats(b *testing.B) {
	for _, format := range []Format{PCAPNG, PCAP, JSON} {
		b.Run(format.String(), func(b *testing.B) { benchFormat(b, io.Discard, format, groupOf(segment())) })
	}
	b.Run("pcapng, 1500 bytes", func(b *testing.B) { benchFormat(b, io.Discard, PCAPNG, groupOf(packetOf(1500, 1))) })
	piped := func(b *testing.B, writer func(io.Writer) io.Writer) {
		r, w, err := os.Pipe()
		must(b, err)
		go io.Copy(io.Discard, r)
		benchFormat(b, writer(w), JSON, groupOf(segment()))
		w.Close()
	}
	b.Run("pipe", func(b *testing.B) { piped(b, func(w io.Writer) io.Writer { return lines.PipeWriter{Out: w} }) })
	b.Run("pipe, one write each", func(b *testing.B) { piped(b, func(w io.Writer) io.Writer { return eachLine{w} }) })
	b.Run("pipe, as it comes", func(b *testing.B) { piped(b, func(w io.Writer) io.Writer { return w }) })
}

func benchFormat(b *testing.B, out io.Writer, format Format, packets []capture.Packet) {
	w := testWriter(out, Options{Format: format})
	b.ReportAllocs()
	for n := 0; n < b.N; {
		w.Write(packets)
		n += len(packets)
	}
	w.queue.end()
}

// segment is a TCP segment with all fields that a line can have.
func segment() []byte {
	frame := testnet.UDPFrame(64, 0)
	frame[23], frame[47] = 6, 0x12
	return frame
}

// eachLine writes each line with a call of its own.
type eachLine struct{ io.Writer }

func (w eachLine) Write(b []byte) (n int, err error) {
	for line := range bytes.Lines(b) {
		if _, err := w.Writer.Write(line); err != nil {
			return n, err
		}
		n += len(line)
	}
	return n, nil
}
