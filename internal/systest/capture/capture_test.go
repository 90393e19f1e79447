package capture_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// recordsOf returns the packets up to the first error: the end, or an incomplete block.
func recordsOf(r gopacket.PacketDataSource) (records []systest.Record) {
	for {
		data, ci, err := r.ReadPacketData()
		if err != nil {
			return records
		}
		records = append(records, systest.Record{Data: data, CI: ci})
	}
}

// sent returns the generator's frame number seq, without a UDP checksum.
func sent(size int, seq uint64) []byte {
	frame := testnet.UDPFrame(size, seq)
	frame[40], frame[41] = 0, 0
	return frame
}

// Every frame is in the file, byte for byte, in order, and every reader agrees. For every value of
// --transport the messages, the object of --json and the file have the name of the transport that
// was used.
func TestFileIsComplete(t *testing.T) {
	t.Parallel()
	const all = 10_000
	for _, test := range []struct {
		size          int
		args, used    string
		memory, words string // of each ring
	}{
		{1500, "--transport perf -B 16M", "perf", "16384 KiB", "16 MiB"},
		{512, "--transport auto -B " + systest.RingFor(all, 512), "ring", "8192 KiB", "8 MiB"},
		{64, "--transport ring", "ring", "8192 KiB", "8 MiB"},
	} {
		t.Run(test.args, func(t *testing.T) {
			t.Parallel()
			size := test.size
			pair := testnet.MustPair(t, testnet.PairOptions{})
			file, summary := systest.TempFile(t), filepath.Join(t.TempDir(), "summary.json")
			p := systest.Listening(t, pair.Rx, nil, append(strings.Fields(test.args), "-i", pair.RxName, "-w", file, "--json="+summary, "-v")...)
			_, frames := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(size, 0), Count: all, Rate: 200_000})
			if said, line := p.Interrupt(), "xdpcap: transport "+test.used+", "+test.memory+" for each CPU\n"; !strings.Contains(said, line) {
				t.Errorf("%s does not say %s", said, line)
			}
			s := systest.Account(t, systest.Contents(t, summary))
			if s.Seen != frames || s.Captured != frames || s.Bytes != frames*uint64(size) || s.Transport != test.used {
				t.Errorf("summary %+v", s)
			}
			records, r := systest.ReadFile(t, file)
			if uint64(len(records)) != frames {
				t.Fatalf("%d packets in the file", len(records))
			}
			checkInOrder(t, datas(records), func(seq uint64) []byte { return sent(size, seq) })
			for i, rec := range records {
				if rec.CI.Length != size {
					t.Fatalf("packet %d: wire length %d", i, rec.CI.Length)
				}
			}
			if ifi, err := r.Interface(0); err != nil || ifi.Name != pair.RxName || ifi.Statistics.PacketsReceived != frames {
				t.Errorf("interface %+v, %v", ifi, err)
			}
			if comment := r.SectionInfo().Comment; !strings.Contains(comment, "transport: "+test.used+", "+test.words+" for each CPU\n") {
				t.Errorf("the file's comment is %s", comment)
			}
			readable(t, file, int(frames))
		})
	}
}

// checkInOrder compares each packet with the frame that was sent with its number, and checks that
// the numbers increase. On a busy machine some may be missing, because the receiver's queue was
// full.
func checkInOrder(t *testing.T, packets [][]byte, frame func(seq uint64) []byte) {
	t.Helper()
	next := uint64(0)
	for i, data := range packets {
		seq, ok := testnet.Sequence(data)
		if !ok || seq < next || !bytes.Equal(data, frame(seq)) {
			t.Fatalf("packet %d, with the number %d of at least %d, is\n%x, want\n%x", i, seq, next, data, frame(seq))
		}
		next = seq + 1
	}
}

// readable reads the file with the programs that users open it with.
func readable(t *testing.T, file string, frames int) {
	t.Helper()
	info := systest.OutputOf(t, "capinfos", file)
	for _, want := range []string{"Strict time order:   True", fmt.Sprintf("Number of packets = %d", frames)} {
		if !strings.Contains(info, want) {
			t.Errorf("capinfos does not say %q:\n%s", want, info)
		}
	}
	if n := strings.Count(systest.OutputOf(t, "tcpdump", "-nr", file), "\n"); n != frames {
		t.Errorf("tcpdump reads %d packets, want %d", n, frames)
	}
	if n := len(strings.Fields(systest.OutputOf(t, "tshark", "-nr", file, "-T", "fields", "-e", "frame.packet_id"))); n != frames {
		t.Errorf("tshark sees %d packet ids, want %d", n, frames)
	}
}

