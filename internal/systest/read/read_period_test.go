package read_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
)

// --from and --to choose packets by their times, from the first one on and before the second, in
// lines, JSON, statistics and files alike.
func TestReadPeriod(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 7, 1, 14, 5, 0, 0, time.UTC)
	now := time.Now()
	old := writeBytes(t, arps(pcapng.PcapNanoseconds, start.UnixNano()-1, start.UnixNano(), start.UnixNano()+5e8, start.UnixNano()+60e9))
	fresh := writeBytes(t, arps(pcapng.PcapNanoseconds, now.Add(-time.Hour).UnixNano(), now.Add(-5*time.Minute).UnixNano()))
	for _, test := range []struct {
		file string
		args []string
		want []int // packets, by their numbers in the file
	}{
		{old, nil, []int{1, 2, 3, 4}},
		{old, []string{"--from", "2026-07-01T14:05:00Z"}, []int{2, 3, 4}},
		{old, []string{"--to", "2026-07-01T14:05:00Z"}, []int{1}},
		{old, []string{"--from", "2026-07-01 14:05:00.5", "--to", "2026-07-01 14:06"}, []int{3}}, // the process has TZ=UTC
		{old, []string{"--from", "2026-07-01T16:05:00.000000001+02:00"}, []int{3, 4}},
		{old, []string{"--from", "14:05", "--to", "14:06"}, []int{2, 3}}, // on the day of the first packet
		{old, []string{"--from", "2026-07-01", "--to", "2026-07-02"}, []int{1, 2, 3, 4}},
		{old, []string{"--from", "-10m"}, nil},
		{fresh, []string{"--from", "-10m"}, []int{2}},
		{fresh, []string{"--to", "-600"}, []int{1}},
		{fresh, []string{"--from", "-2h", "--to", "-1m"}, []int{1, 2}},
	} {
		out := filepath.Join(t.TempDir(), "out.pcap")
		read := func(args ...string) string { // says which times there are, if none is in the period
			stdout, stderr, status := systest.RunRead(t, nil, args...)
			says := "xdpcap: no packet is of this time: those of the files are from 2026-07-01 14:04:59 to 2026-07-01 14:06:00\n"
			if test.want != nil || test.args == nil {
				says = ""
			}
			if stderr != says || status != 0 {
				t.Errorf("%q: status %d, %q, want %q", args, status, stderr, says)
			}
			return stdout
		}
		all, want, args := strings.SplitAfter(systest.MustRead(t, "-tt", test.file), "\n"), "", append(test.args, test.file)
		for _, number := range test.want {
			want += all[number-1]
		}
		if got := read(append([]string{"-tt"}, args...)...); got != want {
			t.Errorf("%q: it prints\n%swant\n%s", test.args, got, want)
		}
		read(append([]string{"-w", out}, args...)...)
		if got := systest.MustRead(t, "-tt", out); got != want {
			t.Errorf("%q: the file has\n%swant\n%s", test.args, got, want)
		}
		if n := strings.Count(read(append([]string{"--json"}, args...)...), "\n"); n != len(test.want) {
			t.Errorf("%q --json: %d packets, want %d", test.args, n, len(test.want))
		}
		var stats systest.ReadReport
		err := json.Unmarshal([]byte(read(append([]string{"--stats", "--json"}, args...)...)), &stats)
		if err != nil || stats.Total.Packets != uint64(len(test.want)) {
			t.Errorf("%q --stats: %d packets, %v, want %d", test.args, stats.Total.Packets, err, len(test.want))
		}
	}
}

// A time that is none, and a period without a moment in it, are refused.
func TestReadPeriodRefused(t *testing.T) {
	t.Parallel()
	const must = ": must be a time such as 14:05, 2026-07-01 14:05:00.5, 2026-07-01T14:05:00Z or -10m; see xdpcap read --help"
	for args, want := range map[string]string{
		"--from=noon":             "--from noon" + must,
		"--to=":                   `--to ""` + must,
		"--to=-0s":                "--to -0s" + must,
		"--from=25:00":            "--from 25:00" + must,
		"--from=15:00 --to=14:05": "--from 15:00 and --to 14:05: the first must be before the second, as in --from 14:05 --to 14:06",
		"--from=2026-07-01T14:05:00Z --to=2026-07-01T14:05": "--from 2026-07-01T14:05:00Z and --to 2026-07-01T14:05: the first must be before the second, as in --from 14:05 --to 14:06",
		"--from=-1m --to=-10m":                              "--from -1m and --to -10m: the first must be before the second, as in --from 14:05 --to 14:06",
		"--from=-10m --to=15:00":                            "--from -10m and --to 15:00: give both a date or neither, as in --from 14:05 --to 14:06",
	} {
		_, stderr, status := systest.RunRead(t, nil, append(strings.Fields(args), "f.pcap")...)
		if status != 1 || stderr != "xdpcap: "+want+"\n" {
			t.Errorf("%s: status %d, %s, want %s", args, status, stderr, want)
		}
	}
}
