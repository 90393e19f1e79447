package files_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/pcapgo"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A seriesFile is the content of a file of a series.
type seriesFile struct {
	name       string
	size       int64
	numbers    []uint64 // of the frames
	stamps     []time.Time
	statistics pcapgo.NgInterfaceStatistics // zero in a pcap file
	cut        error                        // the error of a truncated file
}

// readSeries reads all files of a directory, in the order of their packets.
func readSeries(t *testing.T, dir string) (files []seriesFile) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	testnet.Must(t, err)
	for _, e := range entries {
		files = append(files, readSeriesFile(t, filepath.Join(dir, e.Name())))
	}
	slices.SortStableFunc(files, func(a, b seriesFile) int {
		if len(a.numbers) == 0 || len(b.numbers) == 0 {
			return 0
		}
		return int(a.numbers[0]) - int(b.numbers[0])
	})
	return files
}

func readSeriesFile(t *testing.T, path string) seriesFile {
	t.Helper()
	raw, err := os.ReadFile(path)
	testnet.Must(t, err)
	f := seriesFile{name: filepath.Base(path), size: int64(len(raw))}
	var plain bytes.Buffer
	f.cut = systest.Unpack(t, &plain, raw)
	var r interface {
		ReadPacketData() ([]byte, gopacket.CaptureInfo, error)
	}
	ng, err := pcapgo.NewNgReader(bytes.NewReader(plain.Bytes()), pcapgo.DefaultNgReaderOptions)
	r = ng
	if err != nil {
		if r, err = pcapgo.NewReader(&plain); err != nil {
			f.cut = err
			return f
		}
	}
	for {
		data, ci, err := r.ReadPacketData()
		if err != nil {
			if err != io.EOF {
				f.cut = err
			}
			break
		}
		if n, ok := testnet.Sequence(data); ok {
			f.numbers = append(f.numbers, n)
			f.stamps = append(f.stamps, ci.Timestamp)
		}
	}
	if ng != nil && ng.NInterfaces() > 0 {
		if i, err := ng.Interface(0); err == nil {
			f.statistics = i.Statistics
		}
	}
	return f
}

// checkSeries is checkOrder, and checks that the files end with the last frame that the summary
// counts as captured, and that the statistics of all files add up to the summary. first is above 0
// if the oldest files were removed.
func checkSeries(t *testing.T, files []seriesFile, first uint64, s systest.Summary) {
	t.Helper()
	next := checkOrder(t, files, first)
	var received, dropped uint64
	for _, f := range files {
		if f.cut != nil {
			t.Errorf("%s: %v", f.name, f.cut)
		}
		if f.statistics.PacketsReceived != uint64(len(f.numbers)) && s.Lost+s.NotSampled == 0 && !strings.Contains(f.name, ".pcap") {
			t.Errorf("%s: %d packets, statistics %+v", f.name, len(f.numbers), f.statistics)
		}
		received += f.statistics.PacketsReceived
		dropped += f.statistics.PacketsDropped
	}
	if next != s.Captured {
		t.Errorf("the files end before frame %d, summary %+v", next, s)
	}
	if first == 0 && len(files) > 0 && !files[0].statistics.StartTime.IsZero() && (received != s.Seen || dropped != s.Lost) {
		t.Errorf("in all statistics together %d are received and %d dropped, summary %+v", received, dropped, s)
	}
}

// checkOrder checks that the files have each frame from number first on once, in order, and returns
// the number after the last one.
func checkOrder(t *testing.T, files []seriesFile, first uint64) (next uint64) {
	t.Helper()
	next = first
	for _, f := range files {
		for _, n := range f.numbers {
			if n != next {
				t.Fatalf("%s has frame %d in the place of %d", f.name, n, next)
			}
			next++
		}
	}
	return next
}

func names(files []seriesFile) (names []string) {
	for _, f := range files {
		names = append(names, f.name)
	}
	return names
}

