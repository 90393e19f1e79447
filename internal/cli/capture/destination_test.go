package capture

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/testnet"
)

// Each -w has its own format, and the flags about files apply to the one with a file name.
func TestTargets(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	for _, test := range []struct {
		line  string
		want  string // format and compression of each
		write string
	}{
		{"-w a.pcap -w b.pcapng.zst -w -", "pcap, pcapng zstd, pcapng", "b.pcapng.zst"},
		{"-w -", "pcapng", "-"},
		{"-w a.pcapng -w - --format json", "pcapng, json", "a.pcapng"},
		{"-w a.jsonl.gz -w a.json", "json gzip, json", "a.json"},
		{"-w a.pcapng --format pcap", "pcap", "a.pcapng"},
		{"-w a.pcapng -w - -w b --format pcap", "pcapng, pcap, pcap", "b"},
		{"-w - -w a -C 1", "pcapng, pcapng", "a"},
	} {
		o, err := rotationOf(t, test.line)
		if err != nil {
			t.Errorf("%s: %v", test.line, err)
			continue
		}
		var got []string
		for _, target := range o.Targets {
			got = append(got, strings.TrimSpace(target.Format.String()+" "+[]string{"", "gzip", "zstd"}[target.Compression]))
		}
		if diff := cmp.Diff([]string{test.want, test.write}, []string{strings.Join(got, ", "), o.Write}); diff != "" {
			t.Errorf("%s: %s", test.line, diff)
		}
	}
	for _, test := range []struct{ line, want string }{
		{"-w a -w a", "-w a: is given twice"},
		{"-w a -w b -C 1", "-C: -w names 2 files, and only one can go on in further files: choose it"},
		{"-w a -w b --ring 10M", "--ring: -w names 2 files: choose one, for FILE-1, FILE-2 and so on"},
		{"-w a -w - --print", "--print and -w - both need standard output: write to a file, or do not print"},
		{"-w a -w - -C 1 --print-files", "--print-files and -w - both need standard output: choose one"},
		{"-w gopher://x", "-w gopher://x: unknown kind of output gopher"},
		{"--format no", "--format: file format \"no\": must be pcapng, pcap or json"},
	} {
		if _, err := rotationOf(t, test.line); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%s: %v, want %s", test.line, err, test.want)
		}
	}
}

// A file name with a suffix that no format has is refused, unless --format is given.
func TestSuffixes(t *testing.T) {
	t.Parallel()
	testnet.SkipEmulated(t)
	dir := t.TempDir()
	for args, want := range map[string]string{
		"-w out.pcap.bz2":                "-w out.pcap.bz2: xdpcap does not compress into .bz2: say -w out.pcap.gz or -w out.pcap.zst",
		"-w out.xz --format pcap":        "-w out.xz: xdpcap does not compress into .xz: say -w out.gz or -w out.zst",
		"-w d/out.txt":                   "-w d/out.txt: no format has the suffix .txt: say .pcapng, .pcap, .json or .jsonl, or --format with one of these",
		"-w out.pcapn.gz":                "-w out.pcapn.gz: no format has the suffix .pcapn: say",
		"-w out.txt --format pcap":       "",
		"-w out":                         "",
		"-w .txt":                        "",
		"-w out.cap":                     "",
		"-w eth0.100":                    "",
		"-w %F.%H":                       "",
		"-w a.b/out.PCAP.GZ":             "",
		"-w /dev/null":                   "",
		"-w " + dir + "/none/f.json.zst": "",
	} {
		_, err := rotationOf(t, args)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}
