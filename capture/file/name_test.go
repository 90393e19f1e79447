package file

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitName(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][3]string{
		"out":                     {"out", "", ""},
		"out.pcap":                {"out", ".pcap", ""},
		"a.gz/out.pcapng":         {"a.gz/out", ".pcapng", ""},
		"out.pcapng.zst":          {"out", ".pcapng", ".zst"},
		"OUT.PCAP.GZ":             {"OUT", ".PCAP", ".GZ"},
		"out.gz":                  {"out", "", ".gz"},
		"out.pcap.1":              {"out.pcap.1", "", ""},
		"out.gz.zst":              {"out.gz", "", ".zst"},
		".pcap":                   {".pcap", "", ""},
		"dir/.zst":                {"dir/.zst", "", ""},
		"dir.pcap/out":            {"dir.pcap/out", "", ""},
		"-":                       {"-", "", ""},
		"%F.pcapng":               {"%F", ".pcapng", ""},
		"out.pcapng.zst.partial":  {"out.pcapng.zst.partial", "", ""},
		"2026-11-22.15.00.pcapng": {"2026-11-22.15.00", ".pcapng", ""},
	} {
		var got [3]string
		got[0], got[1], got[2] = SplitName(path)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}
