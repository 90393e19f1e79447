package chaos_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// chaosSeed repeats the rounds of a failed run. The log of that run has its seed.
const chaosSeed = "XDPCAP_CHAOS_SEED"

// TestChaos runs one short capture after the other. While packets arrive, it disturbs the capture's
// interface, process and file; then one event ends the capture. In every case the account equals
// the driver's counter, the file has the packets of the account, no program stays attached, and the
// exit status is 0 only for a requested end.
func TestChaos(t *testing.T) {
	t.Parallel()
	runChaos(t, chaosEndings)
}

// runChaos runs each of these endings once, and again in another order until the time is over.
func runChaos(t *testing.T, endings []chaosEnding) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv(chaosSeed); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s=%d repeats these rounds", chaosSeed, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const budget = 20 * time.Second
	rounds := 0
	for begun := time.Now(); rounds == 0 || !testing.Short() && time.Since(begun) < budget && !t.Failed(); {
		for _, i := range random.Perm(len(endings)) {
			e := endings[i]
			t.Run(fmt.Sprintf("%d %s", rounds, e.name), func(t *testing.T) { chaosRound(t, random, e) })
			rounds++
		}
	}
	t.Logf("%d captures", rounds)
}

// A chaosEnding is one way in which a capture ends, while no packets arrive: while a program is
// being detached, the driver counts packets that the program does not get.
type chaosEnding struct {
	name   string
	args   []string // with arguments, the capture is not disturbed before its end
	memory uint64   // limit of its cgroup in bytes, and then its file is a FIFO; 0 = no cgroup
	end    func(c *chaos)
	status int           // the exit status; -1 = killed, so there is no account
	stream *streamReader // the reader of its packets; nil = they are written to a file
}

var chaosEndings = []chaosEnding{
	{name: "interrupted", end: signals(syscall.SIGINT)},
	{name: "terminated", end: signals(syscall.SIGTERM)},
	{name: "hung up twice", end: signals(syscall.SIGHUP, syscall.SIGHUP)},
	{name: "interrupted twice", end: signals(syscall.SIGINT, syscall.SIGINT)},
	{name: "asked for counts, terminated", end: signals(syscall.SIGUSR1, syscall.SIGUSR1, syscall.SIGTERM)},
	{name: "killed", end: signals(syscall.SIGKILL), status: -1},
	{name: "count reached", args: []string{"-c", "200"}, end: held(func(*chaos) {})},
	{name: "time over", args: []string{"--duration", "2s"}, end: held(func(*chaos) {})},
	{name: "renamed at the end", args: []string{"--atomic"}, end: held(signals(syscall.SIGINT))},
	{name: "detached", end: func(c *chaos) { systest.DetachLink(c.t, c.pair) }, status: 1},
	{name: "interface deleted", end: func(c *chaos) { systest.InRx(c.t, c.pair, netlink.LinkDel) }, status: 1},
	{name: "reader stalled, with little memory", args: []string{"-B", "256k"}, memory: littleMemory, end: stalledReader},
	{name: "disk full", end: held(fillDisk), status: 1},
	{name: "file removed", end: held(func(c *chaos) { c.must(os.Remove(c.file)) }), status: 1},
	{name: "file replaced", end: held(replaceFile), status: 1},
	{name: "file truncated", end: held(func(c *chaos) { c.must(os.Truncate(c.file, 10)) }), status: 1},
}

