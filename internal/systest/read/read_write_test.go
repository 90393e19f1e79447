package read_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// oddFile is a pcapng file with content that xdpcap never writes: custom options, comments, blocks
// of unknown types, an interface with microseconds and an offset, and the simplest kind of packet.
func oddFile(order binary.AppendByteOrder, withUnknown bool) []byte {
	var file []byte
	block := func(typ uint32, body ...[]byte) {
		all := bytes.Join(body, nil)
		n := uint32(12 + len(all))
		file = order.AppendUint32(order.AppendUint32(file, typ), n)
		file = order.AppendUint32(append(file, all...), n)
	}
	option := func(code uint16, value ...byte) []byte {
		b := order.AppendUint16(order.AppendUint16(nil, code), uint16(len(value)))
		return append(append(b, value...), make([]byte, -len(value)&3)...)
	}
	u32s := func(values ...uint32) (b []byte) {
		for _, v := range values {
			b = order.AppendUint32(b, v)
		}
		return b
	}
	custom := option(2988, append(u32s(32473), "text"...)...)
	verdict := option(7, append([]byte{2}, order.AppendUint64(nil, uint64(capture.Drop))...)...)
	block(0x0a0d0d0a, u32s(0x1a2b3c4d), order.AppendUint16(nil, 1), order.AppendUint16(nil, 0), order.AppendUint64(nil, 1<<64-1),
		option(1, []byte("section")...), custom)
	block(1, order.AppendUint16(nil, 1), []byte{0, 0}, u32s(4), option(2, []byte("odd0")...), option(14, order.AppendUint64(nil, 5)...), custom)
	block(4, order.AppendUint16(nil, 1), order.AppendUint16(nil, 6), []byte{192, 0, 2, 1, 'a', 0, 0, 0, 0, 0, 0, 0}, option(2, []byte("dns")...))
	const stamp = uint64(1700000000000001)
	block(6, u32s(0, uint32(stamp>>32), uint32(stamp&0xffffffff), 4, 60), []byte("wxyz"), option(1, []byte("one")...), option(1, []byte("two")...),
		verdict, option(6, u32s(9)...), option(5, order.AppendUint64(nil, 1<<60)...), option(3, 1, 2, 3, 4, 5), option(4711, 7, 7, 7), custom,
		option(2, u32s(1)...))
	block(3, u32s(60), []byte("wxyz"))
	if withUnknown {
		block(0x4711, []byte("none knows this"), []byte{0})
	}
	block(5, u32s(0, uint32(stamp>>32), uint32(stamp&0xffffffff)), option(4, order.AppendUint64(nil, 3)...))
	return file
}

func writeBytes(t *testing.T, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	testnet.Must(t, os.WriteFile(path, data, 0o600))
	return path
}

// From a single file -w copies every byte, for any content.
func TestReadWriteCopies(t *testing.T) {
	t.Parallel()
	own := systest.ReadBytes(t, systest.WriteSample(t, entrySource, exitSource).Path)
	little, big := oddFile(binary.LittleEndian, true), oddFile(binary.BigEndian, true)
	for name, file := range map[string][]byte{"own": own, "odd": little, "big-endian": big, "sections": slices.Concat(big, little, own)} {
		out := systest.TempFile(t)
		systest.MustRead(t, "-w", out, writeBytes(t, file))
		if diff := cmp.Diff(file, systest.ReadBytes(t, out)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	// Only packets that do not match are left out.
	in, out := writeBytes(t, own), systest.TempFile(t)
	systest.MustRead(t, "-w", out, in, "icmp")
	if got, want := systest.MustRead(t, "-v", out), systest.MustRead(t, "-v", in, "icmp"); got != want {
		t.Error(cmp.Diff(want, got))
	}
	if got, want := accountsOf(t, out), accountsOf(t, in); got != want {
		t.Errorf("the accounts are %s, not %s", got, want)
	}
}

// accountsOf returns the lines about the accounts in a file.
func accountsOf(t *testing.T, path string) string {
	t.Helper()
	lines := strings.SplitAfter(systest.MustRead(t, "--stats", path), "\n")
	accounts := strings.Join(slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, " seen = ") }), "")
	if accounts == "" {
		t.Errorf("no account in %s", path)
	}
	return accounts
}

