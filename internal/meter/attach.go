package meter

import (
	"errors"
	"fmt"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An attachment is our programs at an interface: one of ours that counts there, some that trace the
// program there, or some that the caller attaches.
type attachment struct {
	ifi     xdp.Interface      // as it was before we attached
	at      *attach.Attachment // nil: the caller attaches the programs
	traced  *followed          // nil: we trace no program
	program xdp.Program        // the program that the caller traces, if it attaches the programs
	way     string             // how a program of ours is attached, for String
	began   time.Time

	// seen returns how many packets our own program has seen; nil = that is not known, so it is
	// never found lost.
	seen  func() (uint64, error)
	sight attach.Sight

	constants []*ebpf.Map // of programs that the caller attaches
}

// attachXDP runs prog at the XDP hook of the interface. It closes prog: the kernel keeps it.
func attachXDP(ifi xdp.Interface, prog *ebpf.Program, mode packet.Mode) (*attachment, error) {
	defer prog.Close()
	at, err := attach.XDP(ifi, prog, mode)
	if err != nil {
		return nil, err
	}
	// Some drivers stop and start their queues to take a program, and let no packet in before that
	// ends.
	return &attachment{ifi: ifi, at: at, began: time.Now(), way: fmt.Sprintf("XDP %v", at.Mode)}, nil
}

// attachTC runs prog for the packets that the interface receives or sends. It closes prog: the
// kernel keeps it.
func attachTC(ifi xdp.Interface, prog *ebpf.Program, side tc.Direction) (*attachment, error) {
	defer prog.Close()
	at, err := attach.TC(ifi, prog, side)
	if err != nil {
		return nil, err
	}
	packets := "sent"
	if side == tc.Ingress {
		packets = "received"
	}
	return &attachment{ifi: ifi, at: at, began: time.Now(), way: packets + ", " + at.How}, nil
}

// Interface returns the interface as it was at Open.
func (h *attachment) Interface() xdp.Interface { return h.ifi }

// Began returns when counting began, by the clocks of time.Now.
func (h *attachment) Began() time.Time { return h.began }

// Program returns the program that is counted now: the traced one, or our own at the XDP hook.
func (h *attachment) Program() xdp.Program {
	switch {
	case h.traced != nil:
		return h.traced.Program()
	case h.at != nil:
		return h.at.Own
	}
	return h.program
}

// isOwn reports whether the program that counts is, or is within, one of ours that traces no other.
func (h *attachment) isOwn() bool {
	return h.traced == nil && (h.at != nil || h.program == xdp.Program{})
}

// Follow looks whether our programs still count the packets of the interface. If another program
// has replaced the traced one, Follow counts that one from now on: see followed.Follow, of which
// this has the contract. If a program of ours counts, it attaches that again when the driver has
// lost it, and the error is final.
func (h *attachment) Follow() (notice string, err error) {
	switch {
	case h.traced != nil:
		return h.traced.Follow()
	case h.at == nil:
		return "", nil
	}
	err = h.at.Check()
	switch {
	case errors.Is(err, xdp.ErrGone):
		return "", gone(h.ifi)
	case err != nil && h.at.How == "":
		return "", fmt.Errorf("somebody has detached %v from %s: start again", h.at.Own, h.ifi.Name)
	case err != nil:
		return "", fmt.Errorf("%w: start again", err)
	case h.isLost():
		notice = attach.Lost(h.ifi.Name, h.sight.Missed)
		if err := h.at.Again(); err != nil {
			return "", fmt.Errorf("%s: attach it again: %w", notice, err)
		}
		return notice + ": it is attached again", nil
	}
	return "", nil
}

// isLost reports whether a card's driver has lost our program.
func (h *attachment) isLost() bool {
	if h.seen == nil || h.at.Mode != packet.Native || !h.ifi.IsHardware() {
		return false
	}
	seen, err := h.seen()
	if err != nil {
		return false
	}
	counts, err := h.at.Counts()
	return err == nil && h.sight.Note(counts, seen)
}

// Capabilities returns the capabilities, by number (capabilities(7)), that Follow and Close need
// after Open: to find another program by its id and to trace it, and CAP_NET_ADMIN where detaching
// needs it.
func (h *attachment) Capabilities() []int {
	switch {
	case !h.isOwn():
		return []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN}
	case h.at != nil && h.at.NeedsNetAdmin:
		return []int{unix.CAP_NET_ADMIN}
	}
	return nil
}

// String describes where and how it counts: "eth0, XDP native", "eth0, sent, tcx", or "eth0,
// tracing lb (id 7)".
func (h *attachment) String() string {
	switch {
	case h.traced != nil:
		return fmt.Sprintf("%s, tracing %v", h.ifi.Name, h.Program())
	case h.at != nil:
		return h.ifi.Name + ", " + h.way
	}
	return h.ifi.Name
}

func (h *attachment) close() error {
	if h == nil {
		return nil
	}
	errs := []error{h.at.Close()}
	if h.traced != nil {
		h.traced.watch.Close()
	}
	for _, m := range h.constants {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
