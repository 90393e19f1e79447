package capture_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/cli/capture"
	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// CompanionKeys is the output of --json about counters.
type CompanionKeys = capture.CompanionKeys

// fileStatistics returns the statistics of a file, in order, each with the counters in its
// comments.
func fileStatistics(t *testing.T, path string) (all []pcapng.Statistics, counted []CompanionKeys) {
	t.Helper()
	file := systest.ReadBytes(t, path)
	for len(file) >= pcapng.HeaderSize {
		n, _, err := pcapng.BlockLength(file[:pcapng.HeaderSize], false)
		testnet.Must(t, err)
		if n > len(file) {
			break // a truncated file
		}
		block := pcapng.Block{Raw: file[:n], Type: uint32(file[0])}
		file = file[n:]
		if block.Type != pcapng.TypeStatistics {
			continue
		}
		s, _ := pcapng.ParseStatistics(block)
		var k CompanionKeys
		for _, comment := range block.Comments() {
			if !strings.HasPrefix(comment, "{") {
				continue
			}
			if err := json.Unmarshal([]byte(comment), &k); err != nil {
				t.Errorf("comment %s: %v", comment, err)
			}
		}
		all, counted = append(all, s), append(counted, k)
	}
	return all, counted
}

// packetsOf returns how many packets each kind of counter has seen, of all interfaces and
// directions.
func packetsOf(k CompanionKeys) (stats, count, latency uint64) {
	for _, r := range k.Stats {
		stats += r.Total.Packets
	}
	for _, r := range k.Count {
		count += r.Total.Packets
	}
	for _, r := range k.Latency {
		latency += r.Total.Runs
	}
	return stats, count, latency
}

// A stream sends numbered frames, one after the other, until it is stopped. It omits none: it waits
// while a busy kernel has many of them in the receiver's queue, which has room for 256.
type stream struct {
	stop, stopped chan struct{}
	begun         chan struct{} // closed when some were sent
}

func startStream(t *testing.T, pair *testnet.Pair) *stream {
	t.Helper()
	sender := testnet.MustSender(t, pair)
	s := &stream{make(chan struct{}), make(chan struct{}), make(chan struct{})}
	arrived := func() uint64 {
		now := testnet.MustStats(t, pair)
		return now.Delivered + now.Dropped
	}
	before := arrived()
	go func() {
		defer close(s.stopped)
		for seq := uint64(0); ; seq++ {
			if seq > 0 && seq%100 == 0 {
				// Frames in the queue when a capture ends never arrive, so the wait is limited.
				for limit := time.Now().Add(time.Second); arrived() < before+100 && time.Now().Before(limit); {
					time.Sleep(time.Millisecond)
				}
				before = arrived()
			}
			select {
			case <-s.stop:
				return
			default:
			}
			if err := sender.Send(testnet.UDPFrame(100, seq)); err != nil {
				t.Error(err)
				return
			}
			if seq == 10 {
				close(s.begun)
			}
			time.Sleep(time.Duration(float64(time.Second) / testnet.Rate(10_000))) // the capture needs time
		}
	}()
	<-s.begun
	return s
}

func (s *stream) end() {
	close(s.stop)
	<-s.stopped
}

// numbersOf returns the first and the last number of the frames in a file, and checks that all
// between are there.
func numbersOf(t *testing.T, packets [][]byte) (first, last uint64) {
	t.Helper()
	for i, data := range packets {
		n, ok := testnet.Sequence(data)
		if !ok {
			t.Fatalf("packet %d has no number", i)
		}
		if i == 0 {
			first = n
		} else if n != last+1 {
			t.Fatalf("behind frame %d comes frame %d", last, n)
		}
		last = n
	}
	return first, last
}