// A capture goes on after each of these disturbances.
var disturbances = []struct {
	name string
	do   func(c *chaos)
}{
	{"link down and up", func(c *chaos) { c.whileDown(func() {}) }},
	{"peer down and up", func(c *chaos) {
		c.inTx(netlink.LinkSetDown)
		c.inTx(netlink.LinkSetUp)
	}},
	{"renamed", rename},
	{"counts asked for", func(c *chaos) { signals(syscall.SIGUSR1)(c) }},
	{"stopped for a moment", func(c *chaos) {
		systest.StopProcess(c.t, c.capture)
		systest.ContinueProcess(c.t, c.capture)
	}},
	{"second capture into the same file", func(c *chaos) {
		if c.reader != nil {
			return // no file
		}
		other := systest.Start(c.t, c.pair.Rx, nil, "-i", "lo", "-w", c.file)
		if status, stderr := other.Wait(); status != 1 {
			c.t.Errorf("a second capture into the same file: exit status %d: %s", status, stderr)
		}
	}},
	{"second capture on the same interface", secondCapture},
}

// A chaos is one capture and its environment.
type chaos struct {
	t       *testing.T
	random  *rand.Rand
	pair    *testnet.Pair
	sender  *testnet.Sender
	witness int // a packet socket on the receiving side
	file    string
	fifo    *os.File       // if the file is a FIFO
	group   systest.Cgroup // for endings with little memory
	reader  *streamReader  // of a stream instead of the file; nil = no stream
	capture *systest.Process

	sending sync.Mutex
	sent    uint64 // frames so far
	counted uint64 // by the driver, when last no packets were in flight
}

func chaosRound(t *testing.T, random *rand.Rand, e chaosEnding) {
	c := &chaos{t: t, random: random, pair: testnet.MustPair(t, testnet.PairOptions{})}
	c.sender = testnet.MustSender(t, c.pair)
	c.openWitness()
	disk := smallDisk(t)
	c.file = filepath.Join(disk, "out.pcapng")
	if random.IntN(3) == 0 {
		t.Log("in somebody else's directory")
		c.must(os.Chown(disk, systest.Volume, systest.Volume))
	}
	summary := filepath.Join(t.TempDir(), "summary.json")

	write := []string{c.file}
	if e.stream != nil {
		c.reader = c.listenForStream(e.stream)
		write = append([]string{c.reader.url()}, c.reader.flags...)
	}
	args := append(append([]string{"-i", c.pair.RxName, "--json=" + summary, "-w"}, write...), e.args...)
	if e.args == nil {
		for _, some := range [][]string{{"-s", "96"}, {"-U"}, {"-B", "256k"}, {"--sample", "3"}, {"--max-rate", "1000"}, {"--transport", "ring"}, {"udp"}} {
			// At a limited rate too few packets may arrive to fill the last page of a disk.
			if random.IntN(4) == 0 && !(e.name == "disk full" && some[0] == "--max-rate") {
				args = append(args, some...)
			}
		}
	}
	t.Logf("xdpcap %q", args)
	if e.memory == 0 {
		c.capture = systest.Listening(t, c.pair.Rx, nil, args...)
	} else {
		c.openFIFO()
		c.group = systest.MemoryCgroup(t, e.memory)
		c.capture = systest.StartCommand(t, c.pair.Rx, nil, systest.Surroundings{Cgroup: c.group.Directory}.Command(t, args...)).Listening()
	}
	if e.args == nil {
		c.disturb()
	}
	c.settle()
	e.end(c)
	status, stderr := c.capture.Wait()
	if status != e.status {
		t.Errorf("exit status %d, want %d: %s", status, e.status, stderr)
	}
	testnet.WaitFor(t, "the kernel to detach", func() bool { return systest.Attached(t, c.pair) == "" })
	if e.status >= 0 {
		c.checkAccount(summary)
	}
}

// disturb sends packets, and causes a few disturbances meanwhile.
func (c *chaos) disturb() {
	stop := c.send()
	defer stop()
	for range 2 + c.random.IntN(3) {
		d := disturbances[c.random.IntN(len(disturbances))]
		c.t.Log(d.name)
		d.do(c)
	}
}

