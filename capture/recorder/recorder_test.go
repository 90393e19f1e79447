package recorder

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gopacket/gopacket/pcapgo"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
	"github.com/xdpcap/xdpcap/internal/outfile"
	"github.com/xdpcap/xdpcap/internal/testnet"
)

// A recorderTest is a recorder with its files in a directory of the test.
type recorderTest struct {
	*Recorder
	t        *testing.T
	dir      string
	mu       sync.Mutex
	done     []Recording
	opened   int
	hold     chan struct{} // if not nil, Open waits until it is closed
	rotation file.Rotation // of each file
	packets  uint64        // written so far
	dataSize int
}

const testPackets = 100 // bytes of each

func newRecorderTest(t *testing.T, o Options) *recorderTest {
	t.Helper()
	r := &recorderTest{t: t, dir: t.TempDir(), dataSize: testPackets}
	o.Open = func() (*file.File, string, error) {
		if r.hold != nil {
			<-r.hold
		}
		r.opened++
		rotation, path := r.rotation, r.path(r.opened)
		rotation.Path = func(file.Place) string { return path }
		file, err := file.OpenSeries(rotation, file.Options{})
		return file, path, err
	}
	o.Done = func(done Recording) {
		r.mu.Lock()
		r.done = append(r.done, done)
		r.mu.Unlock()
	}
	var err error
	if r.Recorder, err = New(o); err != nil {
		t.Fatal(err)
	}
	if err := r.Begin(capture.Description{Sources: []capture.Source{{Name: "eth0"}}, Options: capture.Options{SnapLen: 2000}}); err != nil {
		t.Fatal(err)
	}
	return r
}

// waitFor waits until this many files are complete and the recorder is ready for the next one.
func (r *recorderTest) waitFor(files int) {
	r.t.Helper()
	testnet.WaitFor(r.t, "the file to be complete", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.done) == files && r.writerIdle.Load()
	})
}

func (r *recorderTest) path(n int) string { return filepath.Join(r.dir, fmt.Sprint(n)) }

// write writes numbered packets, a microsecond after each other.
func (r *recorderTest) write(n int) {
	r.t.Helper()
	data := make([]byte, r.dataSize)
	for range n {
		binary.BigEndian.PutUint64(data, r.packets)
		p := capture.Packet{Facts: &capture.Facts{WireLen: uint32(len(data)), Time: int64(r.packets) * 1000, ID: r.packets}, Data: data}
		if err := r.Write([]capture.Packet{p}); err != nil {
			r.t.Fatal(err)
		}
		r.packets++
	}
}

func (r *recorderTest) flush(times int) {
	r.t.Helper()
	for range times {
		if err := r.Flush(); err != nil {
			r.t.Fatal(err)
		}
	}
}

// end ends the recorder, and checks that its account has this many written packets.
func (r *recorderTest) end(written uint64) {
	r.t.Helper()
	a := capture.Account{Seen: r.packets + 5, Lost: 5, Captured: r.packets, Bytes: r.packets * testPackets}
	own, err := r.End(capture.Accounts{a})
	if err != nil {
		r.t.Fatal(err)
	}
	want := capture.Account{Seen: r.packets + 5, Lost: 5, Captured: written, Bytes: written * uint64(r.dataSize),
		NotSampled: r.packets - written, NotRecorded: r.packets - written}
	if own[0] != want {
		r.t.Errorf("the account is %+v, want %+v", own[0], want)
	}
}

// numbers returns the numbers of the packets in a file and the comment of its header, and checks
// that its statistics count these packets.
func (r *recorderTest) numbers(n int) (numbers []uint64, comment string) {
	r.t.Helper()
	numbers, reader := r.read(n)
	ifi, err := reader.Interface(0)
	if s := ifi.Statistics; err != nil || s.PacketsReceived != uint64(len(numbers)) {
		r.t.Errorf("file %d has the statistics %+v, %v", n, s, err)
	}
	return numbers, reader.SectionInfo().Comment
}

// read reads a file to its end, and returns the numbers of its packets.
func (r *recorderTest) read(n int) (numbers []uint64, reader *pcapgo.NgReader) {
	r.t.Helper()
	file, err := os.ReadFile(r.path(n))
	if err != nil {
		r.t.Fatal(err)
	}
	reader, err = pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		r.t.Fatal(err)
	}
	for {
		data, _, err := reader.ReadPacketData()
		if err != nil {
			return numbers, reader
		}
		numbers = append(numbers, binary.BigEndian.Uint64(data))
	}
}

