package files_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// recordedNumbers returns the numbers of the frames in a recorder's file, which must be
// consecutive, and the time of each.
func recordedNumbers(t *testing.T, path string) (numbers []uint64, times []time.Time) {
	t.Helper()
	records, _ := systest.ReadFile(t, path)
	for i, rec := range records {
		n, ok := testnet.Sequence(rec.Data)
		if !ok || i > 0 && n != numbers[i-1]+1 {
			t.Fatalf("%s: packet %d has the number %d behind %d", path, i, n, numbers[i-1])
		}
		numbers, times = append(numbers, n), append(times, rec.CI.Timestamp)
	}
	return numbers, times
}

// After a filter has matched, the file has exactly as many packets up to the matching one as fit
// into the memory, and those within --post after it. This holds for both transports and at full
// rate.
func TestRecorderAtRate(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"perf", "ring"} {
		t.Run(transport, func(t *testing.T) {
			pair := testnet.MustPair(t, testnet.PairOptions{})
			file := systest.TempFile(t)
			const size, ring, post = 100, 2 << 20, 20 * time.Millisecond
			frames := testnet.Volume(200_000)
			fired := frames / 2
			p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--ring", "2M", "--post", post.String(), "--transport", transport,
				"--trigger", fmt.Sprintf("udp[12:4] = %d", fired), "--json", "-B", systest.RingFor(frames, size))
			testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(size, 0), Count: frames, Rate: 400_000})
			first := strings.Replace(file, ".pcapng", "-1.pcapng", 1)
			systest.WaitForFile(t, p, first)
			s := systest.Account(t, p.Interrupt())
			numbers, times := recordedNumbers(t, first)
			if s.Seen != frames || s.Lost != 0 || s.Captured != uint64(len(numbers)) || s.NotRecorded != s.NotSampled || len(s.Notices) != 1 {
				t.Errorf("summary %+v, %d packets in the file", s, len(numbers))
			}
			before := min(uint64(ring/(96+104)), fired+1) // with the packet that fired
			if numbers[0] != fired+1-before {
				t.Errorf("the file begins with the number %d, want %d", numbers[0], fired+1-before)
			}
			end := times[before-1].Add(post)
			if last := times[len(times)-1]; last.After(end) {
				t.Errorf("the last packet came %v after the time", last.Sub(end))
			}
			if uint64(len(times)) == before && frames > 10_000 {
				t.Error("no packets follow")
			}
			if info := systest.OutputOf(t, "capinfos", first); !strings.Contains(info, "recorded because of: udp[12:4] = ") {
				t.Errorf("the file does not say why: %s", info)
			}
			if files, _ := filepath.Glob(filepath.Dir(file) + "/*"); len(files) != 1 {
				t.Errorf("files: %v", files)
			}
		})
	}
}

// Each SIGUSR2 makes a file of the packets since the last one; without a signal there is no file.
// Files of an earlier recorder stay. At the end the remaining packets are written only with
// --trigger end.
func TestRecorderSIGUSR2(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	name := func(n int) string { return strings.Replace(file, ".pcapng", fmt.Sprintf("-%d.pcapng", n), 1) }
	testnet.Must(t, os.WriteFile(name(2), []byte("old"), 0o600))
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--ring", "1M", "--trigger", "end", "--json")
	var want []uint64
	for i, n := range []int{1, 3, 4, 5} {
		testnet.Send(t, pair, testnet.UDPFrame(100, uint64(2*i)), testnet.UDPFrame(100, uint64(2*i+1)))
		want = []uint64{uint64(2 * i), uint64(2*i + 1)}
		var said string
		if n < 5 {
			p.Cmd.Process.Signal(unix.SIGUSR2)
			said = systest.WaitForFile(t, p, name(n))
		} else {
			s := systest.Account(t, p.Interrupt())
			if said = s.Notices[3]; s.Captured != 8 || s.NotRecorded != 0 {
				t.Errorf("summary %+v", s)
			}
		}
		numbers, _ := recordedNumbers(t, name(n))
		if diff := cmp.Diff(want, numbers); diff != "" {
			t.Errorf("%s: %s", name(n), diff)
		}
		why := "SIGUSR2"
		if n == 5 {
			why = "the end of the capture"
		}
		if !strings.Contains(said, "2 packets recorded because of: "+why+", at ") {
			t.Errorf("said: %s", said)
		}
	}
	if old, _ := os.ReadFile(name(2)); string(old) != "old" {
		t.Error("the old file was written over")
	}

	// Without a trigger there is no file.
	p = systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file+".zst", "--ring", "1M", "--json", "-c", "5")
	for i := range uint64(5) {
		testnet.Send(t, pair, testnet.UDPFrame(100, i))
	}
	_, stderr := p.Wait()
	if s := systest.Account(t, stderr); s.Captured != 0 || s.NotRecorded != 5 || s.Seen != 5 {
		t.Errorf("summary %+v", s)
	}
	if files, _ := filepath.Glob(file + "x*"); len(files) > 0 {
		t.Errorf("files: %v", files)
	}
}

