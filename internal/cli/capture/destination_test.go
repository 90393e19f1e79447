package capture

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Each -w has its own format, and the flags about files apply to the one with a file name.
func TestTargets(t *testing.T) {
	t.Parallel()
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
}
