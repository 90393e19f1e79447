package capture

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/cli/outputs"
)

// rotationOf returns the rotation that a command line asks for.
func rotationOf(t *testing.T, text string) (*Options, error) {
	t.Helper()
	var o Options
	cmd := newCommand(&o)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return o.check(cmd.Flags()) }
	cmd.SetArgs(append([]string{"-i", "none0"}, strings.Fields(text)...))
	return &o, cmd.Execute()
}

// The names are those that tcpdump itself gives for each of these lines. With -b they are
// dumpcap's.
func TestRotationNames(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 22, 14, 5, 9, 0, time.Local)
	for _, test := range []struct {
		line string
		want []string // of the first files, in a period
	}{
		{"-C 1 -w x%H.pcap", []string{"x%H.pcap", "x%H.pcap1", "x%H.pcap2"}},
		{"-C 1 -W 3 -w x.pcap", []string{"x.pcap0", "x.pcap1", "x.pcap2", "x.pcap0"}},
		{"-C 1 -W 10 -w x.pcap", []string{"x.pcap0", "x.pcap1"}},
		{"-C 1 -W 11 -w x.pcap", []string{"x.pcap00", "x.pcap01"}},
		{"-C 1 -W 1 -w x.pcap", []string{"x.pcap", "x.pcap"}},
		{"-G 3600 -w x%H.pcap", []string{"x14.pcap"}},
		{"-G 100 -W 5 -w %F_%T.pcap", []string{"2026-11-22_14:05:09.pcap"}},
		{"-C 1 -G 3600 -w x%H.pcap", []string{"x14.pcap", "x14.pcap1", "x14.pcap2"}},
		{"-C 1 -G 3600 -W 3 -w x%H.pcap", []string{"x14.pcap0", "x14.pcap1", "x14.pcap2", "x14.pcap0"}},
		{"-C 1 -w x.pcapng.zst", []string{"x.pcapng.zst", "x.pcapng1.zst"}},
		{"-C 1 -W 20 -w x.gz", []string{"x00.gz", "x01.gz"}},
		{"-b packets:1 -w d.x/x.pcapng.gz", []string{"d.x/x_00001_20261122140509.pcapng.gz", "d.x/x_00002_20261122140509.pcapng.gz"}},
		{"-b duration:1 -w x", []string{"x_00001_20261122140509"}},
		{"-z true -w x", []string{"x"}},
	} {
		o, err := rotationOf(t, test.line)
		if err != nil {
			t.Errorf("%s: %v", test.line, err)
			continue
		}
		var got []string
		for i := range test.want {
			got = append(got, o.Series.Path(file.Place{Number: i, InPeriod: i, Period: began, Began: began}))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.line, got, test.want)
		}
	}
}

// The flags become these limits.
func TestRotationLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		line string
		want file.Rotation // without its functions, Origin and what is 0
	}{
		{"-C 2", file.Rotation{Size: 2_000_000}},
		{"-C 2M -W 9", file.Rotation{Size: 2 << 20, Keep: 9}},
		{"-G 60 -w %T", file.Rotation{Period: time.Minute}},
		{"-G 1h -W 9 -w %T", file.Rotation{Period: time.Hour, Files: 9}},
		{"-G 60 -C 1 -W 9 -w %T", file.Rotation{Period: time.Minute, Size: 1_000_000}},
		{"-b filesize:5 -b files:7", file.Rotation{Size: 5000, Keep: 7}},
		{"-b filesize:5M", file.Rotation{Size: 5 << 20}},
		{"-b duration:0.001", file.Rotation{Period: time.Millisecond}},
		{"-C 5MiB", file.Rotation{Size: 5 << 20}},
		{"-b duration:0.5 -b packets:9 -a files:3", file.Rotation{Period: 500 * time.Millisecond, Packets: 9, Files: 3}},
		{"-a filesize:5", file.Rotation{Size: 5000, Files: 1}},
		{"-b files:2 -b interval:60 -a filesize:5", file.Rotation{Period: time.Minute, Size: 5000, Keep: 2}},
		{"--max-bytes 10000000000 --min-free 10G --atomic", file.Rotation{MaxBytes: 1e10, MinFree: 10 << 30, Atomic: true}},
	} {
		if !strings.Contains(test.line, "-w") {
			test.line += " -w out"
		}
		o, err := rotationOf(t, test.line)
		if err != nil {
			t.Errorf("%s: %v", test.line, err)
			continue
		}
		got := *o.Series
		if (got.Period > 0) == got.Origin.IsZero() && !strings.Contains(test.line, "duration") {
			t.Errorf("%s: periods begin at %v", test.line, got.Origin)
		}
		got.Path, got.Origin = nil, time.Time{}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", test.line, diff)
		}
	}
	o, err := rotationOf(t, "-a duration:1.5 -a packets:7 -c 9")
	if err != nil || o.Series != nil || o.Duration != 1500*time.Millisecond || o.Count != 7 {
		t.Errorf("duration %v, count %d, %v", o.Duration, o.Count, err)
	}
}