// Packets that fire a trigger repeatedly make no more files than the interval and the limits allow,
// and few notices. A recorder that is started again goes on with its earlier files.
func TestRecorderBounded(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := t.TempDir()
	other := filepath.Join(dir, "out-x.pcapng")
	testnet.Must(t, os.WriteFile(other, nil, 0o600))
	const frames, rate, most = 3000, 2000, 3
	const alikeNotices = 10 // that are printed in full
	for range 2 {
		p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", filepath.Join(dir, "out.pcapng"), "--ring", "1M", "--trigger", "udp",
			"--trigger-interval", "100ms", "-W", fmt.Sprint(most), "--json")
		sent, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(100, 0), Count: frames, Rate: rate})
		s := systest.Account(t, p.Interrupt())
		out, intervals := s.Outputs[0], uint64(sent.Elapsed/(100*time.Millisecond))
		if out.Recordings == nil || *out.Recordings < 2 || *out.Recordings > intervals+2 || *out.Recordings+out.TriggersPassedOver != arrived {
			t.Errorf("%d packets in %v: summary %+v", arrived, sent.Elapsed, s)
		}
		if told := uint64(len(s.Notices)) + s.NoticesOmitted; len(s.Notices) > 2*alikeNotices || told != *out.Recordings {
			t.Errorf("%d notices, and %d more, of %d recordings", len(s.Notices), s.NoticesOmitted, *out.Recordings)
		}
		files, _ := filepath.Glob(filepath.Join(dir, "out-*"))
		if len(files) != most+1 || !slices.Contains(files, other) {
			t.Errorf("files %v", files)
		}
	}
}

// A verdict, its rate, and a loss are triggers, too.
func TestRecorderTriggers(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	target := testnet.MustTarget(t, pair, testnet.HookedFrags)
	hook := systest.PinHook(t, target.Hook())
	pass, drop, abort := testnet.TxToRx().UDP(1000, 53, []byte("p")), testnet.TxToRx().UDP(1000, testnet.DropPort, []byte("d")),
		testnet.TxToRx().UDP(1000, testnet.AbortPort, []byte("a"))
	record := func(trigger string, packets int, send func(p *systest.Process)) {
		t.Helper()
		file := systest.TempFile(t)
		p := systest.Listening(t, pair.Rx, nil, "--hook", hook, "-w", file, "--ring", "1M", "--trigger", trigger, "--json", "-B", "128k")
		send(p)
		said := systest.WaitForFile(t, p, strings.Replace(file, ".pcapng", "-1.pcapng", 1))
		s := systest.Account(t, p.Interrupt())
		recorded := 0
		files, _ := filepath.Glob(strings.Replace(file, ".pcapng", "-*.pcapng", 1)) // each CPU may have a loss of its own
		for _, name := range files {
			records, _ := systest.ReadFile(t, name)
			recorded += len(records)
		}
		if packets > 0 && (recorded != packets || len(files) != 1) || uint64(recorded) != s.Captured ||
			!strings.Contains(said, "recorded because of: "+trigger+", at ") || len(s.Notices) < 1 {
			t.Errorf("%s: %d packets in %q, said %s, summary %+v", trigger, recorded, files, said, s)
		}
	}
	record("aborted", 4, func(*systest.Process) { testnet.Send(t, pair, pass, drop, pass, abort) })
	record("drop > 3/s", 5, func(*systest.Process) {
		testnet.Send(t, pair, abort)
		testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: drop, Raw: true, Count: 4}) // all at once
	})
	record("lost", 0, func(p *systest.Process) {
		systest.StopProcess(t, p)
		testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(1000, 0), Count: 1000})
		systest.ContinueProcess(t, p)
		testnet.WaitFor(t, "packets after the loss", func() bool {
			testnet.Send(t, pair, pass)
			return strings.Contains(p.Stderr(), "recorded because")
		})
	})
}

