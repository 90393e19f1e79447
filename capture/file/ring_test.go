package file

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/outfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A ringTest is a ring of files in a directory, with the counts of written packets.
type ringTest struct {
	*File
	t       *testing.T
	dir     string
	session capture.Accounts

	mu       sync.Mutex
	finished []string
	least    int64 // the fewest bytes of all files together whenever one was finished, once half of the packets were written
	notices  []string
}

const ringPacket = 60_000 // bytes of each packet

// newRing begins a ring of files of some 1 MB, of which fewer than these bytes may stay.
func newRing(t *testing.T, dir string, budget int64, finished func(path string)) *ringTest {
	t.Helper()
	free, err := outfile.FreeAt(dir)
	must(t, err)
	r := &ringTest{t: t, dir: dir, session: make(capture.Accounts, 2), least: math.MaxInt64}
	r.File = mustSeries(t, Rotation{
		Size: 1e6, Keep: 1000, MinFree: free - budget,
		Path: func(p Place) string { return filepath.Join(dir, fmt.Sprintf("%04d.pcapng", p.Number)) },
		Finished: func(path string) {
			if finished != nil {
				finished(path)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.finished = append(r.finished, path)
			if r.Size() > 3*budget/2 {
				r.least = min(r.least, r.Kept())
			}
		},
	})
	return r
}

// begin begins to capture.
func (r *ringTest) begin() {
	r.t.Helper()
	d := describeTwo()
	d.Options.Notice = func(err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.notices = append(r.notices, err.Error())
	}
	must(r.t, r.Begin(d))
}

// write writes this many bytes, and waits until the ring has processed them.
func (r *ringTest) write(bytes int64) {
	r.t.Helper()
	p := testPacket(0)
	p.Data = make([]byte, ringPacket)
	p.WireLen = ringPacket
	for range bytes / ringPacket {
		p.Time = time.Now().UnixNano()
		must(r.t, r.Write([]capture.Packet{*p}))
		r.session[0].Seen++
		r.session[0].Captured++
		r.session[0].Bytes += ringPacket
	}
	testnet.WaitFor(r.t, "the packets to be written", func() bool {
		must(r.t, r.Flush())
		added, written, _ := r.Backlog()
		return added == written
	})
}

// end ends the ring, and checks that its account counts exactly the packets in its files.
func (r *ringTest) end() capture.Account {
	r.t.Helper()
	own, err := r.End(r.session)
	if err != nil {
		r.t.Errorf("the ring ended by %v", err)
	}
	if a := own.Total(); a.Captured+a.NotTaken != r.session[0].Captured || a.NotSampled != 0 {
		r.t.Errorf("account %+v", a)
	}
	return own.Total()
}

// checkLeast checks that the ring never had fewer than these bytes once its room was full.
func (r *ringTest) checkLeast(want int64) {
	r.t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.least < want || r.least == math.MaxInt64 {
		r.t.Errorf("at one time all files had %d bytes together, and %d would have fitted", r.least, want)
	}
}

// On each file system, while other processes start, a ring with MinFree goes on and removes no more
// than the shortfall, also if the file system frees removed files late.
func TestRingOnDisks(t *testing.T) {
	t.Parallel()
	for _, kind := range testnet.DiskKinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			const budget, slack = 12e6, 3e6
			r := newRing(t, testnet.MustDisk(t, kind), budget, nil)
			r.begin()
			ended := beginProcesses(t)
			r.write(3 * budget)
			ended()
			if a := r.end(); a.NotTaken > 0 {
				t.Errorf("account %+v, notices %q", a, r.notices)
			}
			r.checkLeast(budget - slack)
			free := int64(0)
			testnet.WaitFor(t, "the room of removed files to be free", func() bool {
				disk, err := os.Open(r.dir)
				must(t, err)
				defer disk.Close()
				must(t, unix.Syncfs(int(disk.Fd())))
				free, err = outfile.FreeAt(r.dir)
				must(t, err)
				return free >= r.rotation.MinFree-slack
			})
			if most := r.rotation.MinFree + slack; free > most {
				t.Errorf("%d bytes are free, and no more than %d should be", free, most)
			}
		})
	}
}

