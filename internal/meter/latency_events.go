package meter

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/perf"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

const defaultEventsBuffer = 1 << 20

// eventsDelay is how long a measurement may wait in the ring, so that several are read at once.
const eventsDelay = 50 * time.Millisecond

// eventsRing hands measurements from the perf rings to a function.
type eventsRing struct {
	reader   *perf.Reader
	event    func(Measurement)
	clock    machine.WallClock
	stop     chan struct{}
	finished chan struct{} // closed when reading has ended
	err      error         // why; nil = close was called
}

func openEventsRing(output *ebpf.Map, o BuiltinOptions) (*eventsRing, error) {
	size := o.Buffer
	if size == 0 {
		size = defaultEventsBuffer
	}
	reader, err := perf.NewReaderWithOptions(output, size, perf.ReaderOptions{Watermark: size / 2})
	if err != nil {
		return nil, support.ExplainRings(size, err)
	}
	wall, err := machine.NewWallClock()
	if err != nil {
		return nil, errors.Join(err, reader.Close())
	}
	r := &eventsRing{reader: reader, event: o.Event, clock: wall, stop: make(chan struct{}), finished: make(chan struct{})}
	go func() {
		defer close(r.finished)
		r.err = r.run()
	}()
	return r, nil
}

// run reads until close was called and the rings are empty.
func (r *eventsRing) run() error {
	var rec perf.Record
	stopped := false
	r.reader.SetDeadline(time.Now().Add(eventsDelay))
	for {
		err := r.reader.ReadInto(&rec)
		if errors.Is(err, os.ErrDeadlineExceeded) { // the rings were empty
			if stopped {
				return nil
			}
			// Measurements may have come after the rings were read and before the stop: they are
			// read once more.
			delay := eventsDelay
			select {
			case <-r.stop:
				stopped, delay = true, 0
			default:
			}
			r.reader.SetDeadline(time.Now().Add(delay))
			continue
		}
		if err != nil {
			return fmt.Errorf("read the perf rings: %w", err)
		}
		// perf reports lost records as records without data. They are skipped: the program counts
		// them.
		if len(rec.RawSample) < int(unsafe.Sizeof(latencyMeasurement{})) {
			continue
		}
		m := (*latencyMeasurement)(unsafe.Pointer(&rec.RawSample[0]))
		at, err := r.clock.TimeOf(m.TimeNs)
		if err != nil {
			return err
		}
		r.event(Measurement{
			Time:    at,
			Took:    time.Duration(m.TookNs),
			Verdict: xdp.Verdict(m.Verdict),
			CPU:     int(m.Cpu),
		})
	}
}

// check returns why reading has ended unasked; nil while it goes on.
func (r *eventsRing) check() error {
	select {
	case <-r.finished:
		return r.err
	default:
		return nil
	}
}

func (r *eventsRing) close() error {
	close(r.stop)
	<-r.finished
	return errors.Join(r.err, r.reader.Close())
}