// Contradicting flags are refused in one line.
func TestRecorderMistakes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, want string }{
		{"--ring 64M", "--ring: each trigger makes a file: add -w out.pcapng, for out-1.pcapng, out-2.pcapng and so on"},
		{"--ring 64M -w -", "--ring: each trigger makes a file: add -w out.pcapng, for out-1.pcapng, out-2.pcapng and so on"},
		{"--ring 1M -w x -C 10", "-C and --ring: each trigger makes a file: choose one"},
		{"--ring 1M -w x -z gzip", "-z and --ring: each trigger makes a file: choose one"},
		{"--ring 0 -w x", "--ring 0: must be at least 1M"},
		{"--ring 10k -w x", "--ring 10240: must be at least 1M"},
		{"--ring 9000G -w x", "--ring: a recorder of 9216000 MiB would leave less than a quarter of the available memory, which is "},
		{"--trigger drop -w x", "--trigger: nothing is kept in memory: add --ring SIZE"},
		{"--post 3 -w x", "--post: nothing is kept in memory: add --ring SIZE"},
		{"--ring 1M -w x --trigger drop>5", "--trigger: drop>5: a rate is a number of packets per second: drop>1000/s"},
		{"--ring 1M -w x --trigger nonsense", `--trigger: "nonsense" is none of these: a verdict, slower:5us, lost, reason:NAME, retransmit, any of them as drop>1000/s, end, or a filter: `},
		{"--ring 1M -w x --trigger slower:5", "--trigger: slower:5: the time must be above zero and at most 4.294967295s, with its unit: slower:5us"},
		{"--ring 1M -w x --trigger slower:5us --rx-capture entry", "--trigger: only packets that leave a program have a run time: add --rx-capture exit"},
		{"--ring 1M -w x --trigger drop --rx-capture entry", "--trigger: only packets that leave a program have a verdict: add --rx-capture exit"},
		{"--ring 1M -w x -W 0", "-W 0: must be at least 1"},
		{"--ring 1M -w x -a files:3", "-a files, -a filesize and --ring: each trigger makes a file: choose one"},
		{"--trigger-interval 2 -w x", "--trigger-interval: nothing is kept in memory: add --ring SIZE"},
		{"--ring 64M -w /tmp/", "-w /tmp/: it is a directory: name a file in it: -w /tmp/out.pcapng"},
		{"--ring 1M -w /nonexistent/x", "-w: create files in /nonexistent: no such file or directory"},
	} {
		cmd := systest.Command(append([]string{"-i", "lo"}, strings.Fields(test.args)...)...)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.HasPrefix(string(out), "xdpcap: "+test.want) || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%s: %v: %s", test.args, err, out)
		}
	}
}

// If the disk has less free space than --min-free, the capture is refused before it begins.
func TestMinFreeTooLarge(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"", "-C 1 -W 5", "-b files:5 -b packets:9"} {
		args := append([]string{"-i", "none0", "-w", systest.TempFile(t), "--min-free", "100000G"}, strings.Fields(flags)...)
		out, err := systest.Command(args...).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "iB free, and 97.7 TiB must stay free") || strings.Count(string(out), "\n") != 1 {
			t.Errorf("%s: %v: %s", flags, err, out)
		}
	}
}
