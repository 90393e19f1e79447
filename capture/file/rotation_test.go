package file

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// at is a time of a day in UTC.
func at(hour, minute, second int) time.Time {
	return time.Date(2026, 11, 22, hour, minute, second, 0, time.UTC)
}

// A series that begins at 12:00:07 goes through these places when its files begin at these times.
func TestRotationNext(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		rotation Rotation
		begin    []time.Time
		want     []Place // Number left out
	}{
		{
			"no period", Rotation{Size: 1},
			[]time.Time{at(12, 1, 0), at(12, 2, 0)},
			[]Place{{Period: at(12, 0, 7), Began: at(12, 0, 7)}, {InPeriod: 1, Period: at(12, 1, 0), Began: at(12, 1, 0)}, {InPeriod: 2, Period: at(12, 2, 0), Began: at(12, 2, 0)}},
		}, {
			"from the start on", Rotation{Period: time.Minute, Origin: at(12, 0, 7)},
			[]time.Time{at(12, 0, 30), at(12, 1, 7), at(12, 1, 8), at(12, 5, 0)},
			[]Place{
				{Period: at(12, 0, 7), Began: at(12, 0, 7)},
				{InPeriod: 1, Period: at(12, 0, 7), Began: at(12, 0, 30)}, // by its size
				{Period: at(12, 1, 7), Began: at(12, 1, 7)},
				{InPeriod: 1, Period: at(12, 1, 7), Began: at(12, 1, 8)},
				{Period: at(12, 4, 7), Began: at(12, 4, 7)}, // the machine slept
			},
		}, {
			"multiples", Rotation{Period: time.Minute, Origin: time.Unix(0, 0).UTC()},
			[]time.Time{at(12, 1, 0)},
			[]Place{{Period: at(12, 0, 0), Began: at(12, 0, 7)}, {Period: at(12, 1, 0), Began: at(12, 1, 0)}},
		}, {
			"of each file", Rotation{Period: time.Minute},
			[]time.Time{at(12, 0, 30), at(12, 1, 31), at(12, 5, 0)},
			[]Place{
				{Period: at(12, 0, 7), Began: at(12, 0, 7)},
				{InPeriod: 1, Period: at(12, 0, 30), Began: at(12, 0, 30)},
				{Period: at(12, 1, 30), Began: at(12, 1, 30)},
				{Period: at(12, 5, 0), Began: at(12, 5, 0)},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := []Place{test.rotation.first(at(12, 0, 7))}
			for i, begin := range test.begin {
				got = append(got, test.rotation.next(got[i], begin))
				test.want[i+1].Number = i + 1
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	early := Rotation{Period: time.Minute, Origin: at(12, 0, 7)}
	if got := early.setBack(Place{Number: 9, Period: at(12, 9, 7)}, at(11, 58, 0)); got.Number != 9 || !got.Period.Equal(at(11, 57, 7)) {
		t.Errorf("after the clock was set back: %+v", got)
	}
}

func rawFile(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	must(t, err)
	return raw
}

// readBack returns the uncompressed content of a file.
func readBack(t *testing.T, path string, c Compression) []byte {
	t.Helper()
	raw := rawFile(t, path)
	if c == NoCompression {
		return raw
	}
	open := func(b []byte) (io.Reader, error) { return gzip.NewReader(bytes.NewReader(b)) }
	if c == Zstd {
		open = func(b []byte) (io.Reader, error) {
			return zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1))
		}
	}
	r, err := open(raw)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	plain, err := io.ReadAll(r)
	if err != nil {
		t.Errorf("%s: %v", path, err)
	}
	return plain
}

// packetsIn returns how many packets a file has, by its name.
func packetsIn(t *testing.T, path string) uint64 {
	t.Helper()
	format, c := FormatByName(path)
	return countPackets(format, readBack(t, path, c))
}

// writeSeries writes packets, one each millisecond, to a series, and returns the paths of its
// files in the order in which they were finished. It checks that Kept is the size of those files
// that still exist.
func writeSeries(t *testing.T, r Rotation, name string, packets int) (paths []string, own capture.Accounts, err error) {
	t.Helper()
	dir := t.TempDir()
	if r.Path == nil {
		r.Path = func(p Place) string { return filepath.Join(dir, fmt.Sprintf("%03d-%s", p.Number, name)) }
	}
	var mu sync.Mutex // of paths, to which the finisher's goroutine adds
	r.Finished = func(path string) {
		mu.Lock()
		defer mu.Unlock()
		paths = append(paths, path)
	}
	format, compression := FormatByName(name)
	f, err := OpenSeries(r, Options{Format: format, Compression: compression})
	must(t, err)
	defer f.Close()
	d := describeTwo()
	// No period is ever settled, so that only time stamps end files, even if packets arrive slowly.
	d.Settled = func() time.Time { return time.Time{} }
	session := make(capture.Accounts, 2)
	d.Accounts = func() (capture.Accounts, error) { // one packet was lost in a ring per finished file
		mu.Lock()
		defer mu.Unlock()
		return capture.Accounts{{Lost: uint64(len(paths)), FilteredOut: 5}, {}}, nil
	}
	must(t, f.Begin(d))
	start := time.Now().UnixNano()
	var failed error
	for i := range packets {
		p := testPacket(i)
		p.Time = start + int64(i)*int64(time.Millisecond)
		session[p.Source].Captured++
		session[p.Source].Bytes += uint64(len(p.Data))
		if failed = f.Write([]capture.Packet{*p}); failed != nil {
			break
		}
		if i%100 == 99 {
			if failed = f.Flush(); failed != nil {
				break
			}
		}
	}
	for i := range session {
		session[i].Lost, session[i].FilteredOut = 1000, 5
		a := &session[i]
		a.Seen = a.FilteredOut + a.NotSampled + a.Lost + a.Invalid + a.Captured
	}
	own, err = f.End(session)
	if err == nil && !errors.Is(failed, capture.ErrEnough) {
		err = failed
	}
	if size := sizeOf(paths); err == nil && f.Kept() != size {
		t.Errorf("%d bytes are said to be in files that have %d", f.Kept(), size)
	}
	checkExisting(t, f, paths, own, err)
	for _, a := range own {
		if a.Seen != a.FilteredOut+a.NotSampled+a.Lost+a.Invalid+a.Captured {
			t.Errorf("the account does not add up: %+v", a)
		}
	}
	return paths, own, err
}

// checkExisting checks what a series that has ended says of its files: those that are there, and
// the packets in them. A format that no reader here knows is passed over.
func checkExisting(t *testing.T, f *File, paths []string, own capture.Accounts, err error) {
	t.Helper()
	e := f.Existing()
	var there []string
	for _, path := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		if _, gone := os.Stat(path); gone == nil {
			there = append(there, path)
		}
	}
	if err != nil {
		return
	}
	if e.Files != len(there) || e.Bytes != f.Kept() || e.Keep != f.rotation.Keep || e.Free >= 0 {
		t.Errorf("%+v of %d files with %d bytes", e, len(there), f.Kept())
	}
	if written := own.Total().Captured; len(there) == len(paths) && e.Packets != written || e.Packets > written || e.Packets == 0 && written > 0 {
		t.Errorf("%d packets are said to be in %d of %d files, of %d", e.Packets, len(there), len(paths), written)
	}
	// The first file began with the session, and the test's description does not say when.
	if since := time.Since(e.Since).Abs(); len(there) > 0 && !e.Since.IsZero() && since > time.Minute {
		t.Errorf("the oldest file is said to have begun at %v", e.Since)
	}
}