// beginProcesses starts one process after the other, as -z does, until end is called.
func beginProcesses(t *testing.T) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		for ctx.Err() == nil {
			if err := exec.Command("true").Run(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	return func() {
		cancel()
		group.Wait()
	}
}

// A reader that has one file open, such as an uploader, costs no packets, because other files are
// removed. If a reader has all files open, removing them frees no room. Then the ring removes files
// only for the shortfall, and packets are not taken until the reader closes them.
func TestRingWithReaders(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"tmpfs", "ext4", "overlay"} {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprint(kind, " all ", all), func(t *testing.T) {
				t.Parallel()
				const budget, slack = 8e6, 3e6
				var mu sync.Mutex
				var open []*os.File
				r := newRing(t, testnet.MustDisk(t, kind), budget, func(path string) {
					mu.Lock()
					defer mu.Unlock()
					if !all && len(open) > 0 {
						return
					}
					f, err := os.Open(path)
					if err != nil {
						t.Errorf("the reader comes too late: %v", err)
					}
					open = append(open, f)
				})
				r.begin()
				r.write(3 * budget)
				r.checkStays(budget - slack)
				before := r.Size()
				mu.Lock()
				for _, f := range open {
					f.Close()
				}
				all = false // later files are not opened
				mu.Unlock()
				r.waitClosed()
				r.write(budget)
				if written := r.Size() - before; written < budget-2*ringPacket {
					t.Errorf("%d bytes were written after the reader had closed its files", written)
				}
				wasAll := len(open) > 1
				if a := r.end(); wasAll != (a.NotTaken > 0) || wasAll != (len(r.notices) > 0) {
					t.Errorf("account %+v, notices %q", a, r.notices)
				}
				r.checkStays(budget - slack)
			})
		}
	}
}

// waitClosed waits until no process has removed files open. A process that another test starts
// inherits this test's files, and has them open until its exec.
func (r *ringTest) waitClosed() {
	r.t.Helper()
	testnet.WaitFor(r.t, "removed files to be closed", func() bool {
		r.keeper.mu.Lock()
		defer r.keeper.mu.Unlock()
		must(r.t, r.keeper.readFree(r.current.file))
		_, held := r.keeper.space.free()
		return held == 0
	})
}

// checkStays checks that the files have at least these bytes.
func (r *ringTest) checkStays(want int64) {
	r.t.Helper()
	if size := sizeOf(glob(r.t, r.dir)); size < want {
		r.t.Errorf("the files have %d bytes, and %d would fit", size, want)
	}
}

// A ring keeps its files on a disk that reports removed bytes, or all changes, only at the 30th
// query. XFS and btrfs report them late, too.
func TestRingLateSpace(t *testing.T) {
	t.Parallel()
	const late = 30
	for name, shows := range map[string]func(used []int64) int64{
		"removals": func(used []int64) int64 { return slices.Max(used[max(len(used)-late, 0):]) },
		"all":      func(used []int64) int64 { return used[max(len(used)-late, 0)] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const budget, slack = 12e6, 3e6
			r := newRing(t, testnet.MustDisk(t, "tmpfs"), budget, nil)
			total := r.rotation.MinFree + budget
			var used []int64
			r.Keeper(func(err error) { t.Error(err) }).free = func(onDisk) (int64, bool, error) {
				used = append(used, sizeOf(glob(t, r.dir)))
				return total - shows(used), false, nil
			}
			r.begin()
			r.write(3 * budget)
			if a := r.end(); a.NotTaken > 0 {
				t.Errorf("account %+v", a)
			}
			r.checkLeast(budget - slack)
		})
	}
}

// A ring whose limit of bytes is reached before the first file ends begins the next file earlier,
// and does not end.
func TestRingSmallLimit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		limit   int64
		packets int
	}{
		{"out.pcapng", 60_000, 5000},
		{"out.pcapng.zst", 240_000, 30_000}, // a frame takes up to 20 KB
	} {
		for _, r := range []Rotation{{Period: time.Hour}, {Size: 1e9}, {Packets: 1e6}} {
			r.Keep, r.MaxBytes = 50, test.limit
			paths, own, err := writeSeries(t, r, test.name, test.packets)
			if err != nil || own.Total().Captured != uint64(test.packets) {
				t.Errorf("%s %+v: account %+v, %v", test.name, r, own.Total(), err)
			}
			if size := sizeOf(paths); size > r.MaxBytes || size < r.MaxBytes/4 {
				t.Errorf("%s %+v: %d bytes in the files", test.name, r, size)
			}
		}
	}
}

// A ring that was killed while it wrote a file under its temporary name goes on with that name,
// even with NoOverwrite.
func TestRingAdoptsPartial(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(p Place) string { return filepath.Join(dir, fmt.Sprintf("out.pcapng%d", p.Number%4)) }
	left := []string{path(Place{Number: 1}), path(Place{Number: 2}) + ".partial"}
	for _, name := range left {
		must(t, os.WriteFile(name, []byte("left"), 0o600))
	}
	r := Rotation{Packets: 100, Keep: 4, Path: path, Atomic: true, NoOverwrite: true, Left: left}
	must(t, TrySeries(r, Options{}))
	const packets = 1000
	if _, own, err := writeSeries(t, r, "out.pcapng", packets); err != nil || own.Total().Captured != packets {
		t.Errorf("account %+v, %v", own.Total(), err)
	}
	var want []string
	for n := range 4 {
		want = append(want, path(Place{Number: n}))
	}
	if files := glob(t, dir); !slices.Equal(files, want) {
		t.Errorf("files %q", files)
	}
}
