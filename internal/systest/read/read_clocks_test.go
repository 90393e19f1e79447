package read_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// clockFiles writes two captures of the same 600 packets, in a minute. The clock of b.pcapng is
// 37.5 s ahead and gains 4 us per second, and packets come there up to 20 us earlier or later.
func clockFiles(t *testing.T) (a, b string) {
	t.Helper()
	dir := t.TempDir()
	const start = 1_800_000_000_000_000_000
	write := func(name string, at func(ns int64) int64) string {
		f := pcapng.AppendSection(nil, &pcapng.Section{})
		f = pcapng.AppendInterface(f, &pcapng.Interface{Name: name, LinkType: 1})
		for i := range int64(600) {
			frame := testnet.TxToRx().UDP(uint16(1000+i), 9, fmt.Appendf(nil, "packet %d", i))
			f = pcapng.AppendPacket(f, &pcapng.Packet{Time: uint64(start + at(i*100e6)), WireLen: uint32(len(frame)), Data: frame})
		}
		f = pcapng.AppendStatistics(f, &pcapng.Statistics{Time: uint64(start + at(60e9)), Start: uint64(start + at(0)), End: uint64(start + at(60e9)), Received: 600})
		path := filepath.Join(dir, name+".pcapng")
		testnet.Must(t, os.WriteFile(path, f, 0o600))
		return path
	}
	jitter := int64(0)
	return write("a", func(ns int64) int64 { return ns }), write("b", func(ns int64) int64 {
		jitter = (jitter*7 + 13) % 41 // -20 to 20
		return ns + 37500e6 + ns/250_000 + (jitter-20)*1000
	})
}

// Two captures whose clocks differ become one by one clock: --align finds the difference, and says
// how sure it is, --shift takes it from the user, and --follow suspects it.
func TestReadClocks(t *testing.T) {
	t.Parallel()
	a, b := clockFiles(t)
	both := filepath.Join(t.TempDir(), "both.pcapng")
	_, stderr, status := systest.RunRead(t, nil, "--align", "-w", both, a, b)
	want := regexp.MustCompile(`^xdpcap: ` + b + ` is 37\.(4999|5000)\d\d s ahead of ` + a + ` \(\+-(1\d|2\d)\.\d us, drift (3\.[5-9]|4|4\.[1-5])\d? ppm, \+-0?\.?\d+\), by 600 packets that both have\n$`)
	if status != 0 || !want.MatchString(stderr) {
		t.Errorf("status %d, %s, want %s", status, stderr, want)
	}
	if n := strings.Count(systest.MustRead(t, "--follow", both), " us b\n") + strings.Count(systest.MustRead(t, "--follow", both), " us a\n"); n != 600 {
		t.Errorf("%d of 600 packets are joined", n)
	}
	const end = 1_800_000_060_000_000_000
	_, r := systest.ReadFile(t, both)
	for i := range r.NInterfaces() {
		ifi, err := r.Interface(i)
		testnet.Must(t, err)
		if off := ifi.Statistics.EndTime.UnixNano() - end; off < -50_000 || off > 50_000 {
			t.Errorf("the statistics of %s end %d ns later", ifi.Name, off)
		}
	}
	packets := systest.MustRead(t, "--shift", "b.pcapng=-37.5s", "-tt", b)
	if first, want := strings.SplitN(packets, " ", 2)[0], "1800000000.0000"; !strings.HasPrefix(first, want) && !strings.HasPrefix(first, "1799999999.9999") {
		t.Errorf("shifted to %s, want %s", first, want)
	}
	_, stderr, status = systest.RunRead(t, nil, "--follow", a, b)
	if want := "by 600 packets that both have, the clock of " + b + " is 37."; status != 0 || !strings.Contains(stderr, want) {
		t.Errorf("--follow: status %d, %s, want %s", status, stderr, want)
	}
	_, stderr, status = systest.RunRead(t, nil, a, b)
	if want := a + " and " + b + " have 600 packets in common, 37."; status != 0 || !strings.Contains(stderr, want) {
		t.Errorf("lines: status %d, %s, want %s", status, stderr, want)
	}
	if _, stderr, _ := systest.RunRead(t, nil, "-w", both, a, b); stderr != "" {
		t.Errorf("-w: %s", stderr)
	}
	for args, want := range map[string]string{
		"--align " + a: "--align compares the clocks of several files: name two or more",
		"--align " + a + " " + writeBytes(t, arps(pcapng.PcapNanoseconds, 1, 2, 3)): "have fewer than 3 packets in common that can be told apart: give their difference by --shift ",
		"--align " + a + " -":         "--align reads files twice, and standard input cannot be: write it to a file first",
		"--shift b.pcapng " + a:       "--shift b.pcapng: must be a file and a time, as in " + a + "=-37.5s",
		"--shift a.pcapng=noon " + a:  "--shift a.pcapng=noon: noon is no time: a number of seconds, or with a unit as in -37.5s, 12us, 1h",
		"--shift b.pcapng=-37.5 " + a: "--shift b.pcapng=-37.5: no file that is read is called b.pcapng",
	} {
		_, stderr, status := systest.RunRead(t, strings.NewReader(""), strings.Fields(args)...)
		if status != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: status %d, %s, want %s", args, status, stderr, want)
		}
	}
}