// sizeOf returns the bytes of the existing files; each path counts once.
func sizeOf(paths []string) (bytes int64) {
	for _, path := range slices.Compact(slices.Sorted(slices.Values(paths))) {
		if info, err := os.Stat(path); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// Each packet is in exactly one file, in order, for every limit that ends files.
func TestSeries(t *testing.T) {
	t.Parallel()
	const packets = 5000
	for _, name := range []string{"out.pcapng", "out.pcap", "out.pcapng.gz", "out.pcapng.zst", "out.pcap.zst"} {
		for _, test := range []struct {
			name     string
			rotation Rotation
			files    int // 0 = more than one
		}{
			{"single", Rotation{}, 1},
			{"size", Rotation{Size: 5000}, 0},
			{"packets", Rotation{Packets: 300}, (packets + 299) / 300},
			{"period", Rotation{Period: 700 * time.Millisecond}, 0},
			{"all", Rotation{Size: 100_000, Packets: 900, Period: 1500 * time.Millisecond, Atomic: true}, 0},
		} {
			t.Run(name+" "+test.name, func(t *testing.T) {
				t.Parallel()
				paths, own, err := writeSeries(t, test.rotation, name, packets)
				if err != nil || own.Total().Captured != packets || own.Total().Lost != 2000 {
					t.Errorf("account %+v, %v", own.Total(), err)
				}
				if !slices.IsSorted(paths) || test.files > 0 && len(paths) != test.files || test.files == 0 && len(paths) < 2 {
					t.Errorf("want %d files: %v", test.files, paths)
				}
				format, compression := FormatByName(name)
				last, n := int64(0), uint64(0)
				for _, path := range paths {
					first := int64(0)
					in := uint64(0)
					if err := forPackets(format, readBack(t, path, compression), func(ns int64) {
						if last != 0 && ns-last != int64(time.Millisecond) {
							t.Errorf("%s: packet %d is %v behind the one before", path, n, time.Duration(ns-last))
						}
						if first == 0 {
							first = ns
						}
						last, n, in = ns, n+1, in+1
					}); err != nil {
						t.Errorf("%s: %v", path, err)
					}
					if p := test.rotation.Packets; p > 0 && in > p {
						t.Errorf("%s has %d packets", path, in)
					}
					if p := test.rotation.Period; p > 0 && last-first >= int64(p) {
						t.Errorf("%s is about %v", path, time.Duration(last-first))
					}
				}
				if n != packets {
					t.Errorf("%d packets in %d files", n, len(paths))
				}
				if left, _ := filepath.Glob(filepath.Join(filepath.Dir(paths[0]), "*")); len(left) != len(paths) {
					t.Errorf("files %v", left)
				}
			})
		}
	}
}

// Packets that a series does not take after its limit count as not sampled instead of lost.
func TestSeriesEnough(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rotation Rotation
		captured uint64
	}{
		{Rotation{Packets: 100, Files: 3}, 300},
		{Rotation{Packets: 100, MaxBytes: 100_000}, 0},
	} {
		for _, name := range []string{"out.pcapng", "out.pcapng.zst"} {
			paths, own, err := writeSeries(t, test.rotation, name, 5000)
			got := own.Total()
			if err != nil || got.NotTaken != 0 || got.Lost != 2000 || test.captured > 0 && got.Captured != test.captured {
				t.Errorf("%+v: account %+v, %v", test.rotation, got, err)
			}
			size, n := int64(0), uint64(0)
			for _, path := range paths {
				info, err := os.Stat(path)
				must(t, err)
				size += info.Size()
				n += packetsIn(t, path)
			}
			if n != got.Captured || test.rotation.MaxBytes > 0 && size > test.rotation.MaxBytes {
				t.Errorf("%+v: %d packets and %d bytes in the files, account %+v", test.rotation, n, size, got)
			}
		}
	}
}

// Packets that a limit refuses count as not sampled. With compression, packets kept for the last
// frame do, too, although they are refused only when the session ends.
func TestSeriesEnoughAtEnd(t *testing.T) {
	t.Parallel()
	const packets = 1050
	for _, name := range []string{"out.pcapng.gz", "out.pcapng.zst"} {
		whole, _, err := writeSeries(t, Rotation{Packets: 2000}, name, packets)
		must(t, err)
		refused := 0
		for limit := sizeOf(whole); limit < sizeOf(whole)+4000; limit += 100 {
			_, own, err := writeSeries(t, Rotation{Packets: 2000, MaxBytes: limit}, name, packets)
			got := own.Total()
			if err != nil || got.NotTaken != 0 || got.Captured+got.NotSampled != packets {
				t.Errorf("%s up to %d bytes: account %+v, %v", name, limit, got, err)
			}
			if got.NotSampled > 0 {
				refused++
			}
		}
		if refused == 0 {
			t.Errorf("%s: no limit has refused anything", name)
		}
	}
}

// A series leaves MinFree bytes free, even if a file becomes full when hardly more are left. The
// header of another file would take one more block of the disk.
func TestSeriesLeavesFree(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t)
	free := func() int64 {
		var s unix.Statfs_t
		must(t, unix.Statfs(dir, &s))
		return int64(s.Bavail) * s.Frsize
	}
	step := uint64(1)
	if testing.Short() {
		step = 10
	}
	empty, begun := free(), 0
	for _, name := range []string{"out.pcapng", "out.pcapng.gz", "out.pcapng.zst"} {
		for most := uint64(130); most < 210; most += step {
			r := Rotation{Packets: most, MinFree: empty - 64<<10}
			r.Path = func(p Place) string { return filepath.Join(dir, fmt.Sprint(p.Number, name)) }
			paths, own, err := writeSeries(t, r, name, 2000)
			if left := free(); err != nil && !errors.Is(err, ErrDiskLow) || left < r.MinFree {
				t.Errorf("%s of %d packets: %d bytes are free and %d should be; account %+v, %v", name, most, left, r.MinFree, own.Total(), err)
			}
			n, there := uint64(0), glob(t, dir)
			for _, path := range there {
				n += packetsIn(t, path)
				must(t, os.Remove(path))
			}
			if n != own.Total().Captured {
				t.Errorf("%s of %d packets: %d packets in %d files, account %+v", name, most, n, len(there), own.Total())
			}
			begun += len(paths)
		}
	}
	if series := 3 * 80 / int(step); begun < 2*series {
		t.Errorf("%d series have %d files", series, begun)
	}
}