// checkFile checks that a file has exactly the packets from first to before end.
func (r *recorderTest) checkFile(n int, first, end uint64, trigger string) {
	r.t.Helper()
	numbers, comment := r.numbers(n)
	for i, number := range numbers {
		if number != first+uint64(i) {
			r.t.Fatalf("file %d: packet %d is number %d, the first is to be %d", n, i, number, first)
		}
	}
	if uint64(len(numbers)) != end-first {
		r.t.Errorf("file %d has the packets %d to %d, want those from %d to before %d", n, numbers[0], numbers[len(numbers)-1], first, end)
	}
	if want := "recorded because of: " + trigger; !strings.Contains(comment, want) {
		r.t.Errorf("file %d: %q is not in its comment %q", n, want, comment)
	}
}

// firesAt is a trigger that fires at packets with one of these numbers.
func firesAt(numbers ...uint64) Trigger {
	return Trigger{Name: fmt.Sprint("at ", numbers), Fires: func(p *capture.Packet, _ *capture.Source) bool {
		for _, n := range numbers {
			if p.ID == n {
				return true
			}
		}
		return false
	}}
}

// A file has the packets up to the one that fired the trigger, as many as fit into the memory, and
// the packets of the time Post after it. Later packets are in no file; packets of two triggers are
// in one file.
func TestRecorder(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	kept := uint64(size / room(testPackets))
	for _, post := range []uint64{0, 1, 7000} { // packets, a microsecond each
		t.Run(fmt.Sprint(post), func(t *testing.T) {
			t.Parallel()
			r := newRecorderTest(t, Options{Size: size, Post: time.Duration(post) * time.Microsecond, Triggers: []Trigger{firesAt(40_000, 40_000+post, 50_000)}})
			r.write(47_500)
			r.waitFor(1)
			r.write(12_500)
			second := max(40_001+post, 50_001-kept)
			r.end(kept + post + 50_001 + post - second)
			r.checkFile(1, 40_001-kept, 40_001+post, "at [40000")
			r.checkFile(2, second, 50_001+post, "at [40000")
			want := uint64(1)
			if post == 0 {
				want = 0
			}
			if len(r.done) != 2 || r.done[0].Further != want || r.done[0].Packets != kept+post {
				t.Errorf("recordings %+v", r.done)
			}
		})
	}
}

// Packets that are overwritten before they were written are counted at once.
func TestRecorderOverwritten(t *testing.T) {
	t.Parallel()
	r := newRecorderTest(t, Options{Size: MinSize})
	if n := r.Overwritten(); n[0] != 0 {
		t.Errorf("%d packets are overwritten before the first one", n)
	}
	fit := len(r.ring.mem) / int(room(r.dataSize))
	r.write(fit + 100)
	if n := r.Overwritten(); n[0] != 100 {
		t.Errorf("%d packets are overwritten, want 100", n)
	}
	r.end(0)
}

// Trigger writes a file also while no packets arrive, and AtEnd writes the packets in memory at the
// end. Without a trigger no file is written.
func TestRecorderAsked(t *testing.T) {
	t.Parallel()
	for _, atEnd := range []bool{false, true} {
		r := newRecorderTest(t, Options{Size: MinSize, AtEnd: atEnd})
		for asked := 1; asked <= 3; asked++ {
			r.write(1000)
			r.Trigger("SIGUSR2")
			testnet.WaitFor(t, "the recording to begin", func() bool { r.Flush(); return r.current == nil && len(r.queued) == 0 })
			testnet.WaitFor(t, "the recording to end", func() bool { r.Flush(); r.mu.Lock(); defer r.mu.Unlock(); return len(r.done) == asked })
			r.checkFile(asked, uint64(asked-1)*1000, uint64(asked)*1000, "SIGUSR2, at ")
		}
		r.write(1000)
		written := uint64(3000)
		if atEnd {
			written = 4000
		}
		r.end(written)
		if atEnd {
			r.checkFile(4, 3000, 4000, "the end of the capture, at ")
		}
	}
	r := newRecorderTest(t, Options{Size: MinSize})
	r.write(100_000)
	r.end(0)
	if r.opened > 0 {
		t.Error("it has written without a trigger")
	}
}