// Frames that two CPUs receive at the same time are sorted by their time stamps, and frames of one
// CPU keep their order. If the two CPUs did not receive at the same time on a busy machine, the
// test tries again.
func TestTwoCPUs(t *testing.T) {
	t.Parallel()
	const tries = 10
	for range tries {
		if switches := captureTwoCPUs(t); switches >= 100 || t.Failed() || testnet.Emulated() {
			return
		}
	}
	t.Errorf("in %d tries the two CPUs' packets hardly alternated: they were not sent at the same time", tries)
}

// captureTwoCPUs returns how often the packets in the file change from one CPU to the other.
func captureTwoCPUs(t *testing.T) (switches int) {
	t.Helper()
	pair := testnet.MustPair(t, testnet.PairOptions{Queues: 2})
	file := systest.TempFile(t)
	frames := testnet.Volume(60_000)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--json", "-B", systest.RingFor(2*frames, 64))
	const second = 1 << 40 // the first number of the second CPU's frames
	sendFromTwoCPUs(t, pair, frames, second)
	arrived := testnet.WaitArrived(t, pair, testnet.PairStats{}, 2*frames)
	s := systest.Account(t, p.Interrupt())
	if s.Seen != arrived || s.Lost != 0 {
		t.Errorf("%d seen, want %d; %d lost", s.Seen, arrived, s.Lost)
	}
	records, _ := systest.ReadFile(t, file)
	next := [2]uint64{0, second}
	var missing uint64
	last := -1
	for i, rec := range records {
		seq, ok := testnet.Sequence(rec.Data)
		from := 0
		if seq >= second {
			from = 1
		}
		if !ok || seq < next[from] {
			t.Fatalf("packet %d is number %d, want %d", i, seq, next[from])
		}
		missing += seq - next[from]
		next[from] = seq + 1
		if from != last {
			switches++
		}
		last = from
	}
	if missing += second + 2*frames - next[0] - next[1]; missing != 2*frames-arrived {
		t.Errorf("%d numbers are missing, %d did not arrive", missing, 2*frames-arrived)
	}
	if info := systest.OutputOf(t, "capinfos", file); !strings.Contains(info, "Strict time order:   True") {
		t.Errorf("capinfos:\n%s", info)
	}
	return switches
}

// sendFromTwoCPUs sends frames from both CPUs at once; the second CPU's numbers begin at second.
func sendFromTwoCPUs(t *testing.T, pair *testnet.Pair, frames, second uint64) {
	t.Helper()
	done := make(chan error, 2)
	for cpu := range 2 {
		g := testnet.MustGenerator(t, pair)
		testnet.Must(t, g.SetSequence(uint64(cpu)*second))
		go func() {
			_, err := g.Run(t.Context(), testnet.GeneratorOptions{
				Frame: testnet.UDPFrame(64, 0), Count: frames, Rate: testnet.Rate(200_000), CPU: cpu,
			})
			done <- err
		}()
	}
	for range 2 {
		testnet.Must(t, <-done)
	}
}

// A capture into a pipe ends when tcpdump has read enough. A packet reaches tcpdump even if no
// other packet comes after it.
func TestPipe(t *testing.T) {
	t.Parallel()
	testnet.Require(t, "tcpdump")
	pair := testnet.MustPair(t, testnet.PairOptions{})
	r, w, err := os.Pipe()
	testnet.Must(t, err)
	defer r.Close()
	tcpdump := exec.Command("tcpdump", "-nlr", "-", "-c", "5")
	tcpdump.Stdin = r
	lines, err := tcpdump.StdoutPipe()
	testnet.Must(t, err)
	testnet.Must(t, tcpdump.Start())
	r.Close()
	p := systest.Listening(t, pair.Rx, w, "-i", pair.RxName, "-w", "-", "--json")
	w.Close()
	sender := testnet.MustSender(t, pair)
	buf := make([]byte, 4096)
	for i := range 5 {
		testnet.Must(t, sender.Send(testnet.UDPFrame(64, uint64(i))))
		lines.(*os.File).SetReadDeadline(time.Now().Add(testnet.Patience))
		if n, err := lines.Read(buf); err != nil {
			t.Fatalf("packet %d: tcpdump printed %q, %v", i, buf[:n], err)
		}
	}
	if err := tcpdump.Wait(); err != nil {
		t.Error(err)
	}
	// No more packets are sent, so xdpcap must detect the closed pipe without a write.
	status, stderr := p.Wait()
	if status != 1 || !strings.Contains(stderr, "xdpcap: standard output: its reader has gone away\n") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	if s := systest.Account(t, stderr); s.Captured != 5 {
		t.Errorf("summary %+v", s)
	}
}