// A capture begins and ends while frames are sent all the time. Its file, its account and its
// counters have the same frames.
func TestCompanionsAgree(t *testing.T) {
	t.Parallel()
	for i, args := range [][]string{
		{"--transport", "perf"},
		{"--transport", "ring", "--sizes", "--flows", "3", "--counter-interval", "200ms"},
	} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			frames := startStream(t, pair)
			file := systest.TempFile(t)
			p := systest.Listening(t, pair.Rx, nil, append([]string{"-i", "rx0", "-w", file, "--json", "--count"}, args...)...)
			testnet.WaitFor(t, "packets and, if there are any, statistics in the file", func() bool {
				if systest.FileSize(file) < 8_000 {
					return false
				}
				all, _ := fileStatistics(t, file)
				return len(args) == 2 || len(all) > 0
			})
			s := systest.Account(t, p.Interrupt())
			frames.end()
			records, _ := systest.ReadFile(t, file)
			first, last := numbersOf(t, datas(records))
			n := last - first + 1
			_, count, _ := packetsOf(s.CompanionKeys)
			statistics, counted := fileStatistics(t, file)
			_, inFile, _ := packetsOf(counted[len(counted)-1])
			if got := statistics[len(statistics)-1]; s.Seen != n || s.Captured != n || count != n || inFile != n || got.Received != n || got.Delivered != n {
				t.Errorf("frames %d to %d are %d; seen %d, captured %d, counted %d, in the file's comment %d, in its statistics %+v",
					first, last, n, s.Seen, s.Captured, count, inFile, got)
			}
			r := s.Count[0]
			if r.Total.Bytes != 100*n || len(r.Protocols) != 1 || r.Protocols[0].Protocol != "udp" || r.Interface != "rx0" || r.Direction != "in" {
				t.Errorf("%+v", r)
			}
			if len(args) == 2 {
				return
			}
			if r.Sizes[1].Packets != n || len(r.Flows) != 1 || r.Flows[0].Packets != n {
				t.Errorf("sizes %+v, flows %+v", r.Sizes, r.Flows)
			}
			// The statistics at an interval add up, too, and never decrease.
			for i, st := range statistics {
				_, now, _ := packetsOf(counted[i])
				if st.Received != st.Delivered+st.Dropped || now < st.Delivered || i > 0 && st.Delivered < statistics[i-1].Delivered {
					t.Errorf("statistics %d: %+v, counted %d", i, st, now)
				}
			}
			if len(statistics) < 2 {
				t.Errorf("%d times statistics in %v", len(statistics), s.Duration)
			}
		})
	}
}

// Packets that are filtered out, not sampled, or after the limit of -c are counted, too, in the
// metrics and with --account, which writes no other output.
func TestCompanionsSeeAll(t *testing.T) {
	t.Parallel()
	const frames = 60
	for i, c := range []struct {
		args     []string
		captured uint64
		sent     uint64 // counted at egress
		bytes    uint64 // captured of the received packets; 0 = any number
		within   uint64 // each CPU draws from its own packets, so its last group may have one more or one fewer
	}{
		{args: []string{"--sample", "3"}, captured: frames / 3, within: uint64(runtime.NumCPU()) - 1},
		{args: []string{"tcp"}},
		{args: []string{"--sample-flows", "2", "--first", "1", "udp"}, captured: 1},
		{args: []string{"-Q", "inout", "--snapshot-length", "60"}, captured: frames + 2, sent: 2, bytes: 60 * frames},
		{args: []string{"-Q", "inout"}, captured: frames + 2, sent: 2, bytes: 100 * frames},
	} {
		if i < 2 && testnet.Emulated() || !testnet.Shared(i) {
			continue
		}
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			stdout := systest.NewPipe(t)
			p := systest.Listening(t, pair.Rx, stdout.In, append([]string{"-i", "rx0", "--account", "--json", "--count", "--listen", "127.0.0.1:0"}, c.args...)...)
			systest.SendNumbered(t, pair, frames, 100)
			systest.SendBack(t, pair, slices.Repeat([][]byte{testnet.TxToRx().Reverse().UDP(1000, 53, nil)}, int(c.sent))...)
			for direction, n := range map[string]uint64{"in": frames, "out": c.sent} {
				if n > 0 {
					systest.WaitMetric(t, pair, p, fmt.Sprintf("xdpcap_protocol_packets_total{direction=%q,family=\"ipv4\",interface=\"rx0\",protocol=\"udp\"} %d\n", direction, n))
				}
			}
			if c.bytes > 0 {
				systest.WaitMetric(t, pair, p, fmt.Sprintf("xdpcap_captured_bytes_total{hook=\"xdp\",interface=\"rx0\",program=\"\",program_id=\"\"} %d\n", c.bytes))
			}
			s := systest.Account(t, p.Interrupt())
			if printed := stdout.Read(t); printed != "" {
				t.Errorf("printed: %s", printed)
			}
			_, count, _ := packetsOf(s.CompanionKeys)
			if n := frames + c.sent; s.Seen != n || count != n || c.captured > 1 && s.Captured+c.within < c.captured || s.Captured > c.captured+c.within {
				t.Errorf("%d seen, %d counted, %d captured; want %d and %d", s.Seen, count, s.Captured, n, c.captured)
			}
		})
	}
}

