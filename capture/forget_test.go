package capture_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/capture/recorder"
	"github.com/xdpcap/xdpcap/capture/stream"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// mostIndexes is the upper bound of indexes in a day: those of present interfaces, of the latest
// that have gone, and of packets that are on their way.
const mostIndexes = capture.AtOnce + 600

// A day of interfaces that come and go takes a bounded number of indexes. The accounts are exact,
// in all files together and for each interface.
func TestDayInFiles(t *testing.T) {
	t.Parallel()
	const perFile = 20_000
	for _, test := range []struct {
		name       string
		interfaces int
		series     bool
		options    file.Options
	}{
		{"a series", 100_000, true, file.Options{}},
		{"a file", 5_000, false, file.Options{}},
		{"compressed", 5_000, true, file.Options{Compression: file.Zstd}},
		{"json", 5_000, false, file.Options{Format: file.JSON}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			rotation := file.Rotation{Path: func(p file.Place) string { return filepath.Join(dir, fmt.Sprintf("%06d", p.Number)) }}
			if test.series {
				rotation.Packets = perFile
			}
			out, err := file.OpenSeries(rotation, test.options)
			capture.Must(t, err)
			day := capture.NewDay(test.interfaces)
			day.Waits = true
			accounts, err := capture.Run(context.Background(), day, out)
			capture.Must(t, err)
			want := capture.Account{Captured: uint64(test.interfaces), Bytes: 60 * uint64(test.interfaces)}
			for n := range test.interfaces {
				want.FilteredOut += uint64(day.Filtered(n))
			}
			want.Seen = want.FilteredOut + want.Captured
			capture.Same(t, want, accounts[0].Total())
			if day.Largest > mostIndexes {
				t.Errorf("there are %d indexes, of %d interfaces", day.Largest, test.interfaces)
			}
			if test.options.Format != file.PCAPNG || test.options.Compression != file.NoCompression {
				return
			}
			told := make([]uint64, test.interfaces) // packets seen, by the number of the interface
			paths, err := filepath.Glob(dir + "/*")
			capture.Must(t, err)
			slices.Sort(paths)
			for i, path := range paths {
				most := perFile + mostIndexes
				if !test.series {
					most = test.interfaces
				}
				if n := dayFile(t, path, told); n > most {
					t.Errorf("file %d describes %d interfaces", i, n)
				}
			}
			checkTold(t, day, told)
		})
	}
}

// checkTold checks how many packets statistics have as seen, by the number of the interface.
func checkTold(t *testing.T, day *capture.Day, told []uint64) {
	t.Helper()
	for n, seen := range told {
		if seen != uint64(1+day.Filtered(n)) {
			t.Fatalf("statistics have %d packets as seen at interface %d, want %d", seen, n, 1+day.Filtered(n))
		}
	}
}

// A peer that reads a stream all day gets the statistics of each interface when it has gone.
func TestDayInStream(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	capture.Must(t, err)
	defer l.Close()
	received := make(chan []byte)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			close(received)
			return
		}
		data, _ := io.ReadAll(conn)
		received <- data
	}()
	out, err := stream.NewSender(l.Addr().String(), nil, func(error) {}, stream.Options{})
	capture.Must(t, err)
	day := capture.NewDay(2000)
	day.Waits = true
	accounts, err := capture.Run(context.Background(), day, out)
	capture.Must(t, err)
	capture.Same(t, uint64(day.Interfaces), accounts[0].Total().Captured)
	if day.Largest > mostIndexes {
		t.Errorf("there are %d indexes, of %d interfaces", day.Largest, day.Interfaces)
	}
	told := make([]uint64, day.Interfaces)
	dayBlocks(t, <-received, told)
	checkTold(t, day, told)
}

func dayFile(t *testing.T, path string, told []uint64) (interfaces int) {
	t.Helper()
	data, err := os.ReadFile(path)
	capture.Must(t, err)
	return dayBlocks(t, data, told)
}

// dayBlocks adds up what the statistics of a file say, and returns how many interfaces it
// describes. Each packet must be of the interface whose number it has.
func dayBlocks(t *testing.T, data []byte, told []uint64) (interfaces int) {
	t.Helper()
	var numbers []int
	for len(data) > 0 {
		size, _, err := pcapng.BlockLength(data, false)
		capture.Must(t, err)
		block, err := pcapng.ParseBlock(data[:size], false)
		capture.Must(t, err)
		data = data[size:]
		switch block.Type {
		case pcapng.TypeInterface:
			i, _ := pcapng.ParseInterface(block)
			n := 0
			if _, err := fmt.Sscanf(i.Name, "veth%d", &n); err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, n)
		case pcapng.TypeStatistics:
			s, _ := pcapng.ParseStatistics(block)
			told[numbers[s.Interface]] += s.Received
		case pcapng.TypePacket:
			of, has := numbers[pcapng.PacketInterface(block.Raw)], int(binary.BigEndian.Uint64(pcapng.PacketData(block.Raw)))
			if of != has {
				t.Fatalf("the packet of interface %d is of interface %d", has, of)
			}
		}
	}
	return len(numbers)
}

// A recorder whose memory holds a few packets forgets the interfaces of the others.
func TestDayInMemory(t *testing.T) {
	t.Parallel()
	const interfaces = 10_000
	dir := t.TempDir()
	out, err := recorder.New(recorder.Options{Size: recorder.MinSize, AtEnd: true, Open: func() (*file.File, string, error) {
		path := filepath.Join(dir, "end.pcapng")
		f, err := file.Open(path, file.Options{})
		return f, path, err
	}})
	capture.Must(t, err)
	day := capture.NewDay(interfaces)
	accounts, err := capture.Run(context.Background(), day, out)
	capture.Must(t, err)
	held := recorder.MinSize / 160
	a := accounts[0].Total()
	if a.Unexplained != 0 || a.Seen != a.Explained() || a.Captured == 0 || a.Captured+a.NotRecorded != interfaces {
		t.Errorf("account %+v", a)
	}
	if day.Largest > held+mostIndexes {
		t.Errorf("there are %d indexes, of %d interfaces, and %d packets fit", day.Largest, interfaces, held)
	}
	told := make([]uint64, interfaces)
	dayFile(t, filepath.Join(dir, "end.pcapng"), told)
}

// An output that forgets nothing keeps all sources.
func TestDayWithoutForgetting(t *testing.T) {
	t.Parallel()
	day := capture.NewDay(2000)
	if _, err := capture.Run(context.Background(), day, &outputLog{anySources: true, room: 2000}); err != nil {
		t.Fatal(err)
	}
	capture.Same(t, 2000, day.Largest)
}
