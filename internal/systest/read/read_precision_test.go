package read_test

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
)

// arps is a pcap file of ARP requests, at times that differ by nanoseconds.
func arps(u pcapng.PcapUnit, times ...int64) []byte {
	b := pcapng.AppendPcapHeader(nil, u, 65535, 1)
	for _, at := range times {
		b = pcapng.AppendPcapPacket(b, u, at, 42, []byte("\xff\xff\xff\xff\xff\xff\x02\x00\x00\x00\x00\x01\x08\x06\x00\x01\x08\x00\x06\x04\x00\x01"+
			"\x02\x00\x00\x00\x00\x01\xc0\x00\x02\x01\x00\x00\x00\x00\x00\x00\xc0\x00\x02\x02"))
	}
	return b
}

// Lines have the same nanoseconds as tcpdump's with the same flags, and pcap files the same as the
// files it writes. Without a flag, lines are tcpdump's, and files keep the full precision.
func TestReadPrecision(t *testing.T) {
	t.Parallel()
	const start = 1700000000123456789
	in := writeBytes(t, arps(pcapng.PcapNanoseconds, start, start+1, start+1999, start-1e9))
	for _, flags := range []string{"", "--nano", "--micro", "--time-stamp-precision=nano", "--time-stamp-precision=micro", "--nano --micro", "--micro --nano"} {
		for _, format := range []string{"", "-tt", "-ttt", "-tttt", "-ttttt"} {
			args := strings.Fields(flags + " " + format)
			want := systest.OutputOf(t, "tcpdump", append(args, "-nr", in)...)
			for _, command := range [][]string{{"read"}, {"-r"}} {
				ours := append(args[:len(args):len(args)], in)
				if command[0] == "read" {
					ours = append([]string{"read"}, ours...)
				} else {
					ours = append(ours[:len(ours)-1:len(ours)-1], "-r", in)
				}
				got, err := systest.Command(ours...).Output()
				if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
					t.Errorf("%q: %v (-tcpdump +ours) %s", ours, err, diff)
				}
			}
		}
		out, theirs := filepath.Join(t.TempDir(), "out.pcap"), filepath.Join(t.TempDir(), "their.pcap")
		systest.MustRead(t, append(strings.Fields(flags), "-w", out, in)...)
		want := systest.ReadBytes(t, in)
		if flags != "" {
			systest.OutputOf(t, "tcpdump", append(strings.Fields(flags), "-r", in, "-w", theirs)...)
			want = systest.ReadBytes(t, theirs)
		}
		if got := systest.ReadBytes(t, out); !bytes.Equal(got, want) {
			t.Errorf("%s: the file begins with %#x, tcpdump's with %#x, and packets are the same: %v",
				flags, binary.LittleEndian.Uint32(got), binary.LittleEndian.Uint32(want), bytes.Equal(got[24:], want[24:]))
		}
	}
}

// --skip omits the first matching packets, and counts them as filtered out.
func TestReadSkip(t *testing.T) {
	t.Parallel()
	in := writeBytes(t, arps(pcapng.PcapNanoseconds, 1e9, 2e9, 3e9, 4e9))
	for args, want := range map[string]string{"--skip 2": "3 4", "--skip 1 -c 2": "2 3", "--skip 9": "", "--skip 0": "1 2 3 4"} {
		var got []string
		for line := range strings.Lines(systest.MustRead(t, append(strings.Fields(args+" -tt"), in, "arp")...)) {
			second, _, _ := strings.Cut(line, ".")
			got = append(got, second)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: packets %v, want %s", args, got, want)
		}
	}
}
