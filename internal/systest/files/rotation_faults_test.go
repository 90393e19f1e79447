package files_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/systest"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A ring of files is rotated many times while commands are started for its files: a child that has
// not executed its program yet has copies of the descriptors, and with them of the locks.
func TestRotationLocks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flags      string
		size, rate int
	}{
		{"-C 64k -W 2 -z true", 300, 20_000},
		{"-C 1 -W 3 -z true", 1400, 60_000},
		{"-C 1 -W 10 -z true", 1400, 60_000},
	} {
		t.Run(test.flags, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			dir := t.TempDir()
			testnet.MustMount(t, "tmpfs", dir, 0, "size=64M")
			p := systest.Listening(t, pair.Rx, nil, append(strings.Fields(test.flags), "-i", pair.RxName,
				"-w", filepath.Join(dir, "out.pcapng"), "--json")...)
			// It does not wait for packets to arrive, because a capture that has ended receives
			// none.
			if _, err := testnet.MustGenerator(t, pair).Run(t.Context(), testnet.GeneratorOptions{
				Frame: testnet.UDPFrame(test.size, 0), Count: 30_000, Rate: float64(test.rate),
			}); err != nil {
				t.Fatal(err)
			}
			if s := systest.Account(t, p.Interrupt()); s.NotTaken != 0 || s.Seen == 0 {
				t.Errorf("summary %+v", s)
			}
		})
	}
}

// A ring that is started again goes on with the files of its earlier run, and removes only the
// oldest of them. Files with other names stay.
func TestRingBeginsAgain(t *testing.T) {
	t.Parallel()
	const frames, most = 1200, 4 // five files, so that tcpdump's names have started again
	for _, test := range []struct {
		flags  string
		others []string
		bytes  int64 // limit for the bytes of all files
	}{
		{"-C 100k -W 4", []string{"out.pcapng4", "out.pcapng01", "other"}, 1e6},
		{"-C 100k -W 4 --atomic --no-overwrite", []string{"out.pcapng9", "out.pcapng0.old"}, 1e6},
		{"-b filesize:100 -b files:4", []string{"out_00001_2026.pcapng", "out_1_20261122130501.pcapng", "x_00001_20261122130501.pcapng"}, 1e6},
		{"-b filesize:100 -b files:4 --no-overwrite", nil, 1e6},
		{"-b filesize:100 -b files:4 --max-bytes 250k", nil, 250 << 10},
	} {
		t.Run(test.flags, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			dir := t.TempDir()
			args := append(strings.Fields(test.flags), "-i", pair.RxName, "-w", filepath.Join(dir, "out.pcapng"), "--json")
			p := systest.Listening(t, pair.Rx, nil, args...)
			testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(300, 0), Count: frames})
			systest.Account(t, p.Interrupt())
			before := names(readSeries(t, dir)) // with packets, in order
			for _, name := range test.others {
				testnet.Must(t, os.WriteFile(filepath.Join(dir, name), []byte("somebody else's"), 0o600))
			}
			highest := slices.Max(before) // of dumpcap's names
			for range 2 {                 // these receive no packets
				p = systest.Listening(t, pair.Rx, nil, args...)
				systest.Account(t, p.Interrupt())
				for _, name := range test.others {
					if is, err := os.ReadFile(filepath.Join(dir, name)); string(is) != "somebody else's" {
						t.Errorf("%s has %q, %v", name, is, err)
					}
				}
				entries, err := os.ReadDir(dir)
				testnet.Must(t, err)
				var now []string
				bytes := int64(0)
				for _, e := range entries {
					if info, err := e.Info(); err == nil && !slices.Contains(test.others, e.Name()) {
						now, bytes = append(now, e.Name()), bytes+info.Size()
					}
				}
				if strings.HasPrefix(test.flags, "-b") {
					if slices.Max(now) <= highest {
						t.Errorf("the numbers do not go on after %s: %v", highest, now)
					}
					highest = slices.Max(now)
				}
				// Each run replaces one file: the oldest.
				kept := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return !hasPackets(t, filepath.Join(dir, name)) })
				if len(now) > most || bytes > test.bytes || len(kept) == 0 || !slices.Equal(kept, before[len(before)-len(kept):]) ||
					test.bytes == 1e6 && len(kept) < len(before)-1 {
					t.Fatalf("of %v are left %v, and there are %v, with %d bytes", before, kept, now, bytes)
				}
				before = kept
			}
		})
	}
}

