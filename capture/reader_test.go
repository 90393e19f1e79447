package capture

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// filledRings is a reader of shared rings that are full: a packet in each of them in turn.
type filledRings struct {
	reader
	rings   []*sharedRing
	full    [][]byte // what was in them, as the reader changes it
	head    uint64
	packets int
}

func fillRings(rings, size, packet int) *filledRings {
	f := &filledRings{reader: reader{
		merge:    merge{horizon: math.MaxUint64},
		lost:     losses{sources: 2},
		ledger:   newLedger(2, 0),
		weighted: true,
		snapLen:  MaxSnapLen,
		laps:     new(laps),
	}}
	var programs []*fakeProgram
	for range rings {
		k, c := newFakeProgram(size)
		programs = append(programs, k)
		f.merge.cursors = append(f.merge.cursors, c)
		f.rings = append(f.rings, c.ring.(*sharedRing))
	}
	data := packetOf(packet, 1)
	for {
		s := sampleOf(data, uint64(1000+10*f.packets))
		s.ID = uint64(f.packets%rings)<<samplerLimitID_CPU_SHIFT | uint64(f.packets)
		if !programs[f.packets%rings].sample(s, data) {
			break
		}
		f.packets++
	}
	f.packets -= f.packets % rings
	f.head = programs[rings-1].shared.Head
	for _, k := range programs {
		f.full = append(f.full, bytes.Clone(k.data))
	}
	return f
}

// refill puts everything into the rings again.
func (f *filledRings) refill() {
	for i, r := range f.rings {
		copy(r.data, f.full[i])
		r.shared.Tail, r.shared.Head = 0, f.head
		r.limit, r.end, r.tail, r.head = 0, 0, 0, 0
	}
	f.clock.last = 0
}

// BenchmarkReadRings measures the time of the process for a packet, also that of the goroutine that
// writes, from rings of 8 MiB that are full to /dev/null and to a file in memory.
func BenchmarkReadRings(b *testing.B) {
	for _, rings := range []int{1, 2} {
		for _, size := range []int{60, 1500} {
			for _, to := range []string{"/dev/null", "/dev/shm"} {
				b.Run(fmt.Sprintf("%d/%dB%s", rings, size, to), func(b *testing.B) { benchReadRings(b, rings, size, to) })
			}
		}
	}
}

func benchReadRings(b *testing.B, rings, size int, to string) {
	f := fillRings(rings, 8<<20, size)
	out, err := os.OpenFile(to, os.O_WRONLY, 0)
	if to == "/dev/shm" {
		out, err = os.CreateTemp(to, "xdpcap")
	}
	if err != nil {
		b.Fatal(err)
	}
	defer out.Close()
	if to == "/dev/shm" {
		defer os.Remove(out.Name())
	}
	w := testWriter(out, WriterOptions{})
	var spent, took, least time.Duration
	n := 0
	for n < b.N {
		f.refill()
		f.merge.gather()
		before, began := cpuTime(), time.Now()
		got := f.drain(b, w, true)
		w.Flush()
		for added, written, _ := w.backlog(); written < added; _, written, _ = w.backlog() {
			time.Sleep(10 * time.Microsecond)
		}
		took += time.Since(began)
		lap := cpuTime() - before
		spent += lap
		if per := lap / time.Duration(got); least == 0 || per < least {
			least = per
		}
		n += got
		if got != f.packets {
			b.Fatalf("%d packets of %d", got, f.packets)
		}
		if to == "/dev/shm" {
			out.Seek(0, io.SeekStart)
		}
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(n), "cpu-ns/packet")
	b.ReportMetric(float64(least.Nanoseconds()), "least-ns/packet")
	b.ReportMetric(float64(n)/took.Seconds()/1e6, "Mpps")
}

// drain writes all that is in the rings, and returns how many packets there were.
func (f *filledRings) drain(tb testing.TB, w *Writer, direct bool) (n int) {
	packets := make([]Packet, groupSize)
	for f.merge.isReady() {
		if direct {
			got, err := w.take(&f.reader)
			if err != nil {
				tb.Fatal(err)
			}
			n += got
		}
		got := f.take(packets)
		if err := w.Write(packets[:got]); err != nil {
			tb.Fatal(err)
		}
		n += got
	}
	return n
}

// cpuTime is what the process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
