package files_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A capture in a cgroup with little memory reports the limit for waiting packets. It goes on while
// the readers of its files stall and more bytes arrive than the cgroup may have, and its account is
// exact.
func TestMemoryCgroup(t *testing.T) {
	t.Parallel()
	testnet.RequireLiveFrames(t)
	for _, test := range []struct {
		mib     uint64
		outputs int
		flags   string
		says    []string
	}{
		{64, 1, "", nil},
		{64, 1, "--transport ring", []string{"for " + fmt.Sprint(machine.CPUs()) + " CPUs would take more than a quarter of the available memory, which is "}},
		{64, 3, "", nil},
		{128, 1, "-B 32M", nil},
	} {
		if testnet.Emulated() && (test.mib > 64 || test.outputs > 1) {
			continue // the machine has only 1 GiB, and sends few packets per second
		}
		if testing.Short() && test.outputs > 1 {
			continue // each case sends over a million packets
		}
		t.Run(fmt.Sprintf("%d MiB, %d outputs %s", test.mib, test.outputs, test.flags), func(t *testing.T) {
			t.Parallel()
			c := systest.MemoryCgroup(t, test.mib<<20)
			s := startStalled(t, c, test.outputs, strings.Fields(test.flags)...)
			s.receive(test.mib << 20 * 5 / 4)
			if most := c.PeakMemory(); most > test.mib<<20*9/10 {
				t.Errorf("it took %d bytes", most)
			}
			all, said := s.end()
			if all.Lost == 0 {
				t.Errorf("nothing was lost, as if packets had more memory to wait in: %+v", all)
			}
			for _, words := range append(test.says, " MiB of packets may wait for "+s.fifos[0]+", a quarter of the available memory, which is ",
				fmt.Sprintf(" MiB, of %d MiB for the cgroup /", test.mib)) {
				if !strings.Contains(said, words) {
					t.Errorf("it does not say %q: %s", words, said)
				}
			}
		})
	}
}

// More memory than the cgroup has is refused before a program is attached.
func TestMemoryCgroupRefuses(t *testing.T) {
	t.Parallel()
	c := systest.MemoryCgroup(t, 64<<20)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct {
		flags string
		want  []string
	}{
		{"--ring 64M -w " + systest.TempFile(t), []string{"a recorder of 64 MiB would leave less than a quarter of the available memory, which is ",
			", of 64 MiB for the cgroup /", " MiB fit"}},
		{"-B 64M --transport ring -w /dev/null", []string{"rings of 64 MiB for ", " CPUs would take more than a quarter of the available memory, which is ",
			", of 64 MiB for the cgroup /", " MiB fit", "a smaller -B"}},
	} {
		args := append(strings.Fields(test.flags), "-i", pair.RxName)
		status, stderr := systest.StartCommand(t, pair.Rx, nil, systest.Surroundings{Cgroup: c.Directory}.Command(t, args...)).Wait()
		systest.OneLine(t, status, stderr, test.want...)
		systest.CheckDetached(t, pair)
	}
}

// A file of a few bytes that needs a window of 128 MiB is refused if the cgroup has less memory.
// With a small window it is read in the available memory.
func TestReadInCgroup(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		log    int // of the window's size
		status int
		want   string
	}{
		{27, 1, "its window of 134217728 bytes and those of the other files together exceed 1"},
		{23, 0, ""},
	} {
		c := systest.MemoryCgroup(t, 64<<20)
		file := filepath.Join(t.TempDir(), "packed.pcapng.zst")
		testnet.Must(t, os.WriteFile(file, packedZeros(test.log), 0o600))
		cmd := systest.Surroundings{Cgroup: c.Directory}.Command(t, "read", file)
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != test.status || !strings.Contains(string(out), test.want) {
			t.Errorf("%d: exit status %d: %s", test.log, got, out)
		}
		if most := c.PeakMemory(); most > 60<<20 {
			t.Errorf("%d: it has taken %d of 64 MiB", test.log, most>>20)
		}
	}
}

// packedZeros is a pcapng file without packets and with 160 MiB in blocks of local use, compressed
// to some kilobytes with a window of 1 << log bytes.
func packedZeros(log int) []byte {
	const piece, pieces = 128 << 10, 120
	raw := func(b, data []byte) []byte {
		header := uint32(len(data)) << 3
		return append(append(b, byte(header), byte(header>>8), byte(header>>16)), data...)
	}
	words := func(all ...uint32) (b []byte) {
		for _, w := range all {
			b = binary.LittleEndian.AppendUint32(b, w)
		}
		return b
	}
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, byte(log-10) << 3}
	b = raw(b, words(0x0a0d0d0a, 28, 0x1a2b3c4d, 1, 0xffffffff, 0xffffffff, 28, 1, 20, 1, 65535, 20))
	const length = 12 + pieces*piece
	for range 11 {
		b = raw(b, words(0x80000001, length))
		for range pieces {
			b = append(b, byte(piece<<3&0xff|2), byte(piece>>5&0xff), byte(piece>>13), 0)
		}
		b = raw(b, words(length))
	}
	return append(b, 1, 0, 0)
}

