package files_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// As in `xdpcap -w - | head -c 100`: packets that the reader did not take do not count as dropped
// by the kernel.
func TestReaderGoesAway(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	defer systest.Trickle(t, pair)()
	sender := testnet.MustSender(t, pair)
	for _, args := range [][]string{{"-w", "-"}, {"-w", "-", "--format", "json"}} {
		r, w, err := os.Pipe()
		testnet.Must(t, err)
		p := systest.Listening(t, pair.Rx, w, append(args, "-i", pair.RxName)...)
		w.Close()
		if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		systest.StopProcess(t, p) // so that packets wait when it detects the closed pipe, even if no more arrive
		before := testnet.MustStats(t, pair)
		testnet.Must(t, sender.Send(testnet.UDPFrame(64, 0)))
		testnet.WaitArrived(t, pair, before, 1) // this one, or those of trickle
		r.Close()
		systest.ContinueProcess(t, p)
		status, stderr := p.Wait()
		if status != 1 || !strings.Contains(stderr, "standard output: its reader has gone away") {
			t.Errorf("%v: exit status %d: %s", args, status, stderr)
		}
		dropped := numberBefore(t, stderr, "packets dropped by kernel")
		notTaken := numberBefore(t, stderr, "of the lost packets were not taken by the output")
		if lost := numberBefore(t, stderr, "lost +"); notTaken == 0 || lost != dropped+notTaken {
			t.Errorf("%v: %d packets lost: %s", args, lost, stderr)
		}
		systest.CheckDetached(t, pair)
	}
}

// numberBefore returns the number before these words.
func numberBefore(t *testing.T, text, words string) uint64 {
	t.Helper()
	before, _, found := strings.Cut(text, " "+words)
	n, err := strconv.ParseUint(before[strings.LastIndexAny(before, " \n")+1:], 10, 64)
	if !found || err != nil {
		t.Errorf("no number of %q in %s", words, text)
	}
	return n
}

// A capture detects that its reader has closed the pipe even if no packets arrive. For lines that
// is no error.
func TestReaderGoesAwayIdle(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	fifo := mustFifo(t, "fifo")
	for _, test := range []struct {
		flags, want string // its error
	}{
		{"-w -", "standard output: its reader has gone away"},
		{"-w /dev/stdout", "standard output: its reader has gone away"},
		{"-w " + fifo, fifo + ": its reader has gone away"},
		{"", ""},
	} {
		r, w, err := os.Pipe()
		if strings.HasSuffix(test.flags, fifo) {
			r.Close()
			r, err = os.OpenFile(fifo, os.O_RDONLY|unix.O_NONBLOCK, 0)
		}
		testnet.Must(t, err)
		p := systest.Listening(t, pair.Rx, w, append(strings.Fields(test.flags), "-i", pair.RxName, "--json")...)
		w.Close()
		r.Close()
		status, stderr := p.Wait()
		if s := systest.Account(t, stderr); s.Error != test.want || (status == 1) != (test.want != "") || status > 1 {
			t.Errorf("%s: exit status %d: %s", test.flags, status, stderr)
		}
	}
}

// If no packet reaches the disk, or can be printed, the account counts all of them as lost.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	defer systest.Trickle(t, pair)()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	testnet.Must(t, err)
	defer full.Close()
	for _, test := range []struct {
		name string
		args []string
	}{
		{"/dev/full", []string{"-w", "/dev/full"}},
		{"standard output", nil},
	} {
		// On a busy machine a capture may end before the first packet arrives.
		testnet.WaitFor(t, "a capture that has seen packets", func() bool {
			p := systest.Start(t, pair.Rx, full, append(test.args, "-i", pair.RxName, "--json")...)
			status, stderr := p.Wait()
			if status != 1 || !strings.Contains(stderr, "xdpcap: write packets to "+test.name+": no space left on device\n") {
				t.Errorf("exit status %d: %s", status, stderr)
			}
			want := "write packets to " + test.name + ": no space left on device"
			s := systest.Account(t, stderr)
			// On a busy machine the rings may have filled up, too.
			if s.Captured != 0 || s.Bytes != 0 || s.NotTaken == 0 != (s.Seen == 0) || s.Lost != s.Seen || s.Error != want {
				t.Errorf("%s: summary %+v", test.name, s)
			}
			systest.CheckDetached(t, pair)
			return s.Seen > 0
		})
	}
}