// A file that the series has overwritten does not count in its limit of bytes.
func TestSeriesOverwritten(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	turn := func(p Place) string { return filepath.Join(dir, fmt.Sprintf("turn%d", p.Number%2)) }
	single, own, err := writeSeries(t, Rotation{Packets: 100}, "out.pcapng", 100)
	if err != nil || own.Total().Captured != 100 {
		t.Fatalf("account %+v, %v", own.Total(), err)
	}
	const packets = 5000
	_, own, err = writeSeries(t, Rotation{Packets: 100, MaxBytes: 4 * sizeOf(single), Path: turn}, "out.pcapng", packets)
	if a := own.Total(); err != nil || a.Captured != packets || a.NotSampled != 0 {
		t.Errorf("account %+v, %v", a, err)
	}
}

// A ring keeps Keep files, and removes no file that it has not created.
func TestSeriesRing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other := filepath.Join(dir, "other")
	path := func(p Place) string { return filepath.Join(dir, fmt.Sprintf("%03d.pcapng", p.Number)) }
	must(t, os.WriteFile(other, nil, 0o600))
	paths, own, err := writeSeries(t, Rotation{Packets: 100, Keep: 3, Path: path}, "out.pcapng", 1000)
	if err != nil || own.Total().Captured != 1000 || len(paths) != 10 {
		t.Errorf("%v, account %+v, %v", paths, own.Total(), err)
	}
	if left, want := glob(t, dir), append(paths[7:], other); !slices.Equal(left, want) {
		t.Errorf("files %v, want %v", left, want)
	}
	// Two names that are used in turn.
	turn := func(p Place) string { return filepath.Join(dir, fmt.Sprintf("turn%d", p.Number%2)) }
	if _, own, err = writeSeries(t, Rotation{Packets: 100, Keep: 2, Path: turn}, "out.pcapng", 1000); err != nil || own.Total().Captured != 1000 {
		t.Errorf("account %+v, %v", own.Total(), err)
	}
	for i := range 2 {
		if n := packetsIn(t, filepath.Join(dir, fmt.Sprintf("turn%d", i))); n != 100 {
			t.Errorf("file %d has %d packets", i, n)
		}
	}
}

