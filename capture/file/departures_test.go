package file

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/outfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A narrow file is on a disk that has room for this many more bytes.
type narrow struct {
	*outfile.File
	room, size int64
}

func (n *narrow) Write(b []byte) (int, error) {
	fits := min(int64(len(b)), n.room)
	written, err := n.File.Write(b[:fits])
	n.room, n.size = n.room-int64(written), n.size+int64(written)
	if err == nil && written < len(b) {
		err = unix.ENOSPC
	}
	return written, err
}

func (n *narrow) Truncate(size int64) error {
	n.room, n.size = n.room+n.size-size, size
	return n.File.Truncate(size)
}

// tendNow makes the goroutine that writes check for sources that have gone.
func tendNow(t *testing.T, f *File) {
	t.Helper()
	q := f.queue
	for range 2 { // the second call begins when the first has ended
		q.wake()
		testnet.WaitFor(t, "the look at what has gone", func() bool {
			q.mu.Lock()
			defer q.mu.Unlock()
			return !q.due
		})
	}
}

// The statistics of an interface that has gone are in the file, even if there is little room for
// them when it goes and at the end.
func TestDepartures(t *testing.T) {
	t.Parallel()
	// run writes a packet of each source, of which the second then goes, and returns how many bytes
	// the file had before that and at the end.
	run := func(name string, limit, room int64) (before, size int64) {
		t.Helper()
		path := filepath.Join(t.TempDir(), "out.pcapng")
		f := mustSeries(t, Rotation{Path: func(Place) string { return path }, MaxBytes: limit})
		if room > 0 {
			f.current.stream.out = &narrow{File: f.current.file, room: room}
		}
		final := capture.Accounts{{Seen: 1, Captured: 1}, {Seen: 1, Captured: 1}}
		d := describeTwo()
		d.Accounts = func() (capture.Accounts, error) { return final, nil }
		must(t, f.Begin(d))
		mustWrite(t, f, packetFrom(0, 600), packetFrom(1, 600))
		testnet.WaitFor(t, "the packets", func() bool { return f.current.stream.takenNow().Total().Captured == 2 })
		before = f.Size()
		f.Forget(1)
		tendNow(t, f)
		own, err := f.End(final)
		if err != nil && (room == 0 || !errors.Is(err, unix.ENOSPC)) {
			t.Errorf("%s: %v", name, err)
		}
		data, err := os.ReadFile(path)
		must(t, err)
		checkStatistics(t, name, data, own)
		return before, int64(len(data))
	}
	before, size := run("unlimited", 0, 0)
	of1 := (size - before) / 2
	run("no room within the limit", before+2*trailerRoom+20, 0)
	run("no room on the disk", 0, before+20)
	run("no room at the end", 0, before+of1+20)
}

// Interfaces that have gone take no room except for their blocks in the file.
func TestDeparturesLimit(t *testing.T) {
	t.Parallel()
	const interfaces = 60 // which would reserve nearly the whole limit
	path := filepath.Join(t.TempDir(), "out.pcapng")
	f := mustSeries(t, Rotation{Path: func(Place) string { return path }, MaxBytes: (interfaces + 4) * trailerRoom})
	var come atomic.Int64
	final := make(capture.Accounts, 2+interfaces)
	d := describeTwo()
	d.More = func(from int) []capture.Source {
		return make([]capture.Source, 2+int(come.Load())-from)
	}
	d.Accounts = func() (capture.Accounts, error) {
		now := slices.Clone(final)
		for i := range come.Load() {
			now[2+i] = capture.Account{Seen: 1, Captured: 1}
		}
		return now, nil
	}
	must(t, f.Begin(d))
	for i := range int64(interfaces) {
		come.Store(i + 1)
		mustWrite(t, f, packetFrom(uint16(2+i), 60))
		testnet.WaitFor(t, "its statistics", func() bool { return f.Forget(int(2+i)) || f.Flush() != nil })
	}
	all, _ := d.Accounts()
	own, err := f.End(all)
	if err != nil || own.Total().Captured != interfaces {
		t.Errorf("%d packets, %v", own.Total().Captured, err)
	}
}

// A file that begins after an interface has gone does not describe it, and packets have the
// interfaces' numbers in that file.
func TestDeparturesInHeader(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := mustSeries(t, Rotation{Path: func(p Place) string { return filepath.Join(dir, fmt.Sprint(p.Number)) }, Packets: 2})
	final := capture.Accounts{{Seen: 1, Captured: 1}, {Seen: 2, Captured: 2}}
	d := describeTwo()
	d.More = func(int) []capture.Source { return nil }
	d.Accounts = func() (capture.Accounts, error) { return final, nil }
	must(t, f.Begin(d))
	mustWrite(t, f, packetFrom(0, 60))
	testnet.WaitFor(t, "its statistics", func() bool { return f.Forget(0) || f.Flush() != nil })
	mustWrite(t, f, packetFrom(1, 60), packetFrom(1, 60))
	if _, err := f.End(final); err != nil {
		t.Fatal(err)
	}
	var got []string
	for number := range 2 {
		data, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(number)))
		must(t, err)
		r, _ := mustRead(t, fmt.Sprint("file ", number), data)
		for i := range r.NInterfaces() {
			ifi, err := r.Interface(i)
			must(t, err)
			got = append(got, fmt.Sprintf("%d: %s %d", number, ifi.Name, ifi.Statistics.PacketsReceived))
		}
	}
	want := []string{"0: a 1", "0: b 1", "1: b 1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A capture goes on even if the descriptions of added interfaces are long.
func TestLongDescriptions(t *testing.T) {
	t.Parallel()
	const interfaces = 400
	path := filepath.Join(t.TempDir(), "out.pcapng")
	f := mustSeries(t, Rotation{Path: func(Place) string { return path }, Packets: 1e6})
	d := describeTwo()
	d.Options.Filter = strings.Repeat("udp or ", 8000) + "udp"
	d.More = func(from int) []capture.Source { return make([]capture.Source, 2+interfaces-from) }
	must(t, f.Begin(d))
	final := make(capture.Accounts, 2+interfaces)
	final[2] = capture.Account{Seen: 1, Captured: 1}
	f.Write([]capture.Packet{*packetFrom(2, 600)})
	if own, err := f.End(final); err != nil || own.Total().Captured != 1 || f.Size() <= maxKept {
		t.Errorf("%d bytes, account %+v, %v", f.Size(), own.Total(), err)
	}
}