// A file that cannot grow any more has whole packets, as many as its account has, and ends with its
// statistics.
func TestDiskFillsUp(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := t.TempDir()
	testnet.Must(t, syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"))
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	stop := systest.Trickle(t, pair)
	snapLens, limits := []string{"157", "100", "199", "200"}, uint64(300) // they end at another position in a block
	if testnet.Emulated() {
		snapLens, limits = snapLens[:2], 100 // three seconds each there
	}
	for _, snapLen := range snapLens {
		file := filepath.Join(dir, "out.pcapng")
		args := []string{"-i", pair.RxName, "-s", snapLen, "--json", "-w", file}
		var stdout *os.File
		if snapLen == "157" { // as with `-w - > out.pcapng`
			args[len(args)-1] = "-"
			var err error
			if stdout, err = os.Create(file); err != nil {
				t.Fatal(err)
			}
		}
		status, stderr := systest.Start(t, pair.Rx, stdout, args...).Wait()
		stdout.Close()
		if status != 1 || !strings.Contains(stderr, "no space left on device") {
			t.Errorf("exit status %d: %s", status, stderr)
		}
		checkCutShort(t, file, stderr)
		os.Remove(file)
	}
	stop()
	file := systest.TempFile(t)
	for limit := uint64(50_000); limit < 50_000+limits; limit += 100 {
		// A process of another user could be limited only with CAP_SYS_RESOURCE.
		p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--json", "-Z", "root")
		testnet.Must(t, unix.Prlimit(p.Cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit}, nil))
		stop := systest.Trickle(t, pair)
		status, stderr := p.Wait()
		stop()
		if status != 1 || !strings.Contains(stderr, "file too large") {
			t.Errorf("exit status %d: %s", status, stderr)
		}
		checkCutShort(t, file, stderr)
	}
	systest.CheckDetached(t, pair)
}

// checkCutShort checks that file and summary agree.
func checkCutShort(t *testing.T, file, stderr string) {
	t.Helper()
	s := systest.Account(t, stderr)
	records, r := systest.ReadFile(t, file)
	if uint64(len(records)) != s.Captured || s.Captured == 0 || s.NotTaken == 0 {
		t.Errorf("%d packets in the file, summary %+v", len(records), s)
	}
	if got := systest.Statistics(t, r); got.PacketsReceived != s.Seen || got.PacketsDropped != s.Lost {
		t.Errorf("statistics %+v, summary %+v", got, s)
	}
}

// An output that stalls loses no packets: they leave their ring, and wait in memory. Afterwards the
// memory is freed.
func TestOutputStalls(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	// The ring has room for one burst, even if a busy machine does not run xdpcap for long, but not
	// for all packets while the output is not read.
	const frames, times, rate, ring = 8_000, 3, 20_000.0, "32M"
	r, w, err := os.Pipe()
	testnet.Must(t, err)
	defer r.Close()
	p := systest.Listening(t, pair.Rx, w, "-i", pair.RxName, "-w", "-", "-B", ring, "--json")
	w.Close()
	before := memory(t, p)
	copied, done := &bytes.Buffer{}, make(chan error, 1)
	var arrived uint64
	for range 2 {
		var waiting uint64
		for range times {
			_, n := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(1500, 0), Count: frames, Rate: rate})
			waiting += n
			testnet.WaitFor(t, "the packets to leave the ring", func() bool { return memory(t, p)-before > int64(waiting*1500) })
		}
		arrived += waiting
		testnet.WaitFor(t, "the memory to be given back", func() bool {
			r.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
			if _, err := io.Copy(copied, r); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
			return memory(t, p)-before < 8<<20
		})
	}
	r.SetReadDeadline(time.Time{})
	go func() {
		_, err := io.Copy(copied, r)
		done <- err
	}()
	s := systest.Account(t, p.Interrupt())
	testnet.Must(t, <-done)
	if s.Seen != arrived || s.Lost != 0 {
		t.Errorf("summary %+v", s)
	}
	path := systest.TempFile(t)
	testnet.Must(t, os.WriteFile(path, copied.Bytes(), 0o600))
	if records, _ := systest.ReadFile(t, path); uint64(len(records)) != s.Captured {
		t.Errorf("%d packets in the file, summary %+v", len(records), s)
	}
}