// checkOpens checks that Wireshark's tools open all files.
func checkOpens(t *testing.T, dir string, files []string) {
	t.Helper()
	testnet.Require(t, "capinfos")
	cmd := exec.Command("capinfos", append([]string{"-c"}, files...)...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("capinfos: %v: %s", err, out)
	}
}

// trialSeconds is the duration of a test of files by time. XDPCAP_SECONDS=60 makes it longer.
func trialSeconds() int {
	n, err := strconv.Atoi(os.Getenv("XDPCAP_SECONDS"))
	if err != nil {
		return 3
	}
	return n
}

// Files by size, by time and by both have the names and the number in tcpdump's manual, each frame
// is in exactly one of them, and each can be read by itself.
func TestRotation(t *testing.T) {
	t.Parallel()
	const size, rate = 1000, 4000
	for _, test := range []struct {
		flags, file string
		seconds     bool // the capture lasts trialSeconds
		check       func(t *testing.T, files []seriesFile)
	}{
		{flags: "-C 1", file: "out.pcapng", check: numbered("out.pcapng", 0, 0)},
		{flags: "-C 1", file: "out.pcap", check: numbered("out.pcap", 0, 0)},
		{flags: "-C 1 -W 20", file: "out.pcapng", check: numbered("out.pcapng", 2, 20)},
		{flags: "-C 1 -W 3", file: "out.pcapng", check: numbered("out.pcapng", 1, 3)},
		{flags: "-C 20k -W 3", file: "out.pcapng.zst", check: between(2, 3)},
		{flags: "-C 30k", file: "out.pcap.gz", check: between(2, 100)},
		{flags: "-b packets:1000", file: "out.pcapng", check: dumpcapNames},
		{flags: "-b packets:500 -b files:4 -a files:9", file: "out.pcapng", check: between(2, 4)},
		{flags: "-G 1", file: "%s.pcapng", seconds: true, check: bySecond(".pcapng", -1)},
		{flags: "-G 1 --atomic", file: "%s.pcapng.zst", seconds: true, check: bySecond(".pcapng.zst", -1)},
		{flags: "-b interval:1", file: "out.pcapng", seconds: true, check: between(3, 100)},
		{flags: "-G 1 -C 1", file: "%s.pcapng", seconds: true, check: bySecond(".pcapng", 0)},
		{flags: "-G 1 -C 1 -W 30", file: "%s.pcapng", seconds: true, check: bySecond(".pcapng", 2)},
	} {
		t.Run(test.flags+" "+strings.TrimPrefix(test.file, "%"), func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{GRO: true}) // -a files:9 detaches while frames come
			dir := t.TempDir()
			g := testnet.GeneratorOptions{Frame: testnet.UDPFrame(size, 0), Count: 5000}
			if test.seconds {
				g.Rate, g.Count = rate, uint64(rate*trialSeconds())
			}
			args := append(strings.Fields(test.flags), "-i", pair.RxName, "-w", filepath.Join(dir, test.file), "--json", "--print-files", "-B", systest.RingFor(g.Count, size))
			p, printed := systest.Counting(t, pair, args...)
			testnet.Generate(t, pair, g)
			var stderr string
			if strings.Contains(test.flags, "-a ") {
				_, stderr = p.Wait()
			} else {
				stderr = p.Interrupt()
			}
			s := systest.Account(t, stderr)
			if s.Lost != 0 || s.Seen != g.Count && !strings.Contains(test.flags, "-a ") {
				t.Fatalf("%d frames were sent, summary %+v", g.Count, s)
			}
			files := readSeries(t, dir)
			first := uint64(0)
			if len(files) > 0 && len(files[0].numbers) > 0 {
				first = files[0].numbers[0]
			}
			if ring := strings.Contains(test.flags, "-W 3") || strings.Contains(test.flags, "files:4"); !ring && first != 0 {
				t.Errorf("the first frame in a file is %d", first)
			}
			checkSeries(t, files, first, s)
			checkOpens(t, dir, names(files))
			test.check(t, files)
			lines := strings.Fields(printed())
			if n := len(lines); n < len(files) || lines[n-1] != filepath.Join(dir, files[len(files)-1].name) {
				t.Errorf("names printed: %v; files: %v", lines, names(files))
			}
		})
	}
}