// A capture with the minimum number of threads goes on while each of its files stalls.
func TestFewThreads(t *testing.T) {
	t.Parallel()
	testnet.RequireLiveFrames(t)
	c := systest.NewCgroup(t, "pids")
	const waiting = 10 // threads that may wait in the kernel
	c.Set(t, "pids.max", waiting+1)
	s := startStalled(t, c, 4, "--serve", "127.0.0.1:0", "--count", "--listen", "127.0.0.1:0")
	s.receive(40 << 20)
	s.end()
}

// A stalledCapture writes to FIFOs that are not read before its end.
type stalledCapture struct {
	t       *testing.T
	pair    *testnet.Pair
	sender  *testnet.Generator
	capture *systest.Process
	fifos   []string
	readers []*os.File
	summary string
}

func startStalled(t *testing.T, c systest.Cgroup, outputs int, flags ...string) *stalledCapture {
	t.Helper()
	dir := t.TempDir()
	s := &stalledCapture{t: t, pair: testnet.MustPair(t, testnet.PairOptions{}), summary: filepath.Join(dir, "summary.json")}
	s.sender = testnet.MustGenerator(t, s.pair)
	args := append([]string{"-i", s.pair.RxName, "--json=" + s.summary}, flags...)
	for i := range outputs {
		fifo := filepath.Join(dir, fmt.Sprint("fifo", i))
		testnet.Must(t, unix.Mkfifo(fifo, 0o600))
		r, err := os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0)
		testnet.Must(t, err)
		t.Cleanup(func() { r.Close() })
		s.fifos, s.readers = append(s.fifos, fifo), append(s.readers, r)
		args = append(args, "-w", fifo)
	}
	s.capture = systest.StartCommand(t, s.pair.Rx, nil, systest.Surroundings{Cgroup: c.Directory}.Command(t, args...)).Listening()
	return s
}

// receive sends packets until the capture has captured this many bytes.
func (s *stalledCapture) receive(bytes uint64) {
	s.t.Helper()
	const size = 1400
	options := testnet.GeneratorOptions{Frame: testnet.UDPFrame(size, 0), Count: testnet.Volume(20_000), Rate: 150_000, CPU: machine.AnyCPU}
	for s.counted() < bytes/size {
		if _, err := s.sender.Run(context.Background(), options); err != nil {
			s.t.Fatal(err)
		}
		select {
		case <-s.capture.Done:
			s.t.Fatalf("it ended: %v: %s", s.capture.Cmd.ProcessState, s.capture.Stderr())
		default:
		}
	}
}

// counted returns how many packets the driver has passed to the XDP program.
func (s *stalledCapture) counted() uint64 {
	s.t.Helper()
	n, err := s.pair.XDPPackets()
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// end ends the capture while the FIFOs are read, compares its account with the driver's counter and
// with the packets from the FIFOs, and returns the account and the capture's messages.
func (s *stalledCapture) end() (all systest.Summary, said string) {
	s.t.Helper()
	s.capture.Cmd.Process.Signal(os.Interrupt)
	var read []string
	var reading sync.WaitGroup
	for i, r := range s.readers {
		path := s.fifos[i] + ".read"
		read = append(read, path)
		reading.Go(func() {
			text, err := io.ReadAll(r)
			if err := errors.Join(err, os.WriteFile(path, text, 0o600)); err != nil {
				s.t.Error(err)
			}
		})
	}
	status, stderr := s.capture.Wait()
	reading.Wait()
	if status != 0 {
		s.t.Fatalf("exit status %d: %s", status, stderr)
	}
	text := systest.Contents(s.t, s.summary)
	all = systest.Account(s.t, text)
	if all.Seen != s.counted() {
		s.t.Errorf("the driver counted %d packets, the account %+v", s.counted(), all)
	}
	for i, path := range read {
		want := all.Captured
		if len(all.Outputs) > 0 {
			want = all.Outputs[i].Captured
		}
		if records, _ := systest.ReadFile(s.t, path); uint64(len(records)) != want {
			s.t.Errorf("%d packets in output %d, summary %s", len(records), i, text)
		}
	}
	return all, stderr
}
