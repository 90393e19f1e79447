package read

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// Arguments are files until one is none.
func TestSplitArguments(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"tcp", "capture", "x.pcap"} {
		os.WriteFile(name, nil, 0o600)
	}
	for _, test := range []struct{ args, files, words string }{
		{"", "", ""},
		{"none", "none", ""},
		{"tcp", "tcp", ""},
		{"x.pcap tcp port 80", "x.pcap", "tcp port 80"},
		{"x.pcap capture port 80", "x.pcap capture", "port 80"},
		{"x.pcap ./tcp port 80", "x.pcap ./tcp", "port 80"},
		{"- y.pcapng z.cap.gz 1.zst not arp", "- y.pcapng z.cap.gz 1.zst", "not arp"},
		{"x.pcap host a.example.net", "x.pcap", "host a.example.net"},
		{"x.pcap -- capture", "x.pcap", "capture"},
		{"x.pcap tcp -- capture", "x.pcap tcp", "capture"},
	} {
		args, dash := strings.Fields(test.args), -1
		for i, arg := range args {
			if arg == "--" {
				dash, args = i, append(args[:i:i], args[i+1:]...)
				break
			}
		}
		files, words := splitArguments(args, dash)
		if got := fmt.Sprint(files, words); got != fmt.Sprint(strings.Fields(test.files), strings.Fields(test.words)) {
			t.Errorf("%s: %s", test.args, got)
		}
	}
	if files, _ := splitArguments([]string{"x.pcap", "ether host 02:00:00:00:00:01 or host a.cap"}, -1); len(files) != 1 {
		t.Errorf("%q", files)
	}
}