// Several files are merged into one with all their content: times, verdicts, ids, comments, unknown
// options, names and statistics, in either byte order. tshark agrees.
func TestReadWriteMerges(t *testing.T) {
	t.Parallel()
	one := systest.WriteSample(t, entrySource, exitSource).Path
	little, big := writeBytes(t, oddFile(binary.LittleEndian, true)), writeBytes(t, oddFile(binary.BigEndian, false))
	classic := systest.TempFile(t)
	systest.MustRead(t, "--format", "pcap", "-w", classic, one)
	out := systest.TempFile(t)
	systest.MustRead(t, "-w", out, big, one, little, classic)
	fields := func(files ...string) (all []string) {
		for _, file := range files {
			text := systest.OutputOf(t, "tshark", "-n", "-r", file, "-T", "fields", "-E", "occurrence=a", "-e", "frame.time_epoch", "-e", "frame.len",
				"-e", "frame.cap_len", "-e", "frame.interface_name", "-e", "frame.comment", "-e", "frame.packet_flags", "-e", "frame.drop_count",
				"-e", "frame.packet_id", "-e", "frame.interface_queue", "-e", "frame.verdict.ebpf_xdp", "-o", "frame.generate_md5_hash:TRUE", "-e", "frame.md5_hash")
			text = strings.ReplaceAll(text, "\tunknown\t", "\t\t") // tshark's name of a pcapng interface without a name
			all = append(all, strings.Split(strings.TrimSpace(text), "\n")...)
		}
		for i, line := range all {
			// The copy of a packet without a time has the time of the packet before it.
			if _, rest, _ := strings.Cut(line, "\t"); strings.HasPrefix(rest, "60\t4\t") && !strings.Contains(rest, "one") {
				all[i] = rest
			}
			all[i] = strings.TrimSuffix(all[i], "\n")
		}
		slices.Sort(all)
		return all
	}
	want, got := fields(big, one, little, classic), fields(out)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	data := systest.ReadBytes(t, out)
	for _, piece := range []string{"\x67\x12\x03\x00\x07\x07\x07\x00", "\x03\x00\x05\x00\x01\x02\x03\x04\x05", "none knows this", "\x01\x00\x06\x00\xc0\x00\x02\x01a\x00",
		"\x07\x00\x09\x00\x02\x01\x00\x00\x00\x00\x00\x00\x00", "\xac\x0b\x08\x00\xd9\x7e\x00\x00text"} {
		if !bytes.Contains(data, []byte(piece)) {
			t.Errorf("% x is missing", piece)
		}
	}
	if text := systest.MustRead(t, "--stats", out); strings.Count(text, ": 3 seen") != 1 && strings.Count(text, ": 6 seen") != 1 {
		t.Error(text)
	}
	systest.OutputOf(t, "capinfos", out)

	// A block of an unknown type in a big-endian section cannot be merged: a notice reports it.
	unknown := writeBytes(t, oddFile(binary.BigEndian, true))
	_, stderr, status := systest.RunRead(t, nil, "-w", out, unknown, unknown)
	if status != 0 || stderr != "xdpcap: omitted 2 blocks of type 18193: xdpcap does not know how to adapt them to a merged file\n" {
		t.Errorf("exit status %d: %s", status, stderr)
	}
}

