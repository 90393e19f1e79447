package drops

import (
	"errors"
	"fmt"
	"sync"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/filter"
	"github.com/xdpcap/xdpcap/internal/meter"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A hook counts the packets that an interface's XDP program drops: at the program's exit if the
// kernel can trace it, or else by the counters of the driver and the stack.
type hook struct {
	iface xdp.Interface // as it was when counting began
	watch *xdp.HookWatch

	mu      sync.Mutex     // guards the fields below, except filter
	traced  *meter.Actions // of the program; nil: no program yet, or it cannot be traced
	program string         // the program that runs, or ran last; "" = none yet
	mode    packet.Mode    // of that program
	tried   uint32         // id of the program that update last tried to trace; 0 = none
	refused error          // why that could not be traced; nil = it could

	// When tracing began: packets that had been dropped and, with a filter, that had come to the
	// stack.
	droppedBefore, passedBefore Tally

	filter *filter.Program // nil = all packets
}

// A hookReading has the packets of an interface's XDP program, cumulative.
type hookReading struct {
	program string // the program that runs or ran last; "" = none
	mode    packet.Mode
	dropped Tally
	traced  *meter.VerdictTallies // since it is traced; nil = it is not traced
	before  Tally                 // with a filter: packets that came before it was traced
	refused error                 // why it is not traced; nil = it is traced, or there is no program
}

// openHook begins to count at an interface in the calling thread's network namespace.
func openHook(iface xdp.Interface, filter *filter.Program) (*hook, error) {
	watch, err := xdp.WatchHook(iface.Index)
	if err != nil {
		return nil, err
	}
	return &hook{iface: iface, watch: watch, filter: filter}, nil
}

// update follows the traced program, or traces the interface's program if it is not traced yet.
// untraced returns the packets that were dropped so far, as other counters have them, and those
// that came to the stack. It is not an error if the program cannot be traced.
func (h *hook) update(untraced func() (dropped, passed Tally, err error)) (notice string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.traced != nil {
		notice, err = h.traced.Follow()
		if errors.Is(err, meter.ErrNotCounting) {
			return err.Error(), nil
		}
		if now, failed := h.watch.Look(); notice != "" && failed == nil {
			h.setProgram(now)
		}
		return notice, err
	}
	now, err := h.watch.Look()
	if err != nil {
		return "", fmt.Errorf("%s: %w", h.iface.Name, err)
	}
	if now.Program == 0 || now.Program == h.tried {
		return "", nil
	}
	h.setProgram(now)
	h.tried = now.Program
	dropped, passed, err := untraced()
	if err != nil {
		return "", err
	}
	a, err := meter.OpenActions(meter.ActionsOptions{Interface: now.Name, Verdict: xdp.Pass, TraceOnly: true, Filter: h.filter})
	if h.refused = err; err == nil {
		h.traced, h.droppedBefore, h.passedBefore = a, dropped, passed
	}
	return "", nil
}

// setProgram notes the program that runs now. If there is none, it keeps the last one.
func (h *hook) setProgram(now xdp.HookState) {
	iface := now.Of(h.iface)
	if program := iface.Runs(); program != "" {
		h.program, h.mode = program, iface.Mode
	}
}

// read returns the counts. dropped has the drops as other counters have them, which is the result
// for a program that is not traced.
func (h *hook) read(dropped Tally) (hookReading, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := hookReading{program: h.program, mode: h.mode, dropped: dropped, refused: h.refused}
	if h.traced == nil {
		return r, nil
	}
	counts, err := h.traced.Read()
	if err != nil {
		return r, err
	}
	total := counts.Total()
	r.traced, r.dropped, r.before = &total, h.droppedBefore, h.passedBefore
	r.dropped.Add(total[xdp.Drop])
	r.before.Add(h.droppedBefore)
	return r, nil
}

func (h *hook) close() error {
	h.watch.Close()
	if h.traced == nil {
		return nil
	}
	return h.traced.Close()
}