// numbered checks tcpdump's names with -C: a number with this many digits after the name, which
// starts again at a limit, and sizes.
func numbered(name string, digits, limit int) func(*testing.T, []seriesFile) {
	return func(t *testing.T, files []seriesFile) {
		t.Helper()
		total := int(files[len(files)-1].numbers[len(files[len(files)-1].numbers)-1]) + 1
		perFile := len(files[0].numbers)
		for _, f := range files {
			n := int(f.numbers[0]) / perFile
			if limit > 0 {
				n %= limit
			}
			want := fmt.Sprintf("%s%0*d", name, digits, n)
			if n == 0 && digits == 0 {
				want = name
			}
			if f.name != want {
				t.Errorf("the file from frame %d on is called %s, want %s", f.numbers[0], f.name, want)
			}
			// As with tcpdump, the packet that exceeds the limit is the last of its file. The
			// statistics are after it.
			if last := f.numbers[len(f.numbers)-1] == uint64(total-1); !last && (f.size <= 1e6 || f.size > 1e6+2500) {
				t.Errorf("%s has %d bytes", f.name, f.size)
			}
		}
		if limit > 0 && len(files) > limit {
			t.Errorf("%d files: %v", len(files), names(files))
		}
	}
}

func between(least, most int) func(*testing.T, []seriesFile) {
	return func(t *testing.T, files []seriesFile) {
		t.Helper()
		if len(files) < least || len(files) > most {
			t.Errorf("%d files: %v", len(files), names(files))
		}
	}
}

// dumpcapNames checks names like out_00001_20261122130501.pcapng.
func dumpcapNames(t *testing.T, files []seriesFile) {
	t.Helper()
	for i, f := range files {
		number, at, _ := strings.Cut(strings.TrimPrefix(f.name, "out_"), "_")
		_, err := time.Parse("20060102150405.pcapng", at)
		if n, _ := strconv.Atoi(number); n != i+1 || len(number) != 5 || err != nil || len(f.numbers) != 1000 {
			t.Errorf("file %d is %s with %d packets: %v", i, f.name, len(f.numbers), err)
		}
	}
	if len(files) != 5 {
		t.Errorf("%d files: %v", len(files), names(files))
	}
}

// bySecond checks that there is a file for each second that has packets, with the packets of that
// second, or several with numbers of this many digits after the name; -1 = no numbers. On a busy
// machine a second may have no packets, because the generator has to wait.
func bySecond(suffix string, digits int) func(*testing.T, []seriesFile) {
	return func(t *testing.T, files []seriesFile) {
		t.Helper()
		least := trialSeconds()
		if digits >= 0 {
			least *= 3
			files = slices.DeleteFunc(slices.Clone(files), func(f seriesFile) bool { return len(f.numbers) == 0 })
		} else {
			slices.SortFunc(files, func(a, b seriesFile) int { return strings.Compare(a.name, b.name) })
		}
		second, n := int64(0), 0
		for _, f := range files {
			if s := secondOf(f.name); s != second || digits < 0 {
				second, n = s, 0
			}
			want := fmt.Sprintf("%d%s", second, suffix)
			if n > 0 || digits > 0 {
				want += fmt.Sprintf("%0*d", digits, n)
			}
			if f.name != want {
				t.Errorf("%s, want %s", f.name, want)
			}
			checkStamps(t, f)
			n++
		}
		if len(files) < least {
			t.Errorf("%d files: %v", len(files), names(files))
		}
	}
}

// secondOf returns the number at the beginning of a name.
func secondOf(name string) int64 {
	stem, _, _ := strings.Cut(name, ".")
	n, _ := strconv.ParseInt(stem, 10, 64)
	return n
}