// hasPackets reports whether there is a file with packets.
func hasPackets(t *testing.T, path string) bool {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		return false
	}
	return len(readSeriesFile(t, path).numbers) > 0
}

// With --no-overwrite an existing file stays unchanged: the capture does not begin.
func TestNoOverwrite(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	file := systest.TempFile(t)
	testnet.Must(t, os.WriteFile(file, []byte("earlier"), 0o600))
	for _, flags := range []string{"", "--atomic", "-C 1"} {
		status, stderr := systest.Start(t, pair.Rx, nil, append(strings.Fields(flags), "-i", pair.RxName, "-w", file, "--no-overwrite")...).Wait()
		want := "xdpcap: -w: open " + file + ": a file of this name already exists: choose another name, or omit --no-overwrite to write over it\n"
		if is, _ := os.ReadFile(file); status != 1 || stderr != want || string(is) != "earlier" {
			t.Errorf("%s: exit status %d: %s; the file has %q", flags, status, stderr, is)
		}
	}
	// A file that is not regular is not overwritten.
	systest.Account(t, systest.Listening(t, pair.Rx, nil, "-i", pair.RxName, "-w", os.DevNull, "--no-overwrite", "--json").Interrupt())
}

// A foreign file with the name of a later file of a series ends the capture, and stays. The earlier
// files have the packets of the account, which is in a file of its own.
func TestSeriesBlocked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, flags string
		block       func(file string) error
		want        string
	}{
		{"FIFO", "", func(file string) error { return unix.Mkfifo(file, 0o600) }, "open FILE: it is not a regular file"},
		{"file of --json", "", func(file string) error { return os.Symlink("counts", file) }, "lock FILE: "},
		{"existing file", "--no-overwrite", func(file string) error { return os.WriteFile(file, []byte("earlier"), 0o600) },
			"open FILE: a file of this name already exists"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			dir := t.TempDir()
			out, counts := filepath.Join(dir, "out"), filepath.Join(dir, "counts")
			args := append(strings.Fields(test.flags), "-i", pair.RxName, "-w", out, "-C", "100k", "--json="+counts)
			p := systest.Listening(t, pair.Rx, nil, args...)
			if err := test.block(out + "1"); err != nil { // a file that exists at the start is found then
				t.Fatal(err)
			}
			g := testnet.GeneratorOptions{Frame: testnet.UDPFrame(1000, 0), Count: 500}
			if _, err := testnet.MustGenerator(t, pair).Run(t.Context(), g); err != nil {
				t.Fatal(err)
			}
			status, stderr := p.Wait()
			want := "begin file 2 of the capture: " + strings.ReplaceAll(test.want, "FILE", out+"1")
			if status != 1 || !strings.Contains(stderr, want) {
				t.Errorf("exit status %d: %s", status, stderr)
			}
			s := systest.Account(t, systest.Contents(t, counts))
			if n := len(readSeriesFile(t, out).numbers); n == 0 || uint64(n) != s.Captured {
				t.Errorf("%d packets in the file before, summary %+v", n, s)
			}
			if test.flags != "" && systest.Contents(t, out+"1") != "earlier" {
				t.Error("the file was written over")
			}
		})
	}
}