// A ring takes over the files of an earlier run that are regular and that no process writes to.
func TestSeriesAdopts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var left, kept []string
	for _, name := range []string{"1", "2", "locked", "link", "directory", "another user's", "3", "gone"} {
		path := filepath.Join(dir, name)
		switch left = append(left, path); name {
		case "gone":
			continue
		case "directory":
			must(t, os.Mkdir(path, 0o700))
			kept = append(kept, path)
			continue
		case "link":
			kept = append(kept, path)
			if path += "ed"; os.Symlink(path, path[:len(path)-2]) != nil {
				t.Fatal("no link")
			}
			kept = append(kept, path)
		case "locked":
			kept = append(kept, path)
		}
		must(t, os.WriteFile(path, make([]byte, 1000), 0o600))
		if name == "another user's" {
			if kept = append(kept, path); os.Geteuid() != 0 {
				left = left[:len(left)-1] // only root can give a file away
				continue
			}
			must(t, os.Chown(path, 4_000_000, 4_000_000))
		}
	}
	locked, err := Open(filepath.Join(dir, "locked"), Options{})
	must(t, err)
	defer locked.Close()
	for _, step := range []struct {
		rotation Rotation
		stay     []string
	}{
		{Rotation{Packets: 1e6, Keep: 9, MaxBytes: 2500}, []string{"2", "3"}},
		{Rotation{Packets: 1e6, Keep: 2}, []string{"3"}},
	} {
		path := filepath.Join(dir, fmt.Sprintf("new%d", step.rotation.Keep))
		step.rotation.Left, step.rotation.Path = left, func(Place) string { return path }
		f := mustSeries(t, step.rotation)
		if _, err := os.Stat(left[1]); err != nil {
			t.Errorf("something was removed before the session began: %v", err)
		}
		d := describeTwo()
		d.Options.Notice = func(err error) { t.Errorf("%+v: %v", step.rotation, err) }
		must(t, f.Begin(d))
		want := append(slices.Clone(kept), path)
		for _, name := range step.stay {
			want = append(want, filepath.Join(dir, name))
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, glob(t, dir)); diff != "" {
			t.Errorf("%+v: %s", step.rotation, diff)
		}
		f.Close()
		os.Remove(path)
	}
}

