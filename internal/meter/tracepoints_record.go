package meter

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"

	"github.com/xdpcap/xdpcap/internal/machine"
	"github.com/xdpcap/xdpcap/internal/support"
)

// A Record is a single event of a tracepoint, with details that the counters do not have.
type Record struct {
	Time     time.Time // of the event, CLOCK_REALTIME, exact to about a microsecond
	CPU      int
	Case     Case
	Count    EventCount // the event's part of the counters
	Program  uint32     // id; 0 = the tracepoint does not name it
	Index    uint32     // the target of a redirect: an interface, or an entry of Case.MapID
	Verdict  uint32     // Exception: the program's return value
	MemoryID uint32     // MemConnect, MemDisconnect, MemReturnFailed
}

// recordReader reads the ring of single events.
type recordReader struct {
	*ringbuf.Reader
	buffer ringbuf.Record // reused by each Next
	clock  machine.WallClock
}

func newRecordReader(ring *ebpf.Map) (*recordReader, error) {
	r, err := ringbuf.NewReader(ring)
	if err != nil {
		return nil, support.ExplainLoad("open the ring of the xdp tracepoints", err)
	}
	wall, err := machine.NewWallClock()
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return &recordReader{Reader: r, clock: wall}, nil
}

// Next waits for the next event and returns it. The events of one CPU come in order. Only one
// goroutine may call it at a time. After Stop it returns the events that came before, and then
// [os.ErrClosed]. If TracepointOptions.Record is false, it returns that at once.
func (t *Tracepoints) Next() (Record, error) {
	r := t.reader
	if r == nil {
		return Record{}, os.ErrClosed
	}
	if err := r.ReadInto(&r.buffer); err != nil {
		if errors.Is(err, ringbuf.ErrFlushed) || errors.Is(err, ringbuf.ErrClosed) {
			return Record{}, os.ErrClosed
		}
		return Record{}, fmt.Errorf("read the ring of the xdp tracepoints: %w", err)
	}
	sample := r.buffer.RawSample
	if len(sample) < int(unsafe.Sizeof(tracepointsRecord{})) {
		return Record{}, fmt.Errorf("read the ring of the xdp tracepoints: record of %d bytes", len(sample))
	}
	raw := (*tracepointsRecord)(unsafe.Pointer(&sample[0]))
	at, err := r.clock.TimeOf(raw.TimeNs)
	if err != nil {
		return Record{}, err
	}
	rec := Record{
		Time:     at,
		CPU:      int(raw.Cpu),
		Case:     caseOf(&raw.Key),
		Count:    countOf(&raw.Count),
		Program:  raw.Program,
		MemoryID: raw.Memory,
	}
	rec.Case.Message = Text(raw.Message[:]) // not in the key, because it is long
	if rec.Case.Event == Exception {
		rec.Verdict = raw.Index
	} else {
		rec.Index = raw.Index
	}
	return rec, nil
}

// Stop detaches from the tracepoints. Next returns the events that came before, and then an error.
// Any goroutine may call Stop, more than once.
func (t *Tracepoints) Stop() error {
	var errs []error
	t.stop.Do(func() {
		for _, l := range t.links {
			errs = append(errs, l.Close())
		}
		if t.reader != nil {
			errs = append(errs, t.reader.Flush())
		}
	})
	return errors.Join(errs...)
}