// While Open has not returned, Write waits instead of overwriting packets of the recording. Further
// recordings wait, too.
func TestRecorderSlowFile(t *testing.T) {
	t.Parallel()
	r := newRecorderTest(t, Options{Size: MinSize, Post: time.Hour, Triggers: []Trigger{firesAt(9000)}})
	r.hold = make(chan struct{})
	blocked := make(chan struct{})
	go func() {
		defer close(blocked)
		r.write(50_000)
	}()
	testnet.WaitFor(t, "Write to wait", func() bool { return r.needsRoom.Load() })
	if head := r.ring.head.Load(); head > 9001*room(testPackets)+MinSize {
		t.Errorf("%d bytes were kept before it waited", head)
	}
	close(r.hold)
	<-blocked
	kept := uint64(MinSize / room(testPackets))
	r.end(50_000 - (9001 - kept))
	r.checkFile(1, 9001-kept, 50_000, "at [9000], at ")
}

// Triggers within Interval after the previous one make no file, and are counted.
func TestRecorderInterval(t *testing.T) {
	t.Parallel()
	r := newRecorderTest(t, Options{Size: MinSize, Interval: 50 * time.Microsecond, Triggers: []Trigger{firesAt(10, 20, 61, 100, 111, 112)}})
	r.write(150)
	r.Trigger("asked") // does not wait
	r.Flush()
	r.end(150)
	if recordings, passedOver := r.Recordings(); recordings != 4 || passedOver != 3 || len(r.done) != 4 {
		t.Errorf("%d recordings, %d triggers passed over, done %+v", recordings, passedOver, r.done)
	}
}

// The files of all recordings together stay within the limits: the oldest is removed or, without
// Keep, the session ends and later packets count as not recorded instead of lost.
func TestRecorderLimits(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rotation file.Rotation
		left     []int // of the files
	}{
		{file.Rotation{Keep: 2}, []int{3, 4}},
		{file.Rotation{Keep: 9, MaxBytes: 40_000}, []int{3, 4}},
		{file.Rotation{MaxBytes: 40_000}, []int{1, 2, 3}},
	} {
		r := newRecorderTest(t, Options{Size: MinSize})
		r.rotation = test.rotation
		var failed error
		for n := range 4 {
			r.write(100)
			r.Trigger("asked")
			testnet.WaitFor(t, "the recording", func() bool {
				r.mu.Lock()
				complete := len(r.done) == n+1 && r.writerIdle.Load()
				r.mu.Unlock()
				failed = r.Flush() // which may fail before the file is complete
				return failed != nil || complete
			})
			if failed != nil {
				break
			}
		}
		if ends := test.rotation.Keep == 0; ends != errors.Is(failed, capture.ErrEnough) {
			t.Errorf("%+v: %v", test.rotation, failed)
		}
		a := capture.Account{Seen: r.packets, Captured: r.packets, Bytes: r.packets * testPackets}
		own, err := r.End(capture.Accounts{a})
		if err != nil || own[0].Lost != 0 || own[0].Seen != own[0].Captured+own[0].NotSampled || own[0].Captured == 0 {
			t.Errorf("%+v: account %+v, %v", test.rotation, own[0], err)
		}
		var left []int
		size, packets := int64(0), 0
		for n := 1; n <= 4; n++ {
			if info, err := os.Stat(r.path(n)); err == nil {
				left, size = append(left, n), size+info.Size()
				numbers, _ := r.read(n)
				packets += len(numbers)
			}
		}
		if !slices.Equal(left, test.left) || test.rotation.MaxBytes > 0 && size > test.rotation.MaxBytes ||
			test.rotation.Keep == 0 && uint64(packets) != own[0].Captured {
			t.Errorf("%+v: the files %v have %d bytes and %d packets, account %+v", test.rotation, left, size, packets, own[0])
		}
	}
}

