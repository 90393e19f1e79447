package files_test

import (
	"bufio"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A reader of lines that ends, like head, ends the capture without an error, and without a loss.
func TestReaderEnds(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, flags := range []string{"", "--format json"} {
		r, w, err := os.Pipe()
		testnet.Must(t, err)
		p := systest.Listening(t, pair.Rx, w, append([]string{"-i", pair.RxName, "-B", "64M"}, strings.Fields(flags)...)...)
		w.Close()
		stop := systest.Trickle(t, pair)
		if _, err := bufio.NewReader(r).ReadString('\n'); err != nil {
			t.Error(err)
		}
		r.Close()
		status, stderr := p.Wait()
		stop()
		for _, never := range []string{"lost packets", "broken pipe", "not taken"} {
			if status != 0 || strings.Contains(stderr, never) || !strings.Contains(stderr, " + 0 lost + 0 invalid + ") {
				t.Errorf("%s: exit status %d: %s", flags, status, stderr)
			}
		}
		if !strings.Contains(stderr, " + 0 not sampled + ") && !strings.Contains(stderr, "not sampled came after the reader of standard output ended\n") {
			t.Errorf("%s: %s", flags, stderr)
		}
		systest.CheckDetached(t, pair)
	}
}

// Packets are printed as lines, with --print also beside a file, and with --format json as objects.
func TestPrinted(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	const text = " IP 192.0.2.1.9999 > 192.0.2.2.9999: UDP, length 22\n"
	for _, test := range []struct{ flags, each string }{
		{"-n", text}, {"-n --print -w " + file, text}, {"--format json", `"interface":"rx0"`},
	} {
		out, stderr := printedBy(t, pair, 3, append(strings.Fields(test.flags), "-c", "3")...)
		if strings.Count(out, test.each) != 3 || strings.Count(out, "\n") != 3 {
			t.Errorf("%s printed %q, want three lines with %q: %s", test.flags, out, test.each, stderr)
		}
	}
	info, err := os.Stat(file)
	if records, _ := systest.ReadFile(t, file); err != nil || len(records) != 3 || info.Mode().Perm() != 0o600 {
		t.Errorf("%d packets in the file, %v, %v", len(records), info.Mode(), err)
	}
}

// Packets after the limit of -c or -a are not sampled, and the text names the limit. A file that
// ends a capture by its size is named as the reason.
func TestAfterCount(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{GRO: true}) // the capture detaches while frames come
	const frames uint64 = 100
	for flags, ended := range map[string]string{"-c 1": "-c", "-a packets:1": "-a packets:1", "-c 9 -a packets:1": "-a packets:1",
		"-c 1 -a packets:9": "-c", "-c 1 --max-rate 1000000": ""} {
		// All packets wait in the ring until there are enough to wake the reader, or until its next
		// poll.
		_, stderr := printedBy(t, pair, frames, strings.Fields(flags)...)
		after := strings.Contains(stderr, " packets not sampled came after "+ended+" was reached\n") ||
			strings.Contains(stderr, " the 1 packet not sampled came after "+ended+" was reached\n")
		if none := strings.Contains(stderr, " + 0 not sampled + "); !none && after != (ended != "") {
			t.Errorf("%s: %s", flags, stderr)
		}
	}
	if _, stderr := printedBy(t, pair, 60, "-w", systest.TempFile(t), "-a", "filesize:2"); !strings.Contains(stderr, "the file has its limit of 2.0 KiB") {
		t.Error(stderr)
	}
}

// printedBy returns the text of a capture of this many frames on standard output and stderr, until
// it ends by itself.
func printedBy(t *testing.T, pair *testnet.Pair, frames uint64, args ...string) (out, stderr string) {
	t.Helper()
	r, w, err := os.Pipe()
	testnet.Must(t, err)
	defer r.Close()
	p := systest.Listening(t, pair.Rx, w, append([]string{"-i", pair.RxName}, args...)...)
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: frames, Rate: 1_000_000})
	w.Close()
	status, stderr := p.Wait()
	text, err := io.ReadAll(r)
	if err != nil || status != 0 {
		t.Errorf("%v: exit status %d, %v: %s", args, status, err, stderr)
	}
	return string(text), stderr
}

// While standard output is not read, waiting packets are not captured yet. Only packets whose lines
// are in the pipe count.
func TestPrintedAccount(t *testing.T) {
	t.Parallel()
	for _, flags := range []string{"-n", "--format json"} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			r, w, err := os.Pipe()
			testnet.Must(t, err)
			defer r.Close()
			const most, shortest = 1 << 20, 60 // bytes in the pipe, and of a line
			const frames = 2 * most / shortest
			p := systest.Listening(t, pair.Rx, w, append(strings.Fields(flags), "-i", pair.RxName, "--json", "-B", systest.RingFor(frames, 64))...)
			w.Close()
			testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: frames, Rate: 100_000})
			if s := systest.CountsOf(t, p, frames); s.Captured > most/shortest || s.Captured+s.Pending != frames {
				t.Errorf("nobody has read anything: %+v", s)
			}
			lines := make(chan int)
			go func() {
				text, _ := io.ReadAll(r)
				lines <- strings.Count(string(text), "\n")
			}()
			testnet.WaitFor(t, "everything to be captured", func() bool { return systest.CountsOf(t, p, frames).Captured == frames })
			s := systest.Account(t, p.Interrupt())
			if n := <-lines; n != frames || s.Captured != frames || s.Lost != 0 {
				t.Errorf("%d lines, summary %+v", n, s)
			}
		})
	}
}