// A ring gives one notice for the first file that it cannot remove, or for which it cannot find out
// whether it may.
func TestSeriesCannotRemove(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, said string }{{"removed", ": remove "}, {"opened", ": open "}} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			var left []string
			for i := range 3 {
				path := filepath.Join(dir, fmt.Sprint("left", i))
				must(t, os.WriteFile(path, []byte("left"), 0o600))
				left = append(left, path)
			}
			var notices []string
			begin := func() {
				d := describeTwo()
				d.Options.Notice = func(err error) { notices = append(notices, err.Error()) }
				must(t, mustSeries(t, Rotation{Packets: 1e6, Keep: 2, Left: left, Path: func(Place) string { return filepath.Join(dir, "new") }}).Begin(d))
			}
			if test.name == "removed" {
				for _, path := range left { // what is mounted on cannot be removed
					must(t, unix.Mount(path, path, "", unix.MS_BIND, ""))
					defer unix.Unmount(path, unix.MNT_DETACH)
				}
				begin()
			} else {
				mustAsNobody(t, dir, begin)
			}
			if len(notices) != 1 || !strings.Contains(notices[0], test.said+left[0]+": ") {
				t.Errorf("notices %q", notices)
			}
			if paths := glob(t, dir); len(paths) != 4 {
				t.Errorf("files %v", paths)
			}
		})
	}
}

// mustAsNobody calls do on a thread that opens files as the user nobody, who may create files in a
// directory and may not read other users' files.
func mustAsNobody(t *testing.T, dir string, do func()) {
	t.Helper()
	const nobody = 65534
	must(t, errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777|os.ModeSticky)))
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	unix.SetfsuidRetUid(nobody) // which also drops the capabilities for files
	defer unix.SetfsuidRetUid(0)
	do()
}

// glob returns all paths in a directory.
func glob(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	return all
}