// send sends frames, a hundred at a time, until the returned function is called.
func (c *chaos) send() (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			c.burst(100)
			select {
			case <-quit:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// burst sends this many frames. Some of them fail while a link is down.
func (c *chaos) burst(frames int) {
	c.sending.Lock()
	defer c.sending.Unlock()
	for range frames {
		c.sender.Send(testnet.UDPFrame(200, c.sent))
		c.sent++
	}
}

// markerType is an EtherType for local experiments (IEEE 802).
const markerType = 0x88b5

// openWitness opens a socket that gets the frames with that EtherType, on any interface.
func (c *chaos) openWitness() {
	err := c.pair.Rx.Do(func() (err error) {
		c.witness, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, int(systest.Htons(markerType)))
		return err
	})
	c.must(err)
	c.t.Cleanup(func() { unix.Close(c.witness) })
	c.must(unix.SetsockoptTimeval(c.witness, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 100_000}))
}

// settle waits until all sent frames have passed the XDP hook: a last frame, on an interface with
// one queue, has reached the stack.
func (c *chaos) settle() {
	c.t.Helper()
	marker := make([]byte, 60)
	copy(marker, testnet.UDPFrame(60, 0)[:12]) // the addresses
	binary.BigEndian.PutUint16(marker[12:], markerType)
	got := make([]byte, len(marker))
	testnet.WaitFor(c.t, "the last frame", func() bool {
		c.sent++
		binary.BigEndian.PutUint64(marker[14:], c.sent)
		if c.sender.Send(marker) != nil { // the first frame after the link was down
			return false
		}
		for {
			if _, err := unix.Read(c.witness, got); err != nil {
				return false
			}
			if binary.BigEndian.Uint64(got[14:]) == c.sent {
				return true
			}
		}
	})
	testnet.WaitHandled(c.t) // the driver counts after the last frame has reached the stack
	var err error
	c.counted, err = c.pair.XDPPackets()
	c.must(err)
}

// checkAccount compares the capture's summary with the driver's counter and with the file.
func (c *chaos) checkAccount(path string) {
	c.t.Helper()
	text, err := os.ReadFile(path)
	c.must(err)
	s := systest.Account(c.t, string(text))
	if _, err := c.pair.XDPPackets(); err == nil { // the interface is still there
		testnet.WaitFor(c.t, "the driver to count its last batch", func() bool {
			c.counted, err = c.pair.XDPPackets()
			return err != nil || c.counted >= s.Seen
		})
	}
	if s.Seen != c.counted {
		c.t.Errorf("the account has %d packets, the driver %d: %s", s.Seen, c.counted, text)
	}
	if c.reader != nil {
		c.reader.check(s)
		return
	}
	if _, err := os.Stat(c.file); err == nil && s.Captured > 0 { // otherwise the file is gone or spoiled
		c.checkFile(s)
	}
}

func (c *chaos) checkFile(s systest.Summary) {
	c.t.Helper()
	records, r := systest.ReadFile(c.t, c.file)
	if uint64(len(records)) != s.Captured {
		c.t.Errorf("%d packets in the file, summary %+v", len(records), s)
	}
	ifi, err := r.Interface(0)
	c.must(err)
	if ifi.Statistics.PacketsReceived != s.Seen {
		c.t.Errorf("statistics %+v, summary %+v", ifi.Statistics, s)
	}
}

func (c *chaos) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *chaos) inTx(do func(netlink.Link) error) {
	c.t.Helper()
	c.must(c.pair.Tx.Do(func() error {
		l, err := netlink.LinkByName(c.pair.TxName)
		if err != nil {
			return err
		}
		return do(l)
	}))
}

// whileDown calls a function while the interface is down. No packets are in flight when it goes
// down and when it comes up, because the driver counts packets for a moment without running the
// program.
func (c *chaos) whileDown(do func()) {
	c.t.Helper()
	c.sending.Lock()
	defer c.sending.Unlock()
	c.settle()
	systest.InRx(c.t, c.pair, netlink.LinkSetDown)
	do()
	systest.InRx(c.t, c.pair, netlink.LinkSetUp)
}