// checkStamps checks that all packets of a file are of the second in its name.
func checkStamps(t *testing.T, f seriesFile) {
	t.Helper()
	for i, at := range f.stamps {
		if at.Unix() != secondOf(f.name) {
			t.Errorf("%s: packet %d is stamped %d.%09d", f.name, f.numbers[i], at.Unix(), at.Nanosecond())
			return
		}
	}
}

// Even without packets, files begin within a second of their time, and -W ends the capture with
// status 0 after that many files.
func TestRotationIdle(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	// On a busy machine the capture may be late, because it does not run for long.
	testnet.WaitFor(t, "files that begin in time", func() bool { return idleInTime(t, pair) })
}

// idleInTime makes files without packets, and reports whether each began within a second of its
// time.
func idleInTime(t *testing.T, pair *testnet.Pair) (inTime bool) {
	t.Helper()
	dir := t.TempDir()
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-G", "1", "-W", strconv.Itoa(trialSeconds()), "-w", filepath.Join(dir, "%s.pcapng"), "--json")
	status, stderr := p.Wait()
	systest.Account(t, stderr)
	files := readSeries(t, dir)
	// The kernel uses the last tick of its clock for the time of a new file, which may be in the
	// second before.
	var tick unix.Timespec
	testnet.Must(t, unix.ClockGetres(unix.CLOCK_REALTIME_COARSE, &tick))
	if status != 0 || len(files) != trialSeconds() || !strings.Contains(stderr, "the limit of ") {
		t.Fatalf("exit status %d, files %v: %s", status, names(files), stderr)
	}
	for i, f := range files {
		var made unix.Statx_t
		testnet.Must(t, unix.Statx(unix.AT_FDCWD, filepath.Join(dir, f.name), 0, unix.STATX_BTIME, &made))
		late := time.Unix(made.Btime.Sec, int64(made.Btime.Nsec)).Sub(time.Unix(secondOf(f.name), 0))
		t.Logf("%s was made %v after its time", f.name, late)
		if i > 0 && (secondOf(f.name) != secondOf(files[i-1].name)+1 || made.Mask&unix.STATX_BTIME != 0 && late > time.Second) {
			return false
		}
		if made.Mask&unix.STATX_BTIME != 0 && late < -time.Duration(tick.Nano()) {
			t.Errorf("%s was made %v before its time", f.name, -late)
		}
	}
	bySecond(".pcapng", -1)(t, files)
	return true
}

// A command gets the name of each finished file, and the capture does not wait for it, even if it
// does not end.
func TestPostrotateCommand(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := t.TempDir()
	script := filepath.Join(t.TempDir(), "script")
	text := "#!/bin/sh\ngrep -q 'SigIgn:.*[02468ace]...$' /proc/self/status || echo ignores signals\n" +
		"for i in $(seq 200); do [ $(nice) = 19 ] && break; sleep 0.1; done\nmv \"$1\" \"$1.nice$(nice)\"\n" // its priority is set after it has started
	testnet.Must(t, os.WriteFile(script, []byte(text), 0o700))
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-C", "1", "-z", script, "-w", filepath.Join(dir, "out.pcapng"), "--json")
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(1000, 0), Count: 5000})
	stderr := p.Interrupt()
	files := readSeries(t, dir)
	checkSeries(t, files, 0, systest.Account(t, stderr))
	if strings.Contains(stderr, "ignores") || len(files) < 5 {
		t.Errorf("files %v: %s", names(files), stderr)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.name, ".nice19") {
			t.Errorf("the command has not got %s, or not with the lowest priority", f.name)
		}
	}
	// A command that fails is reported once; a command that does not exist is refused before the
	// capture begins.
	p = systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-C", "1", "-z", "false", "-w", filepath.Join(dir, "out.pcapng"), "--json")
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(1000, 0), Count: 3000})
	if stderr := p.Interrupt(); !strings.Contains(stderr, "exit status 1") || !strings.Contains(stderr, "-z false: failed for 4 of 4 files") {
		t.Errorf("%s", stderr)
	}
	status, stderr := systest.Start(t, pair.Rx, nil, "-i", pair.RxName, "-z", "none-such", "-w", filepath.Join(dir, "out.pcapng")).Wait()
	if status != 1 || !strings.Contains(stderr, "-z none-such: executable file not found in $PATH") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}

