package systest

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	oldgo "github.com/google/gopacket/pcapgo"
	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/pcapgo"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/lines"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Record is a packet in a file.
type Record struct {
	Data []byte
	CI   gopacket.CaptureInfo
}

// OpenFile returns the bytes of a pcapng file, and a reader of its packets.
func OpenFile(t *testing.T, path string) ([]byte, *pcapgo.NgReader) {
	t.Helper()
	file := ReadBytes(t, path)
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	testnet.Must(t, err)
	return file, r
}

// ReadFile reads a file with gopacket/gopacket, and checks that its predecessor, google/gopacket,
// reads the same packets.
func ReadFile(t *testing.T, path string) ([]Record, *pcapgo.NgReader) {
	t.Helper()
	file, r := OpenFile(t, path)
	old, err := oldgo.NewNgReader(bytes.NewReader(file), oldgo.DefaultNgReaderOptions)
	testnet.Must(t, err)
	var records []Record
	for {
		data, ci, err := r.ReadPacketData()
		oldData, oldCI, oldErr := old.ReadPacketData()
		if err == io.EOF && oldErr == io.EOF {
			return records, r
		}
		if err != nil || oldErr != nil {
			t.Fatalf("packet %d: %v, %v", len(records), err, oldErr)
		}
		if !bytes.Equal(data, oldData) || !ci.Timestamp.Equal(oldCI.Timestamp) || ci.Length != oldCI.Length {
			t.Fatalf("packet %d: the two gopackets disagree", len(records))
		}
		records = append(records, Record{data, ci})
	}
}

// RingFor returns a size for -B with which one ring holds all frames, even if a busy machine does
// not run the reader for long.
func RingFor(frames uint64, size int) string {
	const head = 104 // of perf and of the record, with padding
	return strconv.FormatUint(max(128, frames*uint64(size+head)>>10+1), 10)
}

// CheckDetached fails if a capture has left programs or other objects behind.
func CheckDetached(t *testing.T, pair *testnet.Pair) {
	t.Helper()
	if prog := Attached(t, pair); prog != "" {
		t.Errorf("XDP program %s is still attached", prog)
	}
}

// Trickle sends frames, at most ten thousand per second, until the returned function is called. A
// capture that a busy machine does not run for a second or two still loses no frames.
func Trickle(t *testing.T, pair *testnet.Pair) (stop func()) {
	t.Helper()
	sender := testnet.MustSender(t, pair)
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for seq := uint64(0); ; seq++ {
			select {
			case <-quit:
				return
			default:
				if seq%10 == 0 {
					time.Sleep(time.Millisecond)
				}
				sender.Send(testnet.UDPFrame(200, seq)) // fails while the interface is down
			}
		}
	}()
	stop = func() {
		if quit != nil {
			close(quit)
			<-done
			quit = nil
		}
	}
	t.Cleanup(stop)
	return stop
}

// FileSize returns how many bytes a file has; 0 without a file.
func FileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// InRx calls a function in the namespace of the receiving interface.
func InRx(t *testing.T, pair *testnet.Pair, do func(netlink.Link) error) {
	t.Helper()
	testnet.Must(t, pair.Rx.Do(func() error {
		l, err := netlink.LinkByName(pair.RxName)
		if err != nil {
			return err
		}
		return do(l)
	}))
}

// WaitReleased waits until the kernel has released a program and its maps.
func WaitReleased(t *testing.T, program ebpf.ProgramID, maps []ebpf.MapID) {
	t.Helper()
	testnet.WaitFor(t, "the kernel to remove program and maps", func() bool {
		left, err := ebpf.NewProgramFromID(program)
		if err == nil {
			left.Close()
		}
		gone := errors.Is(err, os.ErrNotExist)
		for _, id := range maps {
			left, err := ebpf.NewMapFromID(id)
			if err == nil {
				left.Close()
			}
			gone = gone && errors.Is(err, os.ErrNotExist)
		}
		return gone
	})
}

// MapsOf returns the ids of a program's maps.
func MapsOf(id ebpf.ProgramID) ([]ebpf.MapID, error) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return nil, err
	}
	defer program.Close()
	info, err := program.Info()
	if err != nil {
		return nil, err
	}
	maps, _ := info.MapIDs()
	return maps, nil
}

// LineTime is the time of LineWithAllKeys, in nanoseconds since the Unix epoch.
const LineTime = 1_795_470_000_123_456_789

// LineWithAllKeys is the line of a TCP segment of 300 bytes with every key.
func LineWithAllKeys() []byte {
	frame := append([]byte{}, testnet.UDPFrame(80, 0)...)
	frame[23] = 6 // TCP
	frame[47] = 2 // SYN
	frame = append(frame[:12:12], append([]byte{0x81, 0, 0, 1}, frame[12:]...)...)
	d := capture.Description{
		Sources:      []capture.Source{{Name: "a", Hook: capture.Exit, Target: capture.Program{Name: "b"}, Pod: capture.Pod{Namespace: "c", Name: "d"}}},
		OutletName:   func(capture.Outlet) string { return "eth1" },
		ReasonName:   func(uint16, *capture.Facts) string { return "NO_SOCKET" },
		LocationName: func(capture.Location) string { return "tcp_v4_rcv" },
	}
	line := lines.NewJSONEncoder(&d, nil).Append(nil, &capture.Packet{Data: frame, Facts: &capture.Facts{
		Time: LineTime, WireLen: 300, Queue: 3, ID: math.MaxUint64, Dropped: 4, Verdict: capture.Tx, To: 1, GSOSize: 5, Weight: 2,
		Hash: 0x01020304, HashKind: capture.CardHash, ClockSetBack: 6, RunTime: 7, Reason: 1, Location: 1,
	}})
	line = bytes.Replace(line, []byte(`,"gso_size":`), []byte(`,"device":"eth0","gso_size":`), 1) // no packet has both to and device
	return bytes.Replace(line, []byte("}\n"), []byte(`,"returned":-22}`+"\n"), 1)                 // or verdict and returned
}

// WaitForFile waits until a recorder has reported a written file, and returns that message.
func WaitForFile(t *testing.T, p *Process, path string) (message string) {
	t.Helper()
	testnet.WaitFor(t, path, func() bool {
		_, after, ok := strings.Cut(p.Stderr(), "xdpcap: "+path+": ")
		message, _, _ = strings.Cut(after, "\n")
		return ok && strings.Contains(after, "\n")
	})
	return message
}

// Unpack decompresses a file, if it is compressed. It returns the error that ended the
// decompression.
func Unpack(t *testing.T, out *bytes.Buffer, raw []byte) (err error) {
	t.Helper()
	var in io.Reader = bytes.NewReader(raw)
	switch {
	case bytes.HasPrefix(raw, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		d, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1))
		testnet.Must(t, err)
		defer d.Close()
		in = d
	case bytes.HasPrefix(raw, []byte{0x1f, 0x8b}):
		if in, err = gzip.NewReader(in); err != nil {
			t.Fatal(err)
		}
	}
	_, err = io.Copy(out, in)
	return err
}