// memory returns how many bytes of a process's own memory are resident.
func memory(t *testing.T, p *systest.Process) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.Cmd.Process.Pid))
	testnet.Must(t, err)
	_, after, _ := strings.Cut(string(status), "RssAnon:")
	kib, _, _ := strings.Cut(strings.TrimSpace(after), " ")
	n, err := strconv.ParseInt(kib, 10, 64)
	if err != nil {
		t.Fatalf("%v in %s", err, status)
	}
	return n << 10
}

// If another program removes, renames or changes the file, the capture ends with an error, whether
// packets arrive or not.
func TestFileTampered(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	stop, coming := systest.Trickle(t, pair), true
	for _, test := range []struct {
		name   string
		tamper func(file string) error
		want   string
		kept   string // the path of the packets afterwards: what the file was renamed to; "-" = lost
	}{
		{"truncated", func(file string) error { return os.Truncate(file, 0) }, "was changed by another program", "-"},
		{"removed", os.Remove, "was removed or replaced", "-"},
		{"renamed", func(file string) error { return os.Rename(file, file+".1") }, "was renamed", ".1"},
		{"replaced", func(file string) error {
			if err := os.Rename(file, file+".2"); err != nil {
				return err
			}
			return os.WriteFile(file, []byte("another"), 0o600)
		}, "was renamed or replaced", ".2"},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := systest.TempFile(t)
			p := systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", file, "--json")
			if !coming {
				testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300, Rate: 10_000})
			}
			testnet.WaitFor(t, "packets", func() bool { return systest.FileSize(file) > 10_000 })
			testnet.Must(t, test.tamper(file))
			status, stderr := p.Wait()
			if status != 1 || !strings.Contains(stderr, "xdpcap: "+file+" ") || !strings.Contains(stderr, test.want) {
				t.Errorf("exit status %d: %s", status, stderr)
			}
			stop() // the next files are changed while no packets arrive
			coming = false
			s := systest.Account(t, stderr)
			if test.kept == "-" {
				// On a busy machine the rings may have filled up, too.
				if s.Captured != 0 || s.NotTaken == 0 || s.Lost != s.Seen {
					t.Errorf("summary %+v", s)
				}
				return
			}
			records, r := systest.ReadFile(t, file+test.kept)
			if got := systest.Statistics(t, r); uint64(len(records)) != s.Captured || got.PacketsReceived != s.Seen {
				t.Errorf("%d packets in the file, statistics %+v, summary %+v", len(records), got, s)
			}
		})
	}
}

// Several -w get the same packets, and a second capture into one of the files is refused. A packet
// that one output does not take is missing only there.
func TestSeveralFiles(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := t.TempDir()
	one, two, three := filepath.Join(dir, "1.pcapng"), filepath.Join(dir, "2.pcapng"), filepath.Join(dir, "3.pcapng")
	stdout, err := os.Create(three)
	testnet.Must(t, err)
	p := systest.Listening(t, pair.Rx, stdout, "-i", pair.RxName, "-w", one, "-w", two, "-w", "-", "--json")
	stdout.Close()
	_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: 300, Rate: 10_000})
	status, stderr := systest.Start(t, pair.Rx, nil, "-i", pair.RxName, "-w", one).Wait()
	if status != 1 || !strings.Contains(stderr, fmt.Sprintf("-w: lock %s: another program is writing to it", one)) {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	s := systest.Account(t, p.Interrupt())
	if len(s.Outputs) != 3 || s.Captured != arrived {
		t.Fatalf("summary %+v", s)
	}
	for i, path := range []string{one, two, three} {
		records, _ := systest.ReadFile(t, path)
		name := path
		if path == three {
			name = "-"
		}
		if want := (systest.OutputSummary{Output: name, Captured: arrived, Bytes: 64 * arrived}); uint64(len(records)) != arrived || s.Outputs[i] != want {
			t.Errorf("%d packets in %s, summary %+v, want %+v", len(records), path, s.Outputs[i], want)
		}
	}

	_, stderr = systest.Start(t, pair.Rx, nil, "-i", pair.RxName, "-w", one, "-w", "/dev/full").Wait()
	for _, want := range []string{"write packets to /dev/full: no space left on device\n", "0 packets captured\n", one + ": 0 packets captured, 0 not taken\n", "/dev/full: 0 packets captured, 0 not taken\n"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("no %q in %s", want, stderr)
		}
	}
}