// A full disk ends the capture with whole files. --min-free ends it before that, or in a ring
// removes the oldest files and goes on.
func TestRotationDiskFull(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("fills nine disks with packets that cannot be compressed")
	}
	const disk, minFree, frames = 6 << 20, 2 << 20, 6_000
	for _, test := range []struct {
		flags, file string
		status      int
		said        string
	}{
		{"-C 1", "out.pcapng", 1, "no space left on device"},
		{"-C 1", "out.pcapng.zst", 1, "no space left on device"},
		{"-C 1 --min-free 2M", "out.pcapng", 1, "and 2 MiB must stay free"},
		{"-C 1 --min-free 2M", "out.pcapng.gz", 1, "and 2 MiB must stay free"},
		{"-C 1 --max-bytes 2M", "out.pcapng", 0, "reached their limit of 2 MiB"},
		{"-C 1 --max-bytes 2M", "out.pcapng.zst", 0, "reached their limit of 2 MiB"},
		{"-C 1 -W 100 --min-free 2M", "out.pcapng", 0, ""},
		{"-C 1 -W 100 --max-bytes 2M", "out.pcapng", 0, ""},
		{"-b filesize:1000 -b files:100 --min-free 2M", "out.pcapng.zst", 0, ""},
	} {
		t.Run(test.flags+" "+test.file, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			dir := t.TempDir()
			testnet.MustMount(t, "tmpfs", dir, 0, fmt.Sprintf("size=%d", disk))
			p := systest.Listening(t, pair.Rx, nil, append(strings.Fields(test.flags), "-i", pair.RxName, "-w", filepath.Join(dir, test.file), "--json", "-B", systest.RingFor(frames, 1400))...)
			sendIncompressible(t, pair, 1400, frames)
			stderr := ""
			if test.said == "" {
				stderr = p.Interrupt()
			} else {
				status := 0
				if status, stderr = p.Wait(); status != test.status || !strings.Contains(stderr, test.said) {
					t.Errorf("exit status %d: %s", status, stderr)
				}
			}
			s := systest.Account(t, stderr)
			files := readSeries(t, dir)
			checkOpens(t, dir, names(files))
			first := files[0].numbers[0]
			checkSeries(t, files, first, s)
			if ring := test.said == ""; ring == (first == 0) || ring && s.Captured != frames {
				t.Errorf("the files begin with frame %d, summary %+v", first, s)
			}
			if test.status == 0 && s.Lost != 0 || test.status == 1 && s.NotTaken == 0 {
				t.Errorf("summary %+v", s)
			}
			var now unix.Statfs_t
			testnet.Must(t, unix.Statfs(dir, &now))
			total := int64(0)
			for _, f := range files {
				total += f.size
			}
			if free := int64(now.Bavail) * now.Frsize; strings.Contains(test.flags, "min-free") && (free < minFree || free > minFree+25e5) {
				t.Errorf("%d bytes are free", free)
			}
			if strings.Contains(test.flags, "max-bytes") && (total > 2<<20 || total < 9e5) {
				t.Errorf("%d bytes in %v", total, names(files))
			}
		})
	}
}

// sendIncompressible sends numbered frames that gzip and zstd cannot shorten, and waits until the
// kernel has handled them. No more frames are in flight than fit into the receiver's queue.
func sendIncompressible(t *testing.T, pair *testnet.Pair, size int, count uint64) {
	t.Helper()
	sender := testnet.MustSender(t, pair)
	random := rand.New(rand.NewPCG(1, 2))
	for n := range count {
		frame := testnet.UDPFrame(size, n)
		for i := testnet.SequenceOffset + 8; i+8 <= len(frame); i += 8 {
			binary.LittleEndian.PutUint64(frame[i:], random.Uint64())
		}
		testnet.Must(t, sender.Send(frame))
		if n%100 == 99 {
			testnet.WaitHandled(t)
		}
	}
	testnet.WaitHandled(t)
}