// Files of another user with the names of a series, created before it begins or while it goes on,
// do not end it: the series uses the next names, reports it once, and does not change that user's
// files.
func TestSeriesPassesOver(t *testing.T) {
	t.Parallel()
	const somebody = 4_000_000
	ways := map[string]func(path string) error{
		"file":      func(path string) error { return os.WriteFile(path, []byte("theirs"), 0o666) },
		"FIFO":      func(path string) error { return unix.Mkfifo(path, 0o666) },
		"directory": func(path string) error { return os.Mkdir(path, 0o777) },
		"link":      func(path string) error { return os.Symlink("/etc/passwd", path) },
	}
	for _, test := range []struct {
		name, flags string
		way         string
		before      bool // the name exists before the capture begins
		sticky      bool
		others      []string
		want        []string // further names of the series
	}{
		{"ring", "-C 100k -W 4", "file", false, true, []string{"out2"}, []string{"out0", "out1", "out3"}},
		{"ring, at the start", "-C 100k -W 4", "file", true, true, []string{"out0", "out2"}, []string{"out1", "out3"}},
		{"ring of another user", "-C 100k -W 4 -Z nobody", "file", true, true, []string{"out2"}, []string{"out0", "out1", "out3"}},
		{"ring, FIFO", "-C 100k -W 4 --no-overwrite", "FIFO", false, false, []string{"out1", "out2"}, []string{"out0", "out3"}},
		{"ring, directory", "-C 100k -W 4 --atomic", "directory", false, false, []string{"out1.partial"}, []string{"out0", "out2", "out3"}},
		{"any number", "-C 100k", "link", false, false, []string{"out1", "out2"}, []string{"out", "out3", "out4"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			pair := testnet.MustPair(t, testnet.PairOptions{})
			dir := systest.DirectoryFor(t, 0)
			mode := os.FileMode(0o777)
			if test.sticky {
				mode |= os.ModeSticky
			}
			testnet.Must(t, os.Chmod(dir, mode))
			take := func() {
				for _, name := range test.others {
					path := filepath.Join(dir, name)
					testnet.Must(t, errors.Join(ways[test.way](path), os.Lchown(path, somebody, somebody)))
				}
			}
			if test.before {
				take()
			}
			p := systest.Listening(t, pair.Rx, nil, append(strings.Fields(test.flags), "-i", pair.RxName,
				"-w", filepath.Join(dir, "out"), "--json")...)
			if !test.before {
				take()
			}
			testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(1000, 0), Count: 500})
			said := p.Interrupt()
			if s := systest.Account(t, said); s.Captured != 500 || s.NotTaken != 0 {
				t.Errorf("summary %+v", s)
			}
			if n := strings.Count(said, "the series passes over the names that others have taken"); n != 2 { // one line, and one in --json
				t.Errorf("%d notices: %s", n, said)
			}
			for _, name := range test.others {
				var is unix.Stat_t
				if err := unix.Lstat(filepath.Join(dir, name), &is); err != nil || is.Uid != somebody {
					t.Errorf("%s is user %d's, %v", name, is.Uid, err)
				}
			}
			for _, name := range test.want {
				if !hasPackets(t, filepath.Join(dir, name)) {
					t.Errorf("%s has no packets", name)
				}
			}
		})
	}
}

// A reader that keeps each file of a ring open costs packets, which the account has, but neither
// files nor the free room.
func TestRingReader(t *testing.T) {
	t.Parallel()
	pair := testnet.MustPair(t, testnet.PairOptions{})
	const minFree, frames = 2 << 20, 6000
	const nextFile = 8 << 10 // waits for room
	dir := t.TempDir()
	testnet.MustMount(t, "tmpfs", dir, 0, "size=6M")
	open := make(map[string]*os.File)
	read := func() {
		paths, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, path := range paths {
			if open[path] == nil {
				open[path], _ = os.Open(path) // may already be removed
			}
		}
	}
	p := systest.Listening(t, pair.Rx, nil, "-C", "1", "-W", "100", "--min-free", "2M", "-i", pair.RxName,
		"-w", filepath.Join(dir, "out.pcapng"), "--json", "-B", systest.RingFor(frames, 1400))
	for range frames / 100 {
		testnet.Generate(t, pair, testnet.GeneratorOptions{Frame: testnet.UDPFrame(1400, 0), Count: 100})
		read()
	}
	systest.WaitStderr(t, p, "the ring of files takes no packets until there is room: ")
	s := systest.Account(t, p.Interrupt())
	for _, f := range open {
		f.Close()
	}
	if !strings.Contains(p.Stderr(), ": other programs have ") || s.NotTaken == 0 || s.Captured < frames/3 {
		t.Errorf("said %s, summary %+v", p.Stderr(), s)
	}
	if files := readSeries(t, dir); len(files) < 4 || len(files) > 6 {
		t.Errorf("files %v", names(files))
	}
	var now unix.Statfs_t
	testnet.Must(t, unix.Statfs(dir, &now))
	if free := int64(now.Bavail) * now.Frsize; free < minFree-nextFile {
		t.Errorf("%d bytes are free", free)
	}
}
