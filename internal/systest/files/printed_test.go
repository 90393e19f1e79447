package files_test

import (
	"bufio"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A reader of lines that ends, as head does, ends the capture without an error, and without a loss.
func TestReaderEnds(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, flags := range []string{"", "--format json"} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
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

// A capture notices that the reader of lines has ended even if no packets come.
func TestReaderEndsIdle(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	pair := testnet.MustPair(t, testnet.PairOptions{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	p := systest.Listening(t, pair.Rx, w, "-i", pair.RxName, "--json")
	w.Close()
	r.Close()
	if status, stderr := p.Wait(); status != 0 || systest.Account(t, stderr).Error != "" {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}

// --format json without -w prints lines of JSON.
func TestPrintJSON(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	out, stderr := printedBy(t, pair, 3, "--format", "json", "-c", "3")
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	for _, line := range lines {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil || object["interface"] != pair.RxName {
			t.Errorf("%s: %v", line, err)
		}
	}
	if len(lines) != 3 {
		t.Errorf("%d lines: %s%s", len(lines), out, stderr)
	}
}

// What comes after -c or -a packets was reached is not sampled, and the text says which.
func TestAfterCount(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{GRO: true}) // the capture detaches while frames come
	const frames uint64 = 100
	for flags, ended := range map[string]string{"-c 1": "-c", "-a packets:1": "-a packets:1", "-c 9 -a packets:1": "-a packets:1",
		"-c 1 -a packets:9": "-c", "-c 1 --max-rate 1000000": ""} {
		// All packets wait in the ring until there are enough to wake the reader, or it looks.
		_, stderr := printedBy(t, pair, frames, strings.Fields(flags)...)
		after := strings.Contains(stderr, " packets not sampled came after "+ended+" was reached\n") ||
			strings.Contains(stderr, " the 1 packet not sampled came after "+ended+" was reached\n")
		if none := strings.Contains(stderr, " + 0 not sampled + "); !none && after != (ended != "") {
			t.Errorf("%s: %s", flags, stderr)
		}
	}
}

// A file that ends a capture by its size is named as what it is.
func TestAfterSize(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{GRO: true}) // the capture detaches while frames come
	if _, stderr := printedBy(t, pair, 60, "-w", systest.TempFile(t), "-a", "filesize:2"); !strings.Contains(stderr, "the file has its limit of 2.0 KiB") {
		t.Error(stderr)
	}
}

// printedBy returns what a capture of so many frames prints on standard output and stderr, until it
// ends by itself.
func printedBy(t *testing.T, pair *testnet.Pair, frames uint64, args ...string) (out, stderr string) {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	p := systest.Listening(t, pair.Rx, file, append([]string{"-i", pair.RxName}, args...)...)
	testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(64, 0), Count: frames, Rate: 1_000_000})
	status, stderr := p.Wait()
	text, err := os.ReadFile(file.Name())
	if err != nil || status != 0 {
		t.Errorf("%v: exit status %d, %v: %s", args, status, err, stderr)
	}
	return string(text), stderr
}
