package capture_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// tolerance is the allowed error of a stamp in a test that compares it with the time in another
// process.
const tolerance = 20 * time.Millisecond

// checkTime fails the test unless a time lies between two others.
func checkTime(t *testing.T, what string, at, from, to time.Time) {
	t.Helper()
	if at.Before(from.Add(-tolerance)) || at.After(to.Add(tolerance)) {
		t.Errorf("%s at %v, it was sent between %v and %v", what, at, from, to)
	}
}

// In a time namespace stamps are correct, --max-rate keeps packets, and packets do not wait for the
// end, although the monotonic clock there differs from that of BPF programs.
func TestTimeNamespace(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	const packets = 10
	send := func() { // until all have arrived, because a busy kernel processes them later
		systest.SendNumbered(t, pair, packets, 64)
	}
	for _, ahead := range []int{3600, -300} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			file := systest.TempFile(t)
			cmd := systest.Surroundings{Ahead: ahead}.Command(t, "-i", pair.RxName, "-w", file, "-c", fmt.Sprint(packets), "--max-rate", "1000000")
			p := systest.StartCommand(t, pair.Rx, nil, cmd).Listening()
			before := time.Now()
			send()
			after := time.Now()
			if status, stderr := p.Wait(); status != 0 {
				t.Fatalf("exit status %d: %s", status, stderr)
			}
			records, _ := systest.ReadFile(t, file)
			if len(records) != packets {
				t.Errorf("%d packets", len(records))
			}
			for _, r := range records {
				checkTime(t, "a packet", r.CI.Timestamp, before, after)
			}
		})
	}

	times := func(t *testing.T, end func(*systest.Process), args ...string) {
		t.Helper()
		out := systest.NewPipe(t)
		p := systest.StartCommand(t, pair.Rx, out.In, systest.Surroundings{Ahead: 3600}.Command(t, args...)).Listening()
		before := time.Now()
		send()
		after := time.Now()
		end(p)
		events := strings.Count(out.Read(t), "\n")
		for d := json.NewDecoder(strings.NewReader(out.Read(t))); d.More(); {
			var l struct{ Time time.Time }
			testnet.Must(t, d.Decode(&l))
			checkTime(t, "an event", l.Time, before, after)
		}
		if events != packets {
			t.Errorf("%d events", events)
		}
	}
	t.Run("monitor", func(t *testing.T) {
		testnet.MustReceiver(t, pair, xdp.Aborted, testnet.ReceiverOptions{})
		times(t, func(p *systest.Process) { p.Wait() }, "monitor", "-i", pair.RxName, "--record", fmt.Sprint(packets), "--json")
	})
}

// setClock sets the wall clock forward or back.
func setClock(t *testing.T, by time.Duration) {
	t.Helper()
	ts := unix.NsecToTimespec(time.Now().Add(by).UnixNano())
	testnet.Must(t, unix.ClockSettime(unix.CLOCK_REALTIME, &ts))
}

// After the wall clock was set, the next packet has the correct time. A clock that was set back is
// reported on stderr, and in the file at that packet.
func TestClockIsSet(t *testing.T) {
	if !testnet.Emulated() {
		t.Skip("it would set this machine's clock")
	}
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file)
	var from, to []time.Time
	// send waits until the packet is written, because a packet in the ring when the clock is set
	// may get the new time.
	testnet.WaitFor(t, "the header", func() bool { return systest.FileSize(file) > 0 })
	send := func() {
		size := systest.FileSize(file)
		from = append(from, time.Now())
		testnet.Send(t, pair, testnet.UDPFrame(64, uint64(len(from)))) // until it has arrived
		to = append(to, time.Now())
		testnet.WaitFor(t, "the packet to be written", func() bool { return systest.FileSize(file) > size })
	}
	send()
	setClock(t, time.Hour)
	send()
	send()
	setClock(t, -2*time.Hour)
	defer setClock(t, time.Hour)
	send()
	systest.WaitStderr(t, p, "the wall clock was set back by 2h0m")
	send()
	if stderr := p.Interrupt(); strings.Count(stderr, "wall clock") != 1 {
		t.Errorf("not one notice: %s", stderr)
	}
	records, _ := systest.ReadFile(t, file)
	if len(records) != len(from) {
		t.Fatalf("%d packets", len(records))
	}
	for i, r := range records {
		checkTime(t, fmt.Sprintf("packet %d", i), r.CI.Timestamp, from[i], to[i])
	}
	comments := strings.Split(systest.OutputOf(t, "tshark", "-n", "-r", file, "-T", "fields", "-e", "frame.comment"), "\n")
	if !strings.HasPrefix(comments[3], "the wall clock was set back by 2h0m") || strings.Count(strings.Join(comments, ""), "wall") != 1 {
		t.Errorf("the packets' comments are %q", comments)
	}
}

// With -j host_lowprec the clock is read once per poll, even for a user with only the capabilities
// of a capture. If the kernel does not report the end of a poll, or has no BTF to find it, stamps
// have the resolution of ticks, and a notice reports that. The file has the kind of its stamps.
func TestLowprec(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	three := []uintptr{unix.CAP_BPF, unix.CAP_NET_ADMIN, unix.CAP_PERFMON}
	const polls = "time stamps: host_lowprec; one for all packets of a NAPI poll on a CPU, and outside polls for all of a tick of the kernel's clock, which is every "
	const ticks = "time stamps: host_lowprec; that of the last tick of the kernel's clock, which is every "
	for i, test := range []struct {
		name      string
		given     systest.Surroundings
		transport string
		comment   string
		notice    string // "" = no notice
	}{
		{"root", systest.Surroundings{}, "ring", polls, ""},
		{"a user", systest.Surroundings{Capabilities: three}, "ring", polls, ""},
		{"no BTF", systest.Surroundings{Hidden: []string{"/sys/kernel"}}, "ring", ticks,
			"xdpcap: time stamps of the type host_lowprec have the resolution of the kernel's clock tick, "},
		{"perf", systest.Surroundings{}, "perf", ticks, ""},
	} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			file := systest.DirectoryFor(t, systest.Somebody(t)) + "/out.pcapng"
			p := systest.StartCommand(t, pair.Rx, nil, test.given.Command(t, "-i", pair.RxName, "-j", "host_lowprec",
				"--transport", test.transport, "-w", file, "-c", "6")).Listening()
			systest.SendRound(t, pair)
			status, said := p.Wait()
			if n := strings.Count(said, "host_lowprec"); status != 0 || !strings.Contains(said, test.notice) || (n == 0) != (test.notice == "") {
				t.Errorf("exit status %d: %s", status, said)
			}
			if got := systest.OutputOf(t, "capinfos", "-k", file); !strings.Contains(got, test.comment) {
				t.Errorf("the file says %s, want %s", got, test.comment)
			}
			if packets := systest.ReadTraced(t, file); len(packets) != 6 {
				t.Errorf("%d packets in the file", len(packets))
			}
		})
	}
}
