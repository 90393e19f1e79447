package capture_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/capture/file"
)

// BenchmarkReadRings measures the time of the process for a packet, also that of the goroutine that
// writes, from rings of 8 MiB that are full to /dev/null.
func BenchmarkReadRings(b *testing.B) {
	for _, rings := range []int{1, 2} {
		for _, size := range []int{60, 1500} {
			b.Run(fmt.Sprintf("%d/%dB", rings, size), func(b *testing.B) { benchReadRings(b, rings, size) })
		}
	}
}

func benchReadRings(b *testing.B, rings, size int) {
	f := capture.FillRings(rings, 8<<20, size)
	out, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	must(b, err)
	defer out.Close()
	w := file.NewWriter(out, file.Options{})
	d := capture.Description{Sources: make([]capture.Source, 2), Options: capture.Options{SnapLen: capture.MaxSnapLen}}
	must(b, w.Begin(d))
	var spent, took, least time.Duration
	n := 0
	for n < b.N {
		f.Refill()
		before, began := cpuTime(), time.Now()
		got := f.Drain(b, w)
		w.Flush()
		for added, written, _ := w.Backlog(); written < added; _, written, _ = w.Backlog() {
			time.Sleep(10 * time.Microsecond)
		}
		took += time.Since(began)
		lap := cpuTime() - before
		spent += lap
		if per := lap / time.Duration(got); least == 0 || per < least {
			least = per
		}
		n += got
		if got != f.Packets {
			b.Fatalf("%d packets of %d", got, f.Packets)
		}
	}
	b.ReportMetric(float64(spent.Nanoseconds())/float64(n), "cpu-ns/packet")
	b.ReportMetric(float64(least.Nanoseconds()), "least-ns/packet")
	b.ReportMetric(float64(n)/took.Seconds()/1e6, "Mpps")
}

// cpuTime is what the process has used.
func cpuTime() time.Duration {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