// SIGUSR1 and the end of the capture print tables for each interface.
func TestCompanionTables(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	p := systest.Listening(t, pair.Rx, nil, "-i", "rx0", "-i", "lo", "--account", "--count", "--sizes", "--xdp-mode", "generic")
	testnet.Send(t, pair, testnet.UDPFrame(100, 1), testnet.UDPFrame(200, 2))
	testnet.WaitHandled(t) // in generic mode the kernel runs the program after the driver has counted
	p.Cmd.Process.Signal(unix.SIGUSR1)
	testnet.WaitFor(t, "the tables", func() bool { return strings.Contains(p.Stderr(), "lo, received, over") })
	said := p.Interrupt()
	for _, want := range []string{
		"  rx0, received, over ",
		"FAMILY  PROTOCOL  PACKETS  BYTES  PACKETS/S  BIT/S\n",
		"  lo, received, over ",
	} {
		if n := strings.Count(said, want); n < 2 {
			t.Errorf("%d times %q: %s", n, want, said)
		}
	}
	if strings.Count(strings.Join(strings.Fields(said), " "), "total 2 300 ") != 2 {
		t.Error(said)
	}
}

// A capture that is killed leaves a file with the counters of the last interval.
func TestCompanionsAfterKill(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"out.pcapng", "out.pcapng.gz", "out.pcapng.zst"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			dir := t.TempDir()
			file := dir + "/" + name
			p := systest.Listening(t, pair.Rx, nil, "-i", "rx0", "-w", file, "--count", "--counter-interval", "10ms")
			testnet.Send(t, pair, testnet.UDPFrame(100, 1), testnet.UDPFrame(100, 2))
			plain := file
			last := func() (received, count uint64) {
				if plain = file; !strings.HasSuffix(name, ".pcapng") {
					plain = dir + "/plain.pcapng"
					var out bytes.Buffer
					systest.Unpack(t, &out, systest.ReadBytes(t, file)) // up to where the file ends
					testnet.Must(t, os.WriteFile(plain, out.Bytes(), 0o600))
				}
				all, counted := fileStatistics(t, plain)
				if len(all) == 0 {
					return 0, 0
				}
				_, count, _ = packetsOf(counted[len(counted)-1])
				return all[len(all)-1].Received, count
			}
			testnet.WaitFor(t, "statistics in the file", func() bool { received, count := last(); return received == 2 && count == 2 })
			p.Cmd.Process.Kill()
			p.Wait()
			if received, count := last(); received != 2 || count != 2 {
				t.Errorf("received %d, counted %d", received, count)
			}
			if records, _ := systest.ReadFile(t, plain); len(records) != 2 {
				t.Errorf("%d packets", len(records))
			}
		})
	}
}