// Flags about files and collectors that make no sense are refused in one line, which says what to
// do.
func TestOutputsRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"-C 1":        "-C: there is no file: add -w out.pcapng",
		"-G 5 -w -":   "-G: standard output cannot go on in further files: write to a file with -w out.pcapng",
		"-C 0 -w f":   "-C 0: must be at least 1, which is a million bytes",
		"-C 1x -w f":  "must be a number, which may end in k, M or G",
		"-G 0 -w f":   "must be a time above zero",
		"-G 1.5 -w f": "-G 1.5s: must be whole seconds",
		"-G 60 -w d/f.pcap.gz": "-G 1m0s: -w d/f.pcap.gz has no time in it, so each file would overwrite the one before: " +
			"say -w d/f_%F_%T.pcap.gz, or -b duration:60 instead of -G, which numbers the files",
		"-G 2 -w %F_%H.pcap": "-G 2s: -w %F_%H.pcap can name two files in a row alike, and the second would overwrite the first: " +
			"say %F_%T in the name, or -b duration:2 instead of -G, which numbers the files",
		"-G 86400 -w %H":                   "-w %H can name two files in a row alike",
		"-G 604800 -w %a":                  "-w %a can name two files in a row alike",
		"-G 60 -C 1 -w 100%%":              "-w 100%% has no time in it",
		"-G 60 -C 1 -W 1 -w f":             "-w f has no time in it",
		"-W 5 -w f":                        "-W: nothing says when the next file begins: add -C SIZE or -G SECONDS",
		"-C 1 -W 0 -w f":                   "-W 0: must be at least 1",
		"-C 1 -b packets:1 -w f":           "-b with -C, -G or -W: they name files in different ways: choose dumpcap's flag or tcpdump's",
		"-b files:5 -w f":                  "-b files: nothing says when the next file begins",
		"-a files:5 -w f":                  "-a files: nothing says when the next file begins",
		"-b nametimenum:1 -w f":            "-b nametimenum:1: must be KEY:VALUE with one of the keys duration, files, filesize, interval, packets, printname",
		"-b filesize -w f":                 "-b filesize: must be KEY:VALUE",
		"-b files:1.5 -b packets:1 -w f":   "-b files:1.5: must be a number of files above zero",
		"-a duration:0":                    "-a duration:0: must be a number of seconds above zero",
		"-a duration:NaN":                  "-a duration:NaN: must be a number of seconds above zero",
		"-a filesize:99999999999 -w f":     "must be a number of kB above zero",
		"-b interval:1 -b duration:1 -w f": "-b duration and -b interval: choose one, once",
		"-b printname:names.txt -w f":      "-b printname:names.txt: file names are printed only to standard output: say printname:stdout, and >names.txt",
		"--print-files --print -w f":       "--print-files and --print both need standard output: choose one",
		"--min-free 1G":                    "--min-free: there is no file: add -w out.pcapng",
		"-a filesize:5":                    "-a: there is no file: add -w out.pcapng",
		"-C 1 -W 5 -w f -z gzip": "-z gzip and a ring of files: the ring removes only its own files, and every FILE.gz would stay: " +
			"say -w f.gz, which compresses packets as they are written",
		"-b files:5 -b packets:1 -w f -z /usr/bin/xz": "say -w f.zst, which compresses",
		"-C 1 -W 5 -w f.gz -z zstd":                   "every FILE.zst would stay: omit -z",
		"--print-files --json=/dev/fd/1 -w f":         "--print-files and --json=/dev/fd/1 both need standard output: choose another file",

		// Each -w is once, and what they share is standard output.
		"-w a -w a":                    "-w a: is given twice",
		"-w a -w b -C 1":               "-C: -w names 2 files, and only one can go on in further files: choose it",
		"-w a -w b --ring 10M":         "--ring: -w names 2 files: choose one, whose name gets the number of each recording",
		"-w a -w - --print":            "--print and -w - both need standard output: write to a file, or do not print",
		"-w a -w - -C 1 --print-files": "--print-files and -w - both need standard output: choose one",
		"-w gopher://x":                "-w gopher://x: unknown kind of output gopher",
		"--format no":                  "--format: file format \"no\": must be pcapng, pcap, json or csv",

		// A file name with a suffix that no format has is refused, unless --format is given.
		"-w out.pcap.bz2":         "-w out.pcap.bz2: xdpcap does not compress into .bz2: say -w out.pcap.gz or -w out.pcap.zst",
		"-w out.xz --format pcap": "-w out.xz: xdpcap does not compress into .xz: say -w out.gz or -w out.zst",
		"-w d/out.txt":            "-w d/out.txt: no format has the suffix .txt: say .pcapng, .pcap, .json, .jsonl or .csv, or --format with one of these",
		"-w out.pcapn.gz":         "-w out.pcapn.gz: no format has the suffix .pcapn: say",

		// The flags about sFlow, and their impossible values.
		"-w a --sflow-agent 192.0.2.1":           "--sflow-agent: nothing is sent to an sFlow collector: add -w sflow://HOST",
		"-w a --counter-interval 10":             "--counter-interval: nothing is sent to an sFlow collector",
		"-w sflow://h --first 3":                 "--first and -w sflow://: a collector multiplies samples by their rate",
		"-w sflow://h --sflow-agent host":        "--sflow-agent host: must be an IP address",
		"-w sflow://h --sflow-agent 192.0.2.1,0": "--sflow-agent 192.0.2.1,0: 0 must be a number from 1 to 4294967295",
	} {
		_, err := rotationOf(t, text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %q in one line", text, err, want)
		}
	}
	for _, text := range []string{
		"-w out.txt --format pcap", "-w out", "-w .txt", "-w out.cap", "-w eth0.100", "-w %F.%H",
		"-w a.b/out.PCAP.GZ", "-w /dev/null", "-w none/none/f.json.zst",
		"-w sflow://h --sflow-agent 192.0.2.1,7", "-w sflow://h --sflow-agent 2001:db8::1",
		"-w sflow://h --sample-flows 10 --max-rate 10", "-C 1 -w f -z gzip",
		"-C 1 -W 5 -w f -z true", "-G 5 -W 5 -w %T -z gzip", "-b packets:1 -w f -z gzip",
		"-G 60 -W 1 -w f", "-G 86400 -w %j", "-G 3600 -w %F_%H", "-G 86400 -w %a", "-G 30 -w %s",
		"-G 60 -a files:1 -w f",
	} {
		if _, err := rotationOf(t, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A file with the largest possible number does not belong to the ring. Neither the ring's numbers
// nor those of a recorder go on after it.
func TestAdoptLargestNumber(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const largest = "9223372036854775807"
	if largest != strconv.Itoa(math.MaxInt) {
		t.Skip("the largest number is another one here")
	}
	for _, name := range []string{"x_00007_20261122140509.pcapng", "x_" + largest + "_20261122140509.pcapng", "x-3.pcapng", "x-" + largest + ".pcapng"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o, err := rotationOf(t, "-b packets:1 -b files:9 -w "+dir+"/x.pcapng")
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Adopt(); err != nil {
		t.Error(err)
	}
	began := time.Date(2026, 11, 22, 14, 5, 9, 0, time.Local)
	if name := o.Series.Path(file.Place{Began: began}); name != dir+"/x_00008_20261122140509.pcapng" || len(o.Series.Left) != 1 {
		t.Errorf("the next file is %s after %v", name, o.Series.Left)
	}
	if paths, after, err := outputs.EarlierRecordings(dir + "/x.pcapng"); err != nil || after != 3 || len(paths) != 1 {
		t.Errorf("the next recording is that after %d of %v", after, paths)
	}
}

// A ring says when it cannot know the files of its earlier run, which it would remove.
func TestAdoptUnreadable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil { // in place of a directory that root may not read
		t.Fatal(err)
	}
	for _, line := range []string{"-b packets:1 -b files:9", "-C 1 -W 9"} {
		o, err := rotationOf(t, line+" -w "+file+"/x.pcapng")
		if err != nil {
			t.Fatal(err)
		}
		if err := o.Adopt(); err == nil || !strings.HasPrefix(err.Error(), "files that an earlier run has left are not known") {
			t.Errorf("%s: %v", line, err)
		}
	}
	if _, _, err := outputs.EarlierRecordings(file + "/x.pcapng"); err == nil {
		t.Error("a recorder says nothing")
	}
}