// Every finished file of a capture that was killed opens, and at most the last one is truncated.
// XDPCAP_KILLS=50 kills more often.
func TestRotationKilled(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	kills, err := strconv.Atoi(os.Getenv("XDPCAP_KILLS"))
	if err != nil {
		kills = 3
	}
	cut := 0
	for i := range kills {
		dir := t.TempDir()
		file := []string{"out.pcapng.zst", "out.pcapng", "out.pcapng.gz"}[i%3]
		flags := [][]string{{"-C", "200k"}, {"-C", "1"}, {"-b", "packets:500", "--atomic"}}[i/3%3]
		p := systest.Listening(t, pair.Rx, nil, append(flags, "-i", pair.RxName, "-w", filepath.Join(dir, file), "-B", "64M")...)
		stop := systest.Trickle(t, pair)
		testnet.WaitFor(t, "files", func() bool {
			all, _ := os.ReadDir(dir)
			return len(all) > 3
		})
		time.Sleep(time.Duration(i*17%100) * time.Millisecond) // so that it is killed at another moment
		p.Cmd.Process.Kill()
		<-p.Done
		stop()
		files := readSeries(t, dir)
		checkOrder(t, files, files[0].numbers[0])
		var finished []string
		for j, f := range files {
			unfinished := f.statistics.StartTime.IsZero()
			if unfinished {
				cut++
			} else {
				finished = append(finished, f.name)
			}
			if unfinished && j < len(files)-1 && len(f.numbers) > 0 {
				t.Errorf("%s is not the last one of %v and was not finished: %v", f.name, names(files), f.cut)
			}
			if !unfinished && f.cut != nil {
				t.Errorf("%s: %v", f.name, f.cut)
			}
		}
		checkOpens(t, dir, finished)
	}
	t.Logf("%d kills, %d files not finished", kills, cut)
}

// Memory, descriptors and threads do not grow with the number of files.
func TestRotationFlat(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := t.TempDir()
	p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-b", "packets:20", "-b", "files:10", "-w", filepath.Join(dir, "out.pcapng.zst"), "--json", "-B", "16M")
	count := func(what string) int {
		all, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", p.Cmd.Process.Pid, what))
		testnet.Must(t, err)
		return len(all)
	}
	g := testnet.MustGenerator(t, pair)
	var descriptors, threads [2]int
	var used [2]int64
	// During the first 400 files memory grows to the needs of a busy machine. After 400 more it has
	// not grown.
	for i := range 2 {
		if _, err := g.Run(t.Context(), testnet.GeneratorOptions{Frame: testnet.UDPFrame(1000, 0), Count: 8000, Rate: 10_000}); err != nil {
			t.Fatal(err)
		}
		last := fmt.Sprintf("out_%05d_", []int{400, 800}[i])
		testnet.WaitFor(t, last, func() bool {
			all, _ := filepath.Glob(filepath.Join(dir, last+"*"))
			return len(all) == 1 && count("fd") > 0 && len(all) > 0
		})
		if i > 0 { // a queue that a slow disk has made longer frees its memory a second later
			testnet.WaitFor(t, "the memory to be what it was", func() bool { return memory(t, p) <= used[0]+8<<20 })
		}
		descriptors[i], threads[i], used[i] = count("fd"), count("task"), memory(t, p)
	}
	t.Logf("descriptors %v, threads %v, bytes %v", descriptors, threads, used)
	if descriptors[1] > descriptors[0]+maxUnfinishedFiles || threads[1] > threads[0]+4 {
		t.Errorf("descriptors %v, threads %v, bytes %v", descriptors, threads, used)
	}
	s := systest.Account(t, p.Interrupt())
	files := readSeries(t, dir)
	if len(files) != 10 {
		t.Errorf("%d files: %v", len(files), names(files))
	}
	checkSeries(t, files, files[0].numbers[0], s)
}

// maxUnfinishedFiles is by how many the number of open files may vary.
const maxUnfinishedFiles = 9
