package files_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A line of JSON has the same data about a packet as tshark prints from the file beside it,
// including the community id.
func TestJSONLines(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	dir := t.TempDir()
	file, lines := filepath.Join(dir, "out.pcapng"), filepath.Join(dir, "lines")
	stdout, err := os.Create(lines)
	testnet.Must(t, err)
	p := systest.Listening(t, pair.Rx, stdout, "-i", pair.RxName, "-w", file, "-w", "-", "--format", "json", "-s", "60", "--json")
	stdout.Close()
	_, arrived := testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(100, 0), Count: 300, Rate: 10_000})
	s := systest.Account(t, p.Interrupt())
	text, err := os.ReadFile(lines)
	testnet.Must(t, err)
	var got []string
	for line := range bytes.Lines(text) {
		var l jsonLine
		if err := json.Unmarshal(line, &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		got = append(got, l.String())
	}
	cmd := exec.Command("tshark", "-r", file, "--enable-protocol", "communityid", "-T", "fields", "-E", "separator=|", "-t", "ad",
		"-e", "frame.time_epoch", "-e", "frame.interface_name", "-e", "frame.interface_queue", "-e", "frame.packet_id", "-e", "frame.len",
		"-e", "frame.cap_len", "-e", "eth.src", "-e", "eth.dst", "-e", "ip.src", "-e", "udp.srcport", "-e", "ip.dst", "-e", "udp.dstport", "-e", "communityid")
	out, err := cmd.Output()
	testnet.Must(t, err)
	want := strings.Split(strings.TrimSpace(string(out)), "\n")
	for i, line := range want {
		epoch, rest, _ := strings.Cut(line, "|")
		want[i] = rfc3339(t, epoch) + "|" + rest
	}
	if diff := cmp.Diff(want, got); diff != "" || s.Captured != arrived || uint64(len(got)) != arrived {
		t.Errorf("%d captured, tshark (-) and lines (+): %s", s.Captured, diff)
	}
}

// rfc3339 turns seconds since the epoch with nine digits behind the point into a time.
func rfc3339(t *testing.T, epoch string) string {
	t.Helper()
	var sec, ns int64
	if _, err := fmt.Sscanf(epoch, "%d.%d", &sec, &ns); err != nil {
		t.Fatal(err)
	}
	return time.Unix(sec, ns).UTC().Format("2006-01-02T15:04:05.000000000Z")
}

// Files of lines rotate, are compressed and recorded like others; each can be read by itself.
func TestJSONFiles(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	for _, test := range []struct{ flags, glob string }{
		{"-C 20k -w out.json", "out.json*"},
		{"-b packets:50 -w out.jsonl.gz", "out_*.jsonl.gz"},
		{"-w out.json.zst", "out.json.zst"},
		{"--ring 4M --trigger end -w out.json", "out-1.json"},
		{"-w none.json.gz", "none.json.gz"},
		{"-w none.json.zst", "none.json.zst"},
	} {
		dir := t.TempDir()
		args := strings.Fields(test.flags)
		args[len(args)-1] = filepath.Join(dir, args[len(args)-1])
		p := systest.Listening(t, pair.Rx, nil, append(args, "-i", pair.RxName, "--json")...)
		want := uint64(0)
		if !strings.Contains(test.flags, "none") {
			_, want = testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(100, 0), Count: 300, Rate: 10_000})
		}
		s := systest.Account(t, p.Interrupt())
		files, err := filepath.Glob(filepath.Join(dir, test.glob))
		if err != nil || len(files) == 0 || strings.HasPrefix(test.flags, "-C") && len(files) < 3 {
			t.Errorf("%s: files %v, %v", test.flags, files, err)
			continue
		}
		lines := uint64(0)
		for _, file := range files {
			raw, err := os.ReadFile(file)
			testnet.Must(t, err)
			var text bytes.Buffer
			if err := systest.Unpack(t, &text, raw); err != nil {
				t.Errorf("%s: %s: %v", test.flags, file, err)
			}
			for line := range bytes.Lines(text.Bytes()) {
				if !json.Valid(line) {
					t.Errorf("%s: %s", test.flags, line)
				}
				lines++
			}
		}
		if lines != want || s.Captured != want {
			t.Errorf("%s: %d lines, summary %+v", test.flags, lines, s)
		}
	}
}

// A jsonLine has the keys of a packet's line that tshark also prints.
type jsonLine struct {
	Time            string
	Interface       string
	Queue           int
	ID              uint64
	Length          int
	Captured        int
	SourceMAC       string `json:"source_mac"`
	DestinationMAC  string `json:"destination_mac"`
	Source          string
	SourcePort      int `json:"source_port"`
	Destination     string
	DestinationPort int    `json:"destination_port"`
	CommunityID     string `json:"community_id"`
	VLANs           []int
	Protocol        string
}

func (l jsonLine) String() string {
	return fmt.Sprintf("%s|%s|%d|%d|%d|%d|%s|%s|%s|%d|%s|%d|%s", l.Time, l.Interface, l.Queue, l.ID, l.Length, l.Captured,
		l.SourceMAC, l.DestinationMAC, l.Source, l.SourcePort, l.Destination, l.DestinationPort, l.CommunityID)
}