// smallDisk returns a directory that has room for 1 MiB. It needs root.
func smallDisk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	testnet.MustMount(t, "tmpfs", dir, 0, "size=1m")
	return dir
}

// If there is no room for a file's header, no unreadable file stays.
func TestSeriesNoRoomToBegin(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"out.pcapng", "out.pcapng.zst"} {
		dir := smallDisk(t)
		path := func(p Place) string {
			if p.Number == 1 { // the disk becomes full before this file begins
				if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 2<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
					t.Error(err)
				}
			}
			return filepath.Join(dir, fmt.Sprint(p.Number, "-", name))
		}
		paths, own, err := writeSeries(t, Rotation{Packets: 100, Path: path}, name, 5000)
		if !errors.Is(err, unix.ENOSPC) || own.Total().Captured != 100 || len(paths) != 1 {
			t.Errorf("%v, account %+v, %v", paths, own.Total(), err)
		}
		if left := glob(t, dir); len(left) != 2 {
			t.Errorf("%v are left, want the first file and what fills the disk", left)
		}
	}
}

// A removed directory, or a name that a directory already has, ends the session with an error. The
// earlier files keep their packets.
func TestSeriesNextFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(p Place) string { return filepath.Join(dir, strings.Repeat("none/", p.Number/2), "out") }
	paths, own, err := writeSeries(t, Rotation{Packets: 100, Path: func(p Place) string { return path(p) + fmt.Sprint(p.Number) }}, "out.pcapng", 5000)
	if err == nil || !strings.Contains(err.Error(), "begin file 3 of the capture: open ") || own.Total().Captured != 200 || len(paths) != 2 {
		t.Errorf("%v, account %+v, %v", paths, own.Total(), err)
	}
	for _, r := range []Rotation{{Size: 1}, {Atomic: true}} {
		r.Path = func(Place) string { return os.DevNull }
		if f, err := OpenSeries(r, Options{}); err == nil || !strings.Contains(err.Error(), "not a regular file") {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// A file that could not be synced does not get its name, Finished is not called for it, and its
// packets are not captured.
func TestSeriesDiskFails(t *testing.T) {
	t.Parallel()
	dir := testnet.MustFailingDisk(t)
	path := func(p Place) string { return filepath.Join(dir, fmt.Sprintf("%d.pcapng", p.Number)) }
	var finished []string
	f := mustSeries(t, Rotation{Packets: 50, Atomic: true, Path: path, Finished: func(path string) { finished = append(finished, path) }})
	must(t, f.Begin(describeTwo()))
	const packets = 100
	session := make(capture.Accounts, 2)
	p := testPacket(0)
	p.Data = make([]byte, 60_000)
	p.WireLen = uint32(len(p.Data))
	for range packets {
		f.Write([]capture.Packet{*p}) // End returns the error, too
		session[p.Source].Seen++
		session[p.Source].Captured++
		session[p.Source].Bytes += uint64(len(p.Data))
	}
	own, err := f.End(session)
	if err == nil || !strings.Contains(err.Error(), "to disk: ") {
		t.Errorf("%v", err)
	}
	published := uint64(0)
	for _, path := range finished {
		published += packetsIn(t, path)
	}
	a := own.Total()
	if a.Captured != published || a.NotTaken != packets-published || a.Lost != a.NotTaken || published == packets || a.Bytes != a.Captured*60_000 {
		t.Errorf("%d packets in the files %v, account %+v", published, finished, a)
	}
	if first := path(Place{}); slices.Contains(finished, first) {
		t.Errorf("files %v", finished)
	} else if _, err := os.Stat(first); err == nil {
		t.Errorf("%s has its name", first)
	}
}

// Complete files are finished one by one while more packets are written.
func TestSeriesAtomicNames(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(p Place) string { return filepath.Join(dir, fmt.Sprintf("%d.pcapng", p.Number)) }
	f := mustSeries(t, Rotation{Packets: 10, Atomic: true, Path: path})
	must(t, f.Begin(describeTwo()))
	defer f.End(make(capture.Accounts, 2)) // waits for the goroutine that writes
	for i := range 15 {
		mustWrite(t, f, testPacket(i))
	}
	testnet.WaitFor(t, "the first file", func() bool {
		return slices.Equal(glob(t, dir), []string{filepath.Join(dir, "0.pcapng"), filepath.Join(dir, "1.pcapng.partial")})
	})
}

// A period does not end before all packets with a time stamp in it were passed to Write, even if
// that takes long.
func TestPeriodWaits(t *testing.T) {
	t.Parallel()
	const period = 300 * time.Millisecond
	dir := t.TempDir()
	path := func(p Place) string { return filepath.Join(dir, fmt.Sprint(p.Number)) }
	f := mustSeries(t, Rotation{Path: path, Period: period, Origin: time.Now()})
	begin := f.place.Period // on a busy machine, periods may have passed since Origin
	var settled atomic.Pointer[time.Time]
	settled.Store(&begin)
	d := describeTwo()
	d.Settled = func() time.Time { return *settled.Load() }
	must(t, f.Begin(d))
	flushUntil := func(what string, done func() bool) {
		t.Helper()
		testnet.WaitFor(t, what, func() bool { return f.Flush() != nil || done() })
	}
	flushUntil("the period to be long over", func() bool { return time.Since(begin) > 2*period })
	p := testPacket(0)
	p.Time = begin.Add(period / 2).UnixNano()
	mustWrite(t, f, p) // with its flush, since the file could end before the packet leaves the encoder
	later := begin.Add(period + time.Millisecond)
	settled.Store(&later)
	flushUntil("the second file", func() bool { _, err := os.Stat(path(Place{Number: 1})); return err == nil })
	if _, err := f.End(make(capture.Accounts, 2)); err != nil {
		t.Fatal(err)
	}
	if n := packetsIn(t, path(Place{})); n != 1 {
		t.Errorf("the first file has %d packets", n)
	}
}

// If the disk is full, the statistics of all files together have every loss in the account, also if
// the disk becomes full at the end of a file that is not the last.
func TestSeriesFullTellsLoss(t *testing.T) {
	t.Parallel()
	begun, step := 0, 2
	if testing.Short() {
		step = 6
	}
	for _, name := range []string{"out.pcapng", "out.pcapng.zst", "out.pcapng.gz"} {
		for i := 4; i < 44; i += step {
			room, most := i<<10, []uint64{150, 1500}[i/2%2] // packets in a file; 1500 are one frame
			// Each case has its own disk. A disk whose files were removed is not empty yet if a
			// process that another test starts has a removed file open.
			dir := smallDisk(t)
			path := func(p Place) string { return filepath.Join(dir, fmt.Sprint(p.Number, "-", name)) }
			must(t, os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 1<<20-room), 0o600))
			paths, own, err := writeSeries(t, Rotation{Packets: most, Path: path}, name, 20_000)
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatal(err)
			}
			reported := uint64(0)
			for _, path := range paths {
				_, compression := FormatByName(path)
				r, _ := mustRead(t, path, readBack(t, path, compression))
				for i := range r.NInterfaces() {
					ifi, err := r.Interface(i)
					must(t, err)
					reported += ifi.Statistics.PacketsDropped
				}
			}
			if lost := own.Total().Lost; reported != lost {
				t.Errorf("%s of %d packets: %d packets are lost, and the statistics of %d files have %d", name, most, lost, len(paths), reported)
			}
			if len(paths) > 1 {
				begun++
			}
		}
	}
	if begun == 0 {
		t.Error("no series has a second file")
	}
}

// A period that is already over when the file begins ends like any other, because the goroutine
// that writes sets its timer. make test-race fails if another goroutine sets it.
func TestPeriodOverAtBegin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 30 {
		f := mustSeries(t, Rotation{Path: func(Place) string { return filepath.Join(dir, fmt.Sprint(i)) }, Period: time.Nanosecond})
		d := describeTwo()
		var asked atomic.Int64
		d.Settled = func() time.Time { asked.Add(1); return time.Time{} } // the period waits for its packets
		must(t, f.Begin(d))
		must(t, f.Flush())
		testnet.WaitFor(t, "the end of the period to be looked for again", func() bool { return asked.Load() > 1 })
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
