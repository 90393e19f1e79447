package read_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A pcap file may have packets that are longer than its header says. As pcapng, other programs
// read it to its end.
func TestReadLongPackets(t *testing.T) {
	t.Parallel()
	file := arps(pcapng.PcapMicroseconds, 1e9, 2e9, 3e9)
	binary.LittleEndian.PutUint32(file[16:], 31) // the snapshot length, and packets have 42 bytes
	in, key := writeBytes(t, file), writeBytes(t, []byte(strings.Repeat("k", 32)))
	url, received := receive(t)
	for name, args := range map[string][]string{"copied": nil, "anonymized": {"--anonymize", key}, "sent": {"-w", url}} {
		out := systest.TempFile(t)
		if _, stderr, status := systest.RunRead(t, nil, append(args, "-w", out, in)...); status != 0 {
			t.Errorf("%s: exit status %d: %s", name, status, stderr)
		}
		if name == "sent" {
			out = writeBytes(t, <-received)
		}
		if lines := systest.OutputOf(t, "tcpdump", "-nr", out); strings.Count(lines, "ARP") != 3 {
			t.Errorf("%s: tcpdump prints %q", name, lines)
		}
	}
}

// blocks returns the types of a pcapng file's blocks, in order.
func blocks(t *testing.T, path string) (types []uint32) {
	t.Helper()
	f, err := capfile.New(strings.NewReader(string(systest.ReadBytes(t, path))), path, capfile.Options{})
	testnet.Must(t, err)
	for {
		b, err := f.Next()
		if errors.Is(err, io.EOF) {
			return types
		}
		testnet.Must(t, err)
		types = append(types, b.Raw.Type)
	}
}

// Each file of a series has the blocks that its packets need: interfaces, names of addresses, and
// secrets for decryption, if they are before the packets.
func TestReadCompleteFiles(t *testing.T) {
	t.Parallel()
	const section, described, packet, names, secrets = 0x0a0d0d0a, 1, 6, 4, 10
	other := func(typ uint32, body string) []byte {
		b := binary.LittleEndian.AppendUint32(nil, typ)
		b = binary.LittleEndian.AppendUint32(b, uint32(12+len(body)))
		return binary.LittleEndian.AppendUint32(append(b, body...), uint32(12+len(body)))
	}
	numbered := testfile.Numbered(6, 0, 1, "eth0")
	first := slices.Index(blocks(t, writeBytes(t, numbered)), packet)
	at := 0
	for range first {
		at += int(binary.LittleEndian.Uint32(numbered[at+4:]))
	}
	secret := func(n int) []byte { return other(secrets, fmt.Sprintf("LKST\x04\x00\x00\x00a%d\n\n", n)) }
	file := slices.Concat(numbered[:at], secret(1), other(names, "\x01\x00\x06\x00\xc0\x00\x02\x01a\x00\x00\x00\x00\x00\x00\x00"))
	third := at
	for range 2 {
		third += int(binary.LittleEndian.Uint32(numbered[third+4:]))
	}
	file = slices.Concat(file, numbered[at:third], secret(2), numbered[third:])
	for _, merged := range []bool{false, true} {
		dir := t.TempDir()
		args := []string{"-b", "packets:2", "-w", filepath.Join(dir, "out.pcapng"), writeBytes(t, file)}
		if merged { // with a file that has no packet
			args = append(args, writeBytes(t, numbered[:at]))
		}
		systest.MustRead(t, args...)
		made, _ := filepath.Glob(filepath.Join(dir, "*"))
		if len(made) != 3 {
			t.Fatalf("made %q", made)
		}
		for i, path := range made {
			var head []uint32
			for _, typ := range blocks(t, path) {
				if typ == packet {
					break
				}
				head = append(head, typ)
			}
			want := []uint32{section, described, secrets, names}
			if merged {
				want = []uint32{section, described, described, secrets, names}
			}
			if i > 0 {
				want = append(want, secrets)
			}
			slices.Sort(want)
			slices.Sort(head)
			if diff := cmp.Diff(want, head); diff != "" {
				t.Errorf("file %d, merged %v: before the packets: (-want +got) %s", i, merged, diff)
			}
			systest.OutputOf(t, "capinfos", path)
		}
	}
}

// Files of -b are named by the times of their packets, including the first one.
func TestReadNamesByPackets(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"packets:1", "filesize:1"} {
		dir := t.TempDir()
		systest.MustRead(t, "-b", flag, "-w", filepath.Join(dir, "out.pcap"), writeBytes(t, arps(pcapng.PcapMicroseconds, 1e9, 3601e9)))
		made, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, path := range made {
			if !strings.Contains(path, "_1970") {
				t.Errorf("-b %s: %s", flag, path)
			}
		}
		if len(made) == 0 {
			t.Errorf("-b %s made no file", flag)
		}
	}
}