// If packets arrive faster than they are read, the number of missing packets is exact, and the same
// in all counts.
func TestOverload(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	// xdpcap is stopped while packets arrive, so that it cannot read them on any machine.
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "-B", "128k", "--json")
	systest.StopProcess(t, p)
	_, tooMany := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(512, 0), Count: testnet.Volume(100_000)})
	systest.ContinueProcess(t, p)
	// The contents of the rings have reached the file before more packets are sent, and a ring has
	// room for twice as many. None of these is lost, even if xdpcap reads late.
	testnet.WaitFor(t, "the rings to be read", func() bool { return systest.FileSize(file) > 100<<10 })
	// On a busy machine several CPUs receive and lose packets. Each CPU reports its losses with its
	// next packet, so each must receive some afterwards.
	var few uint64
	for cpu := range runtime.NumCPU() {
		_, n := testnet.Generate(t, pair, testnet.GeneratorOptions{
			Frame: testnet.UDPFrame(512, 0), Count: 50, Rate: 10_000, CPU: cpu,
		})
		few += n
	}
	s := systest.Account(t, p.Interrupt())
	if s.Seen != tooMany+few {
		t.Errorf("%d seen, want %d and %d", s.Seen, tooMany, few)
	}
	if s.Lost == 0 {
		t.Error("nothing was lost")
	}
	if s.Captured < few {
		t.Errorf("%d captured, want the last %d and more", s.Captured, few)
	}
	records, reader := systest.ReadFile(t, file)
	ifi, err := reader.Interface(0)
	testnet.Must(t, err)
	if uint64(len(records)) != s.Captured || ifi.Statistics.PacketsReceived != s.Seen {
		t.Errorf("%d packets, statistics %+v, summary %+v", len(records), ifi.Statistics, s)
	}
	if testnet.Emulated() {
		return // the rest of the test is for the file
	}
	// gopacket does not read all statistics; tshark prints them.
	blocks := systest.OutputOf(t, "tshark", "-r", file, "-V", "-X", "read_format:MIME Files Format")
	for name, want := range map[string]uint64{
		"Received Packets": s.Seen, "Accepted Packets": s.Seen, "Packets Dropped by OS": s.Lost, "Packets Delivered to the User": s.Captured,
	} {
		if line := fmt.Sprintf("Number of %s = %d\n", name, want); !strings.Contains(blocks, line) {
			t.Errorf("the statistics block does not say %q", line)
		}
	}
	// The packets after the gap have the number of packets missing before them.
	var dropped uint64
	for _, f := range strings.Fields(systest.OutputOf(t, "tshark", "-r", file, "-T", "fields", "-e", "frame.drop_count")) {
		n, err := strconv.ParseUint(f, 10, 64)
		testnet.Must(t, err)
		dropped += n
	}
	if dropped != s.Lost {
		t.Errorf("the packets' drop counts add up to %d, %d were lost", dropped, s.Lost)
	}
}

// A frame of 9000 bytes is kept whole, or truncated. A snapshot length above the maximum, as
// tcpdump's users type it, means the maximum, and one line reports that.
func TestJumbo(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{MTU: 9000})
	for _, test := range []struct {
		snapLen string
		want    int
		notices int
	}{{"0", 9014, 0}, {"128", 128, 0}, {"262144", 9014, 1}} {
		file := systest.TempFile(t)
		p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "-s", test.snapLen, "-c", "1")
		frame := testnet.UDPFrame(9014, 7)
		testnet.Must(t, testnet.MustSender(t, pair).Send(frame))
		status, stderr := p.Wait()
		notice := "xdpcap: snapshot length 262144: packets are truncated to 65412 bytes, the most that a record can hold\n"
		if status != 0 || strings.Count(stderr, notice) != test.notices {
			t.Errorf("exit status %d: %s", status, stderr)
		}
		records, _ := systest.ReadFile(t, file)
		if len(records) != 1 || records[0].CI.Length != 9014 || !bytes.Equal(records[0].Data, frame[:test.want]) {
			t.Errorf("-s %s: %d packets, the first has %d of %d bytes", test.snapLen, len(records),
				len(records[0].Data), records[0].CI.Length)
		}
	}
}