// Files of captures with different -s are merged into one that tcpdump opens, and a packet block
// whose length depends on -s keeps it.
func TestReadWriteMergesSnapLengths(t *testing.T) {
	t.Parallel()
	file := func(snapLen uint32, name string, more ...byte) string {
		b := pcapng.AppendSection(nil, &pcapng.Section{})
		b = pcapng.AppendInterface(b, &pcapng.Interface{LinkType: 1, SnapLen: snapLen, Name: name})
		b = pcapng.AppendPacket(b, &pcapng.Packet{Data: make([]byte, 60), WireLen: 90, Time: 1})
		return writeBytes(t, append(b, more...))
	}
	simple := binary.LittleEndian.AppendUint32(nil, 3) // a block of 60 bytes of 90
	simple = append(simple, 76, 0, 0, 0, 90, 0, 0, 0)
	simple = append(append(simple, make([]byte, 60)...), 76, 0, 0, 0)
	classic := systest.TempFile(t)
	systest.MustRead(t, "--format", "pcap", "-w", classic, file(1500, "one"))
	files := []string{file(60, "small", simple...), file(1000, "large"), file(0, "all"), classic}
	for _, out := range []string{systest.TempFile(t), systest.TempFile(t) + ".zst"} {
		systest.MustRead(t, append([]string{"-w", out}, files...)...)
		if text := systest.MustRead(t, out); strings.Count(text, "\n") != 5 {
			t.Error(text)
		}
		if strings.HasSuffix(out, ".zst") {
			continue
		}
		if text := systest.OutputOf(t, "tcpdump", "-nr", out); strings.Count(text, "\n") != 5 {
			t.Error(text)
		}
		if text := systest.OutputOf(t, "tshark", "-r", out, "-T", "fields", "-e", "frame.cap_len"); text != strings.Repeat("60\n", 5) {
			t.Error(text)
		}
	}
}

// A pcap file has one link type.
func TestReadWritePcap(t *testing.T) {
	t.Parallel()
	b := pcapng.AppendSection(nil, &pcapng.Section{})
	for i, linkType := range []uint16{113, 1} {
		b = pcapng.AppendInterface(b, &pcapng.Interface{LinkType: linkType})
		b = pcapng.AppendPacket(b, &pcapng.Packet{Interface: uint32(i), Data: make([]byte, 60), WireLen: 60})
	}
	in, out := writeBytes(t, b), systest.TempFile(t)
	_, stderr, status := systest.RunRead(t, nil, "--format", "pcap", "-w", out, in)
	if status != 1 || !strings.Contains(stderr, "a pcap file has packets of one link type, and these have link type LINUX_SLL (113) and link type EN10MB (1): write pcapng; it has the packets up to there") {
		t.Errorf("exit status %d: %s", status, stderr)
	}
	// A file without packets has a header.
	systest.MustRead(t, "--format", "pcap", "-w", out, systest.WriteSample(t, systest.PlainSource).Path, "tcp port 1")
	if info := systest.OutputOf(t, "capinfos", "-tE", out); !strings.Contains(info, "nanosecond") || !strings.Contains(info, "Ethernet") {
		t.Error(info)
	}
}

// A name that ends in .gz or .zst compresses, and other programs can read the file.
func TestReadWriteCompresses(t *testing.T) {
	t.Parallel()
	one := systest.ReadBytes(t, systest.WriteSample(t, exitSource).Path)
	long := bytes.Repeat(one, 1+512<<10/len(one)) // several frames, of 256 KiB
	for name, file := range map[string][]byte{"short": one, "long": long} {
		in := writeBytes(t, file)
		for _, suffix := range []string{".gz", ".zst"} {
			packed, again := systest.TempFile(t)+suffix, systest.TempFile(t)
			systest.MustRead(t, "-w", packed, in)
			if n := len(systest.ReadBytes(t, packed)); n > len(file)*3/4 {
				t.Errorf("%s%s: %d bytes of %d", name, suffix, n, len(file))
			}
			systest.MustRead(t, "-w", again, packed)
			if !bytes.Equal(file, systest.ReadBytes(t, again)) {
				t.Errorf("%s%s: other bytes come back", name, suffix)
			}
			if name == "short" {
				continue
			}
			shown := func(path string) string { return systest.OutputOf(t, "tshark", "-n", "-r", path) }
			if diff := cmp.Diff(shown(in), shown(packed)); diff != "" {
				t.Errorf("%s%s: %s", name, suffix, diff)
			}
		}
	}
}

