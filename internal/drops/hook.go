package drops

import (
	"errors"
	"fmt"
	"sync"

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
	runs    string         // the program that runs, or ran last
	tried   uint32         // id of the program that could not be traced
}

// openHook begins to count at an interface in the calling thread's network namespace.
func openHook(iface xdp.Interface) (*hook, error) {
	watch, err := xdp.WatchHook(iface.Index)
	if err != nil {
		return nil, err
	}
	return &hook{iface: iface, watch: watch}, nil
}

// look traces the interface's program if there is one that is not traced yet. untraced tells what
// was dropped so far without that. It is not an error if the program cannot be traced.
func (h *hook) look(untraced func() (Tally, error)) (notice string, err error) {
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
	before, err := untraced()
	if err != nil {
		return "", err
	}
	if a, err := meter.OpenActions(meter.ActionsOptions{Interface: now.Name, Verdict: xdp.Pass, TraceOnly: true}); err == nil {
		h.program, h.before = a, before
	}
	return "", nil
}

// note names the program that runs now. While there is none, it leaves the last one.
func (h *hook) note(now xdp.HookState) {
	at := now.Of(h.iface)
	if runs := at.Runs(); runs != "" {
		h.runs = runs
	}
}

// read returns what was dropped, and the program that runs or ran last. untraced is what other
// counters say.
func (h *hook) read(untraced Tally) (dropped Tally, program string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.program == nil {
		return untraced, h.runs, nil
	}
	counts, err := h.program.Read()
	if err != nil {
		return Tally{}, "", err
	}
	total := counts.Total()
	dropped = h.before
	dropped.Add(total[xdp.Drop])
	return dropped, h.runs, nil
}

func (h *hook) close() error {
	h.watch.Close()
	if h.program == nil {
		return nil
	}
	return h.program.Close()
}