// The verdicts and the run time of a traced program are counted, whether its entry, its exit or
// both are recorded, even if the capture begins and ends while frames are sent.
func TestCompanionsOfTraced(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	for i, at := range []string{"entry", "exit", "entry,exit"} {
		if !testnet.Shared(i) {
			continue
		}
		t.Run(at, func(t *testing.T) {
			pair := testnet.MustPair(t, testnet.PairOptions{})
			testnet.MustTarget(t, pair, testnet.Rewriting)
			frames := startStream(t, pair)
			file := systest.TempFile(t)
			flows := fmt.Sprint(i) // with flow counters, all protocols are counted at the exit
			p := systest.Listening(t, pair.Rx, nil, "-i", "rx0", "-w", file, "--json", "--rx-capture", at, "--stats", "--count", "--latency", "--flows", flows, "--listen", "127.0.0.1:0")
			testnet.WaitFor(t, "packets in the file", func() bool { return systest.FileSize(file) > 8_000 })
			metrics := systest.Scrape(t, pair, systest.MetricsURL(t, p))
			for _, want := range []string{
				`xdpcap_verdict_packets_total{interface="rx0",verdict="pass"} `,
				`xdpcap_protocol_packets_total{direction="in",family="ipv4",interface="rx0",protocol="udp"} `,
				`xdpcap_latency_seconds_count{interface="rx0",verdict="pass"} `,
			} {
				if !strings.Contains(metrics, want) {
					t.Errorf("no %s in %s", want, metrics)
				}
			}
			s := systest.Account(t, p.Interrupt())
			frames.end()
			packets := make(map[string][][]byte)
			for _, p := range systest.ReadTraced(t, file) {
				packets[p.Hook] = append(packets[p.Hook], p.Data)
			}
			statistics, inFile := fileStatistics(t, file)
			all := CompanionKeys{}
			for _, k := range inFile {
				all.Stats, all.Count, all.Latency = append(all.Stats, k.Stats...), append(all.Count, k.Count...), append(all.Latency, k.Latency...)
			}
			for i, src := range s.Interfaces {
				first, last := numbersOf(t, packets["f"+src.Hook])
				n := last - first + 1
				if got := statistics[i]; src.Seen != n || src.Captured != n || got.Received != n || got.Delivered != n {
					t.Errorf("%s: frames %d to %d are %d; seen %d, captured %d, statistics %+v", src.Hook, first, last, n, src.Seen, src.Captured, got)
				}
				for where, k := range map[string]CompanionKeys{"the object": s.CompanionKeys, "the file": all} {
					if stats, count, latency := packetsOf(k); stats != n || count != n || latency != n {
						t.Errorf("%s has %d frames, and %s %d verdicts, %d by protocol, %d run times", src.Hook, n, where, stats, count, latency)
					}
				}
			}
			if r := s.Count[0]; i > 0 && (len(r.Flows) != 1 || r.Flows[0].Packets != r.Total.Packets || r.Flows[0].Verdict != "pass") {
				t.Errorf("flows %+v of %+v", r.Flows, r.Total)
			}
			if r := s.Latency[0]; r.Method != systest.ByTrace || r.Program == "" || r.Total.Min == 0 || r.Added != nil {
				t.Errorf("%+v", r)
			}
		})
	}
}

// The counters are those of one program.
func TestCompanionsOfOneProgram(t *testing.T) {
	t.Parallel()
	testnet.RequireFentry(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	testnet.MustDispatcher(t, pair)
	status, said := systest.Start(t, pair.Rx, nil, "-i", "rx0", "--account", "--program", "all", "--stats").Wait()
	if status != 1 || !strings.Contains(said, "rx0: several programs are traced there, but a counter is for one of them: choose it with --program") {
		t.Errorf("status %d: %s", status, said)
	}
}

// A capture's counters have all packets it has seen, for every way to end it and any number of
// files.
func TestCompanionsAtEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		ends bool // whether it ends by itself
	}{
		{[]string{"-c", "50"}, true},
		{[]string{"--duration", "300ms"}, true},
		{[]string{"-C", "4k"}, false},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			frames := startStream(t, pair)
			defer frames.end()
			var dir string
			var s systest.Summary
			testnet.WaitFor(t, "a capture that sees packets", func() bool { // on a busy machine no packet may arrive in 300 ms
				dir = t.TempDir()
				p := systest.Listening(t, pair.Rx, nil, append([]string{"-i", "rx0", "-w", dir + "/out.pcapng", "--json", "--count"}, c.args...)...)
				if !c.ends {
					testnet.WaitFor(t, "the third file", func() bool { _, err := os.Stat(dir + "/out.pcapng2"); return err == nil })
					p.Cmd.Process.Signal(os.Interrupt)
				}
				status, said := p.Wait()
				s = systest.Account(t, said)
				_, count, _ := packetsOf(s.CompanionKeys)
				if status != 0 || count != s.Seen {
					t.Errorf("status %d, %d seen, %d counted", status, s.Seen, count)
				}
				return s.Seen > 0
			})
			files, err := filepath.Glob(dir + "/out.pcapng*")
			testnet.Must(t, err)
			var most, received uint64
			for _, file := range files {
				statistics, counted := fileStatistics(t, file)
				_, n, _ := packetsOf(counted[len(counted)-1])
				most, received = max(most, n), received+statistics[len(statistics)-1].Received
			}
			if most != s.Seen || received != s.Seen || !c.ends && len(files) < 3 {
				t.Errorf("%d seen; in %d files the last comment has %d, all statistics together %d", s.Seen, len(files), most, received)
			}
		})
	}
}