// A file that is being read is never overwritten, even through a link or by a later file of a
// series.
func TestReadWriteOverInput(t *testing.T) {
	t.Parallel()
	before := systest.ReadBytes(t, spreadFile(t, 20))
	series, link := systest.TempFile(t), systest.TempFile(t)
	file := series + "1"
	testnet.Must(t, errors.Join(os.WriteFile(file, before, 0o600), os.Symlink(file, link)))
	for _, args := range [][]string{{"-w", file}, {"-w", link}, {"-C", "1k", "-w", series}} {
		_, stderr, status := systest.RunRead(t, nil, append(args, "--format", "pcapng", file)...)
		if status != 1 || !strings.Contains(stderr, "this file is being read: choose another one") {
			t.Errorf("%q: exit status %d: %s", args, status, stderr)
		}
	}
	if !bytes.Equal(before, systest.ReadBytes(t, file)) {
		t.Error("the file has changed")
	}
}

// An input that is not a capture file creates no output, and does not change an old one. If only
// its decompressed bytes show that, a new output is a whole file, so that every reader opens it.
func TestReadWriteGarbage(t *testing.T) {
	t.Parallel()
	garbage, there, packed := systest.TempFile(t), systest.TempFile(t), systest.TempFile(t)
	text := []byte("no capture file, but a text")
	var zipped bytes.Buffer
	to := gzip.NewWriter(&zipped)
	to.Write(text)
	to.Close()
	testnet.Must(t, errors.Join(os.WriteFile(garbage, text, 0o600), os.WriteFile(there, text, 0o600), os.WriteFile(packed, zipped.Bytes(), 0o600)))
	sample := systest.WriteSample(t, systest.PlainSource).Path
	for _, suffix := range []string{".pcapng", ".pcap", ".json", ".pcapng.gz", ".pcap.zst"} {
		made := systest.TempFile(t) + suffix
		for _, inputs := range [][]string{{garbage}, {sample, garbage}, {packed}, {sample, packed}} {
			bad := inputs[len(inputs)-1]
			_, stderr, status := systest.RunRead(t, nil, append([]string{"-w", made}, inputs...)...)
			if status != 1 || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, bad) {
				t.Errorf("%s: exit status %d: %s", suffix, status, stderr)
			}
			if _, err := os.Stat(made); bad == garbage {
				if !errors.Is(err, os.ErrNotExist) {
					t.Errorf("%s: a file was made: %v", suffix, err)
				}
				continue
			}
			if suffix == ".json" {
				if text := systest.ReadBytes(t, made); len(text) > 0 {
					t.Errorf("it has %q", text)
				}
			} else if out, stderr, status := systest.RunRead(t, nil, made); status != 0 || out != "" {
				t.Errorf("%s: what is left cannot be read: exit status %d: %s%s", suffix, status, out, stderr)
			}
			if err := os.Remove(made); err != nil {
				t.Error(err)
			}
		}
	}
	before := systest.ReadBytes(t, there)
	if _, stderr, status := systest.RunRead(t, nil, "-w", there, garbage); status != 1 || !bytes.Equal(before, systest.ReadBytes(t, there)) {
		t.Errorf("what was there has changed: exit status %d: %s", status, stderr)
	}
	if out, stderr, status := systest.RunRead(t, nil, "-w", "-", garbage); status != 1 || out != "" {
		t.Errorf("exit status %d: %q on standard output, %s", status, out, stderr)
	}
}

// read waits for the commands of -z, and reports how many failed.
func TestReadWritePostrotate(t *testing.T) {
	t.Parallel()
	in := writeBytes(t, oddFile(binary.LittleEndian, false))
	script := filepath.Join(t.TempDir(), "script")
	testnet.Must(t, os.WriteFile(script, []byte("#!/bin/sh\nsleep 0.5\nexit 3\n"), 0o700))
	_, stderr, _ := systest.RunRead(t, nil, "-w", systest.TempFile(t), "-C", "1", "-z", script, in)
	if !strings.Contains(stderr, "exit status 3") {
		t.Error(stderr)
	}
}
