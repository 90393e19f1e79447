package file

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/pcapng"
	"github.com/xdpcap/xdpcap/internal/testfile"
)

// inputOf returns an input of these files.
func inputOf(t testing.TB, o InputOptions, files ...[]byte) *Input {
	t.Helper()
	var all []InputFile
	for i, file := range files {
		all = append(all, InputFile{Name: fmt.Sprint("file", i), In: bytes.NewReader(file)})
	}
	in, err := NewInput(all, o)
	must(t, err)
	t.Cleanup(func() { in.Close() })
	return in
}

// readFiles returns the interfaces, times and first bytes of the packets, for comparison.
func readFiles(t *testing.T, files ...[]byte) (packets []string) {
	t.Helper()
	in := inputOf(t, InputOptions{}, files...)
	buf := make([]capture.Packet, groupSize)
	for {
		n, err := in.Read(buf, nil)
		if err == io.EOF {
			return packets
		}
		must(t, err)
		for _, p := range buf[:n] {
			packets = append(packets, fmt.Sprintf("%s %d %x", in.Sources()[p.Source].Name, p.Time, p.Data[:8]))
		}
	}
}

// Packets of capture files can be written in every format, compressed or not, into one file or into
// several that end by size, by number or by the time of their packets. Each file can be read by
// itself, and together they have all packets.
func TestInputFormats(t *testing.T) {
	t.Parallel()
	const packets, step = 900, 10_000_000 // 9 seconds of packets
	file := testfile.Numbered(packets, 1_700_000_000_500_000_000, step, "a", "b", "c")
	want := readFiles(t, file)
	for _, format := range []Format{PCAPNG, PCAP, JSON} {
		for _, compression := range []Compression{NoCompression, Gzip, Zstd} {
			for name, r := range map[string]Rotation{
				"one": {}, "size": {Size: 100_000}, "packets": {Packets: 100},
				"period": {Period: 2 * time.Second, Stamped: true, FromFirst: true},
				"both":   {Period: 2 * time.Second, Packets: 90, Stamped: true, FromFirst: true},
			} {
				t.Run(fmt.Sprint(format, " ", compression, " ", name), func(t *testing.T) {
					t.Parallel()
					dir := t.TempDir()
					var paths []string
					r.Path = func(p Place) string {
						return filepath.Join(dir, fmt.Sprintf("%d-%d", p.Period.Unix(), p.Number))
					}
					r.Finished = func(path string) { paths = append(paths, path) }
					f, err := OpenSeries(r, Options{Format: format, Compression: compression})
					must(t, err)
					accounts, err := capture.Run(context.Background(), inputOf(t, InputOptions{}, file), f)
					if err != nil || accounts[0].Total().Captured != packets {
						t.Fatalf("%+v: %v", accounts, err)
					}
					var got []string
					lines := 0
					for _, path := range paths {
						if format == JSON {
							lines += bytes.Count(readBack(t, path, compression), []byte("\n"))
							continue
						}
						own := readFiles(t, rawFile(t, path))
						got = append(got, own...)
						began, _, _ := strings.Cut(filepath.Base(path), "-")
						checkPeriod(t, &r, began, own)
					}
					if format == JSON {
						if lines != packets {
							t.Errorf("%d lines", lines)
						}
						return
					}
					all := want
					if format == PCAP { // which has no interfaces
						all = nil
						for _, text := range want {
							all = append(all, text[1:])
						}
					}
					if diff := cmp.Diff(all, got); diff != "" {
						t.Error(diff)
					}
					if files := len(paths); (files == 1) != (name == "one" || name == "size" && compression != NoCompression) && files < 5 {
						t.Errorf("%d files", files)
					}
				})
			}
		}
	}
}

// checkPeriod checks that all packets of a file are in its period.
func checkPeriod(t *testing.T, r *Rotation, began string, packets []string) {
	t.Helper()
	if r.Period == 0 {
		return
	}
	from, _ := strconv.ParseInt(began, 10, 64)
	for _, p := range packets {
		at, err := strconv.ParseInt(strings.Fields(p)[len(strings.Fields(p))-2], 10, 64)
		if err != nil || at < from*1e9 || at >= from*1e9+int64(r.Period) || (from-1_700_000_000)%2 != 0 {
			t.Errorf("%s is in the file from %d on: %v", p, from, err)
		}
	}
}

// Copying one pcapng file without a filter copies every byte up to the damage, except the lengths
// of sections. The files are those in testdata, also with some of their bytes changed.
func TestInputCopies(t *testing.T) {
	t.Parallel()
	files := [][]byte{testfile.Numbered(100, 0, 1, "a", "b"), slices.Concat(testfile.Numbered(9, 0, 1, "a"), testfile.Numbered(9, 5, 1, ""))}
	for _, pattern := range []string{"../../internal/systest/read/testdata/*.pcapng", "../../internal/capfile/testdata/fuzz/*/*", "../../internal/cli/read/testdata/fuzz/FuzzReadSinks/*"} {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			must(t, err)
			for line := range strings.Lines(string(data)) {
				if quoted, ok := strings.CutPrefix(strings.TrimSpace(line), "[]byte("); ok {
					text, err := strconv.Unquote(strings.TrimSuffix(quoted, ")"))
					must(t, err)
					data = []byte(text)
				}
			}
			files = append(files, data)
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	for _, file := range slices.Clone(files) {
		for range 20 {
			changed := slices.Clone(file)
			for range 1 + random.IntN(3) {
				if len(changed) > 0 {
					changed[random.IntN(len(changed))] = byte(random.Uint32())
				}
			}
			files = append(files, changed[:random.IntN(len(changed)+1)])
		}
	}
	copied := 0
	for _, file := range files {
		if !pcapng.IsSection(file) {
			continue
		}
		in, err := NewInput([]InputFile{{Name: "file", In: bytes.NewReader(file)}}, InputOptions{})
		if err != nil {
			continue
		}
		var out bytes.Buffer
		_, damage := capture.Run(context.Background(), in, NewWriter(&out, Options{}))
		want := openly(file)
		if got := out.Bytes(); !bytes.HasPrefix(want, got) || damage == nil && len(got) != len(file) {
			t.Errorf("%d bytes became %d, %v:\n% x\n% x", len(file), len(got), damage, want, got)
		}
		copied++
	}
	if copied < 50 {
		t.Errorf("%d files were copied", copied)
	}
}

// openly returns a file whose sections have no lengths.
func openly(file []byte) []byte {
	file = slices.Clone(file)
	for at, big := 0, false; at+pcapng.HeaderSize <= len(file); {
		n, order, err := pcapng.BlockLength(file[at:], big)
		if err != nil || at+n > len(file) {
			break
		}
		if big = order; pcapng.IsSection(file[at:]) && n >= 28 {
			pcapng.EndOpenly(file[at:])
		}
		at += n
	}
	return file
}

// An output that fails ends the reading, and counts the packets that it did not write as lost.
func TestInputOutputFails(t *testing.T) {
	t.Parallel()
	in := inputOf(t, InputOptions{}, testfile.Numbered(1000, 0, 1, "eth0"))
	w := NewWriter(&limited{}, Options{Format: PCAP})
	accounts, err := capture.Run(context.Background(), in, w)
	if !errors.Is(err, errNoRoom) {
		t.Error(err)
	}
	if a := accounts[0][0]; a.Captured != 0 || a.NotTaken != a.Seen || a.Lost != a.Seen {
		t.Errorf("%+v", a)
	}
}
