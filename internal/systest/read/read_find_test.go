package read_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A directory stands for the capture files in it. With --from and --to only files that may have
// packets of that time are read: those beside it may be damaged, which reading them would report.
func TestReadFind(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := time.Date(2026, 7, 1, 14, 0, 0, 0, time.UTC)
	at := func(minutes int) int64 { return start.Add(time.Duration(minutes) * time.Minute).UnixNano() }
	for hour := range 4 {
		b := pcapng.AppendSection(nil, &pcapng.Section{})
		b = pcapng.AppendInterface(b, &pcapng.Interface{Name: "eth0", LinkType: 1})
		damage := len(b)
		for minute := range 60 {
			damage = len(b)
			b = pcapng.AppendPacket(b, &pcapng.Packet{Time: uint64(at(60*hour + minute)), WireLen: 60, Data: make([]byte, 60)})
		}
		if hour%2 == 1 { // a packet of an interface that the file does not describe, before the last one
			b = append(pcapng.AppendPacket(b[:damage:damage], &pcapng.Packet{Interface: 7, Time: uint64(at(60*hour + 58)), WireLen: 60, Data: make([]byte, 60)}), b[damage:]...)
		}
		testnet.Must(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("out%d.pcapng", hour)), b, 0o600))
	}
	old := filepath.Join(dir, "old.pcap") // its end cannot be read alone, and its date is that of its last packet
	testnet.Must(t, os.WriteFile(old, arps(pcapng.PcapNanoseconds, at(-60), at(-30)), 0o600))
	testnet.Must(t, os.Chtimes(old, time.Unix(0, at(-30)), time.Unix(0, at(-30))))
	testnet.Must(t, os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("no capture"), 0o600))
	for _, test := range []struct {
		args    string
		packets int
		stderr  string
	}{
		{"--from 14:10 --to 14:12 DIR", 2, "1 of 5 files may have packets of this time: out0.pcapng"},
		{"--from 2026-07-01T16:30 --to 2026-07-01T16:59 DIR/out*.pcapng", 29, "1 of 4 files may have packets of this time: out2.pcapng"},
		{"--from 2026-07-01T13:00 --to 2026-07-01T13:31 DIR", 2, "1 of 5 files may have packets of this time: old.pcap"},
		{"--from 2026-07-02 DIR", 0, "no packet is of this time: those of the files are from 2026-07-01 13:00:00 on"},
		{"--from 2026-07-01T14:00 DIR/out0.pcapng DIR/out2.pcapng", 120, ""},
	} {
		stdout, stderr, status := systest.RunRead(t, nil, strings.Fields(strings.ReplaceAll(test.args, "DIR", dir))...)
		if stderr = strings.ReplaceAll(stderr, dir+"/", ""); test.stderr != "" {
			test.stderr = "xdpcap: " + test.stderr + "\n"
		}
		if strings.Count(stdout, "\n") != test.packets || stderr != test.stderr || status != 0 {
			t.Errorf("%s: status %d, %s, %s, want %d packets and %q", test.args, status, stderr, stdout, test.packets, test.stderr)
		}
	}
	if _, stderr, status := systest.RunRead(t, nil, dir); status != 1 || !strings.Contains(stderr, "out1.pcapng is damaged after 59 packets") {
		t.Errorf("without a period: status %d, %s", status, stderr)
	}
	if _, stderr, status := systest.RunRead(t, nil, t.TempDir()); status != 1 || !strings.Contains(stderr, "has no capture files") {
		t.Errorf("an empty directory: status %d, %s", status, stderr)
	}
}

// Packets are chosen by what the file says of them.
func TestReadChoice(t *testing.T) {
	t.Parallel()
	w := systest.WriteSample(t, entrySource, exitSource)
	isExit := func(p *capture.Packet) bool { return p.Source == 1 }
	for args, takes := range map[string]func(*capture.Packet) bool{
		"-i " + exitSource.Label(): isExit,
		"-i nothing,*@fe?it":       isExit,
		"-i " + entrySource.Name:   func(*capture.Packet) bool { return true },
		"--verdict drop,tx": func(p *capture.Packet) bool {
			return isExit(p) && (p.Verdict == capture.Drop || p.Verdict == capture.Tx)
		},
		"--reason *_1": func(p *capture.Packet) bool { return p.Reason == 1 },
		"--lost": func(p *capture.Packet) bool {
			return isExit(p) && (p.Verdict == capture.Drop || p.Verdict == capture.Aborted)
		},
		"--lost --verdict aborted --reason none": func(*capture.Packet) bool { return false },
		"--slower-than 1us":                      func(*capture.Packet) bool { return false },
	} {
		want := 0
		for i := range w.Packets {
			if takes(&w.Packets[i]) {
				want++
			}
		}
		if got := strings.Count(systest.MustRead(t, append(strings.Fields(args), w.Path)...), "\n"); got != want {
			t.Errorf("%s: %d packets, want %d", args, got, want)
		}
	}
	slow := writeSampled(t, capture.Options{}, []capture.Packet{{Facts: &capture.Facts{RunTime: 4999}}, {Facts: &capture.Facts{RunTime: 5000}}}, exitSource)
	if n := strings.Count(systest.MustRead(t, "--slower-than", "5us", slow), "\n"); n != 1 {
		t.Errorf("%d packets were slow, want 1", n)
	}
	_, stderr, status := systest.RunRead(t, nil, "-i", "eth7", w.Path)
	if want := fmt.Sprintf("xdpcap: -i eth7: the interfaces in the files are %s, %s\n", entrySource.Label(), exitSource.Label()); status != 1 || stderr != want {
		t.Errorf("status %d, %s, want %s", status, stderr, want)
	}
}