// The time stamp of a frame is between the wall clock's readings before and after it was sent, with
// a tolerance of a millisecond.
func TestStamps(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file)
	const frames = 200
	var after [frames]time.Time
	for i := range frames {
		frame := testnet.UDPFrame(64, 0)
		binary.BigEndian.PutUint64(frame[testnet.SequenceOffset:], uint64(time.Now().UnixNano()))
		testnet.Send(t, pair, frame) // returns when it has arrived
		after[i] = time.Now()
	}
	p.Interrupt()
	records, _ := systest.ReadFile(t, file)
	if len(records) != frames {
		t.Fatalf("%d packets", len(records))
	}
	for i, rec := range records {
		before := time.Unix(0, int64(binary.BigEndian.Uint64(rec.Data[testnet.SequenceOffset:])))
		if stamp := rec.CI.Timestamp; stamp.Before(before.Add(-time.Millisecond)) || stamp.After(after[i].Add(time.Millisecond)) {
			t.Errorf("packet %d is stamped %v, sent between %v and %v", i, stamp, before, after[i])
		}
	}
}

// Two interfaces in one file, each with its own account.
func TestTwoInterfaces(t *testing.T) {
	t.Parallel()
	one := testnet.MustPair(t, testnet.PairOptions{})
	two := testnet.MustPair(t, testnet.PairOptions{Rx: one.Rx, RxName: "rx1", TxName: "tx1"})
	file := systest.TempFile(t)
	p := systest.Listening(t, one.Rx, nil, "-i", one.RxName, "-i", two.RxName, "-w", file, "--json")
	var want [2]uint64 // packets that arrive
	_, want[0] = testnet.Generate(t, one, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300})
	_, want[1] = testnet.Generate(t, two, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 200})
	s := systest.Account(t, p.Interrupt())
	if s.Seen != want[0]+want[1] || s.Interfaces[0].Interface != "rx0" || s.Interfaces[1].Interface != "rx1" {
		t.Errorf("summary %+v", s)
	}
	records, r := systest.ReadFile(t, file)
	var per [2]uint64
	for _, rec := range records {
		per[rec.CI.InterfaceIndex]++
	}
	if per != want {
		t.Errorf("packets per interface: %v, want %v", per, want)
	}
	for i, name := range []string{"rx0", "rx1"} {
		if ifi, err := r.Interface(i); err != nil || ifi.Name != name || ifi.Statistics.PacketsReceived != per[i] {
			t.Errorf("interface %d: %+v, %v", i, ifi, err)
		}
	}
	systest.OutputOf(t, "tcpdump", "-nr", file) // fails if the interfaces differ
}

// A classic file has only packets, with nanoseconds or, with --micro, with microseconds.
func TestClassicFormat(t *testing.T) {
	t.Parallel()
	for flag, unit := range map[string]string{"--nano": "nanosecond", "--micro": "microsecond", "--time-stamp-type=host": "nanosecond"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			file := systest.TempFile(t)
			p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--format", "pcap", "-s", "60", flag)
			_, frames := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(512, 0), Count: 1000, Rate: 100_000})
			p.Interrupt()
			records := readPcap(t, file)
			if uint64(len(records)) != frames || records[0].CI.Length != 512 {
				t.Fatalf("%d packets, want %d", len(records), frames)
			}
			checkInOrder(t, datas(records), func(seq uint64) []byte { return sent(512, seq)[:60] })
			if text := systest.OutputOf(t, "capinfos", file); !strings.Contains(text, unit) {
				t.Errorf("capinfos sees no %ss: %s", unit, text)
			}
		})
	}
}

// --sink drops the captured packets. TestStackBesideCapture tests that all pass without it.
func TestSink(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	listener := listenIP(t, pair)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull, "--json", "--sink")
	_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 100, Rate: 10_000})
	if s := systest.Account(t, p.Interrupt()); s.Captured != arrived {
		t.Errorf("%d packets arrived, summary %+v", arrived, s)
	}
	if got := listener(); got != 0 {
		t.Errorf("%d packets reached the stack", got)
	}
}

// listenIP counts the IPv4 packets that reach the stack of the receiving side, as tcpdump would
// capture them. The returned function ends that.
func listenIP(t *testing.T, pair *testnet.Pair) func() int64 {
	t.Helper()
	var fd int
	testnet.Must(t, pair.Rx.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, int(systest.Htons(unix.ETH_P_IP)))
		if err == nil {
			err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 16<<20)
		}
		return err
	}))
	return func() (n int64) {
		testnet.WaitHandled(t) // the driver counts packets before the stack gets them
		defer unix.Close(fd)
		buf := make([]byte, 2048)
		for {
			if _, _, err := unix.Recvfrom(fd, buf, 0); err != nil {
				return n
			}
			n++
		}
	}
}