// signals ends a capture by these signals, one directly after the other.
func signals(signals ...syscall.Signal) func(c *chaos) {
	return func(c *chaos) {
		for _, s := range signals {
			c.must(c.capture.Cmd.Process.Signal(s))
		}
	}
}

// held stops the process, calls a function, fills its ring, and continues the process. No more
// packets arrive when the process ends because of the function.
func held(do func(c *chaos)) func(c *chaos) {
	return func(c *chaos) {
		if !systest.TryStopProcess(c.t, c.capture) {
			return // on a busy machine its time had already passed
		}
		do(c)
		c.burst(300)
		c.settle()
		systest.ContinueProcess(c.t, c.capture)
	}
}

// smallDisk creates a file system that fillDisk can fill.
func smallDisk(t *testing.T) string {
	dir := systest.DirectoryFor(t, 0)
	testnet.MustMount(t, "tmpfs", dir, 0, "size=64m,mode=755")
	return dir
}

// fillDisk leaves no room on the file's file system.
func fillDisk(c *chaos) {
	f, err := os.Create(c.file + ".large")
	c.must(err)
	defer f.Close()
	zeros := make([]byte, 1<<20)
	for err == nil {
		_, err = f.Write(zeros)
	}
	if !errors.Is(err, unix.ENOSPC) {
		c.t.Fatal(err)
	}
}

// replaceFile replaces the capture's file by another one, as an editor or a log rotator does.
func replaceFile(c *chaos) {
	c.must(os.Rename(c.file, c.file+".old"))
	c.must(os.WriteFile(c.file, nil, 0o600))
	c.file += ".old"
}

// rename renames the interface. Linux before 6.2 allows that only while it is down.
func rename(c *chaos) {
	name := fmt.Sprintf("rx%d", c.random.IntN(1000)+1)
	c.whileDown(func() {
		systest.InRx(c.t, c.pair, func(l netlink.Link) error { return netlink.LinkSetName(l, name) })
		c.pair.RxName = name
	})
}

// secondCapture is refused if the kernel cannot trace. Otherwise it captures the same packets as
// the first.
func secondCapture(c *chaos) {
	other := systest.Start(c.t, c.pair.Rx, nil, "-i", c.pair.RxName, "-w", os.DevNull)
	want := 1
	select {
	case <-other.Ready:
		other.Cmd.Process.Signal(os.Interrupt)
		want = 0
	case <-other.Done:
	}
	if status, stderr := other.Wait(); status != want {
		c.t.Errorf("a second capture: exit status %d, want %d: %s", status, want, stderr)
	}
}

// littleMemory is enough for a capture, and for some packets.
const littleMemory = 40 << 20

// openFIFO makes the file a FIFO without a reader.
func (c *chaos) openFIFO() {
	c.must(unix.Mkfifo(c.file, 0o600))
	var err error
	c.fifo, err = os.OpenFile(c.file, os.O_RDONLY|unix.O_NONBLOCK, 0)
	c.must(err)
	c.t.Cleanup(func() { c.fifo.Close() })
}

// stalledReader sends more packets than fit into memory, ends the capture, and only then reads.
func stalledReader(c *chaos) {
	const size = 1400
	for range 2 * littleMemory / size {
		// While the kernel is busy, the interface's queue may have no room.
		if err := c.sender.Send(testnet.UDPFrame(size, c.sent)); !errors.Is(err, unix.ENOBUFS) {
			c.must(err)
		}
		c.sent++
	}
	c.settle()
	if most := c.group.PeakMemory(); most > littleMemory*9/10 {
		c.t.Errorf("it took %d bytes of %d", most, littleMemory)
	}
	signals([]syscall.Signal{syscall.SIGINT, syscall.SIGTERM}[c.random.IntN(2)])(c)
	text, err := io.ReadAll(c.fifo)
	c.must(err)
	c.file += ".read"
	c.must(os.WriteFile(c.file, text, 0o600))
}