// Packets of all lengths wrap around the end of the memory, and every field of their Facts is kept.
func TestPacketRing(t *testing.T) {
	t.Parallel()
	ring, err := newPacketRing(MinSize)
	if err != nil {
		t.Fatal(err)
	}
	defer ring.close()
	var around wrapped
	first, next := 0, 0
	made := func(n int) capture.Packet {
		p := capture.Packet{Facts: new(capture.Facts), Data: bytes.Repeat([]byte{byte(n)}, 1+n*7919%300)}
		facts := reflect.ValueOf(p.Facts).Elem()
		for i := range facts.NumField() {
			value := uint64(n+i) * 0x9e3779b97f4a7c15 // has all bits in any field
			switch field := facts.Field(i); {
			case !field.CanSet():
			case field.CanInt():
				field.SetInt(int64(value))
			default:
				field.SetUint(value)
			}
		}
		return p
	}
	for next < 100_000 {
		p := made(next)
		for ; !ring.hasRoom(room(len(p.Data))); first++ {
			var got capture.Packet
			if first%2 == 0 {
				ring.first(&got, &around)
				if want := made(first); !reflect.DeepEqual(want, got) {
					t.Fatalf("packet %d is %+v, want %+v", first, got, want)
				}
			}
			ring.drop()
		}
		ring.put(&p)
		next++
	}
	if cap(around.data) == 0 || around.header == (header{}) {
		t.Error("no packet wrapped around the end")
	}
}

// An error of a file ends the session, and its packets count as not taken.
func TestRecorderError(t *testing.T) {
	t.Parallel()
	r := newRecorderTest(t, Options{Size: MinSize, Triggers: []Trigger{firesAt(100)}})
	r.options.Open = func() (*file.File, string, error) { return nil, "", errors.New("no disk") }
	for i := range uint64(200) {
		r.Write([]capture.Packet{{Facts: &capture.Facts{ID: i, Time: int64(i)}, Data: make([]byte, testPackets)}})
	}
	testnet.WaitFor(t, "the error", func() bool { return r.Flush() != nil })
	own, err := r.End(capture.Accounts{{Seen: 200, Captured: 200, Bytes: 200 * testPackets}})
	want := capture.Account{Seen: 200, Lost: 101, NotTaken: 101, NotSampled: 99, NotRecorded: 99}
	if err == nil || err.Error() != "no disk" || own[0] != want {
		t.Errorf("%+v, %v", own, err)
	}
}

// Write allocates no memory, with and without a recording. Serial, because it counts allocations.
func TestRecorderNoAllocations(t *testing.T) {
	r := newRecorderTest(t, Options{Size: MinSize, Post: time.Hour, Triggers: []Trigger{firesAt(1 << 40)}})
	p := []capture.Packet{{Facts: &capture.Facts{}, Data: make([]byte, testPackets)}}
	for _, recording := range []bool{false, true} {
		if n := testing.AllocsPerRun(20_000, func() { r.Write(p) }); n > 0 {
			t.Errorf("%v allocations for a packet, recording: %v", n, recording)
		}
		p[0].Time = time.Now().UnixNano()
		r.Trigger("SIGUSR2")
	}
	r.End(capture.Accounts{{}})
}

func BenchmarkRecorder(b *testing.B) {
	for _, size := range []int{MinSize, 256 << 20} {
		b.Run(fmt.Sprint(size>>20), func(b *testing.B) {
			r, err := New(Options{Size: size})
			if err != nil {
				b.Fatal(err)
			}
			if err := r.Begin(capture.Description{Sources: make([]capture.Source, 1)}); err != nil {
				b.Fatal(err)
			}
			defer r.End(make(capture.Accounts, 1))
			p := []capture.Packet{{Facts: &capture.Facts{}, Data: make([]byte, 64)}}
			b.ReportAllocs()
			for b.Loop() {
				r.Write(p)
			}
		})
	}
}

// With Ahead a recording begins at most that long before its trigger, for every kind of trigger. If
// the memory is too small for it, there is one notice.
func TestRecorderAhead(t *testing.T) {
	t.Parallel()
	r := newRecorderTest(t, Options{Size: MinSize, Ahead: 100 * time.Microsecond, Triggers: []Trigger{firesAt(3000)}})
	var notices []error
	r.notice = func(err error) { notices = append(notices, err) }
	if s := r.State(); s != (State{Ahead: 100 * time.Microsecond}) {
		t.Errorf("before the first packet: %+v", s)
	}
	r.write(1000)
	if s := r.State(); s.Held != 100*time.Microsecond || s.Bytes == 0 || s.Writes {
		t.Errorf("with 101 packets in memory: %+v", s)
	}
	r.write(2001)
	r.flush(2) // ends the recording and passes it to write
	r.waitFor(1)
	r.checkFile(1, 2900, 3001, "at [3000]")
	r.write(200)
	r.requested.Store(&Recording{Trigger: "a signal", Time: time.Unix(0, 3250*1000)}) // as Trigger does with the current time
	r.flush(2)
	r.waitFor(2)
	r.checkFile(2, 3150, 3201, "a signal")
	r.end(101 + 51)
	if notices != nil {
		t.Error(notices)
	}

	r = newRecorderTest(t, Options{Size: MinSize, Ahead: time.Hour})
	r.notice = func(err error) { notices = append(notices, err) }
	r.write(20_000)
	r.end(0)
	if len(notices) != 1 || !strings.Contains(notices[0].Error(), "1 MiB hold the packets of 5ms alone, and not of 1h0m0s") {
		t.Error(notices)
	}
}

