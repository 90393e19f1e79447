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

// A hook counts the packets that an interface's XDP program drops. Where the kernel can trace the
// program, its exit tells; else the driver's counters and the stack do.
type hook struct {
	iface xdp.Interface // as it was when counting began
	watch *xdp.HookWatch

	mu      sync.Mutex
	program *meter.Actions // nil: no program yet, or it cannot be traced
	before  Tally          // what was dropped before it was traced
	passed  Tally          // with a filter: what had come to the stack by then
	runs    string         // the program that runs, or ran last
	mode    packet.Mode    // of that program
	tried   uint32         // id of the program that could not be traced
	refused error          // why not

	filter *filter.Program // nil = all packets
}

// A hookReading is what an interface's XDP program did to packets.
type hookReading struct {
	runs    string // the program that runs or ran last; "" = none
	mode    packet.Mode
	dropped Tally
	traced  *meter.VerdictTallies // of the traced program; nil = it is not traced
	before  Tally                 // with a filter: what came before it was traced
	refused error                 // why it is not traced; nil = it is, or there is none
}

// openHook begins to count at an interface in the calling thread's network namespace.
func openHook(iface xdp.Interface, filter *filter.Program) (*hook, error) {
	watch, err := xdp.WatchHook(iface.Index)
	if err != nil {
		return nil, err
	}
	return &hook{iface: iface, watch: watch, filter: filter}, nil
}

// look traces the interface's program if there is one that is not traced yet. untraced tells what
// was dropped so far without that, and what came to the stack. It is not an error if the program
// cannot be traced.
func (h *hook) look(untraced func() (dropped, passed Tally, err error)) (notice string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.program != nil {
		notice, err = h.program.Follow()
		if errors.Is(err, meter.ErrNotCounting) {
			return err.Error(), nil
		}
		if now, failed := h.watch.Look(); notice != "" && failed == nil {
			h.note(now)
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
	h.note(now)
	h.tried = now.Program
	before, passed, err := untraced()
	if err != nil {
		return "", err
	}
	a, err := meter.OpenActions(meter.ActionsOptions{Interface: now.Name, Verdict: xdp.Pass, TraceOnly: true, Filter: h.filter})
	if h.refused = err; err == nil {
		h.program, h.before, h.passed = a, before, passed
	}
	return "", nil
}

// note names the program that runs now. While there is none, it leaves the last one.
func (h *hook) note(now xdp.HookState) {
	at := now.Of(h.iface)
	if runs := at.Runs(); runs != "" {
		h.runs, h.mode = runs, at.Mode
	}
}

// read returns what the program did. untraced is what other counters say was dropped.
func (h *hook) read(untraced Tally) (hookReading, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := hookReading{runs: h.runs, mode: h.mode, dropped: untraced, refused: h.refused}
	if h.program == nil {
		return r, nil
	}
	counts, err := h.program.Read()
	if err != nil {
		return r, err
	}
	total := counts.Total()
	r.traced, r.dropped, r.before = &total, h.before, h.passed
	r.dropped.Add(total[xdp.Drop])
	r.before.Add(h.before)
	return r, nil
}

func (h *hook) close() error {
	h.watch.Close()
	if h.program == nil {
		return nil
	}
	return h.program.Close()
}