// The statistics in a recording count its packets, also if their interface has gone.
func TestRecorderGone(t *testing.T) {
	t.Parallel()
	r := newRecorderTest(t, Options{Size: MinSize, Post: time.Hour})
	*r.list = *capture.NewSourceList(&capture.Description{Sources: []capture.Source{{Name: "eth0"}, {Name: "gone0"}}})
	r.updateSources()
	final := capture.Accounts{{Seen: 1, Captured: 1}, {Seen: 7, FilteredOut: 7}}
	r.description.Accounts = func() (capture.Accounts, error) { return final, nil }
	if !r.Forget(1) {
		t.Error("none of its packets is in memory, and it is not forgotten")
	}
	r.Trigger("test")
	r.write(1)
	testnet.WaitFor(t, "the packet in the file", func() bool {
		info, err := os.Stat(r.path(1))
		return err == nil && info.Size() > 0
	})
	if _, err := r.End(final); err != nil {
		t.Fatal(err)
	}
	_, reader := r.read(1)
	ifi, err := reader.Interface(1)
	if err != nil || ifi.Statistics.PacketsReceived != 0 {
		t.Errorf("statistics %+v, %v: none of its packets is in the recording", ifi.Statistics, err)
	}
}

// A ring of recordings never ends the recorder: if too little is free at a trigger, the oldest
// files are removed, and if that is not enough, the packets are not taken. Without Keep the
// recorder ends with an error, and keeps its files.
func TestRecorderDiskLow(t *testing.T) {
	t.Parallel()
	for _, keep := range []int{5, 0} {
		t.Run(fmt.Sprint("keep ", keep), func(t *testing.T) {
			t.Parallel()
			const each, room = 1000, 600 << 10 // packets of a recording, and upper bound for the bytes of recordings
			r := newRecorderTest(t, Options{Size: MinSize})
			r.dir = testnet.MustDisk(t, "tmpfs")
			free, err := outfile.FreeAt(r.dir)
			if err != nil {
				t.Fatal(err)
			}
			r.rotation = file.Rotation{Keep: keep, MinFree: free - room}
			var notices []string
			r.notice = func(err error) { notices = append(notices, err.Error()) }
			recordings, failed := 0, error(nil)
			record := func() {
				t.Helper()
				r.write(each)
				r.Trigger("test")
				recordings++
				testnet.WaitFor(t, "the recording", func() bool {
					r.mu.Lock()
					defer r.mu.Unlock()
					failed = r.Flush()
					return failed != nil || len(r.done) == recordings && r.writerIdle.Load()
				})
			}
			for recordings < 6 && failed == nil {
				record()
			}
			if keep == 0 {
				if !errors.Is(failed, file.ErrDiskLow) || recordings < 3 {
					t.Errorf("after %d recordings: %v", recordings, failed)
				}
				r.End(capture.Accounts{{}})
				r.checkFile(1, 0, each, "test")
				return
			}
			files, _ := filepath.Glob(r.dir + "/*")
			if len(files) < 3 || len(files) > 4 || notices != nil {
				t.Errorf("files %q, notices %q", files, notices)
			}
			filler := filepath.Join(r.dir, "filler")
			if err := os.WriteFile(filler, make([]byte, room), 0o600); err != nil {
				t.Fatal(err)
			}
			record()
			if len(notices) != 1 || !strings.Contains(notices[0], "takes no packets until there is room: the disk of ") {
				t.Errorf("notices %q", notices)
			}
			if err := os.Remove(filler); err != nil {
				t.Fatal(err)
			}
			record()
			all := recordings * each
			own, err := r.End(capture.Accounts{{Seen: uint64(all), Captured: uint64(all)}})
			if err != nil || failed != nil || own[0].NotTaken != each || own[0].Captured != uint64(all-each) {
				t.Errorf("account %+v, %v, %v", own, err, failed)
			}
			r.checkFile(recordings, uint64(all-each), uint64(all), "test")
		})
	}
}
