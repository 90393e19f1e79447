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

// An attachment is where a counter's programs run. There are three kinds: one program of ours at
// the interface; tracers of the interface's program; programs that the caller attaches (see
// embed.go).
type attachment struct {
	ifi     xdp.Interface      // as it was before we attached
	at      *attach.Attachment // nil: the caller attaches the programs
	traced  *followed          // nil: we trace no program
	program xdp.Program        // the program that the caller traces, if it attaches the programs
	hook    string             // where a program of ours runs, for String: "XDP native", "sent, tcx"
	began   time.Time

	// seen returns how many packets our own program has counted; nil = unknown. If the interface
	// counts packets meanwhile and seen does not rise, the driver has lost the program.
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
	// Counting begins after the program was attached: some drivers restart their queues for it, and
	// receive no packets meanwhile.
	return &attachment{ifi: ifi, at: at, began: time.Now(), hook: fmt.Sprintf("XDP %v", at.Mode)}, nil
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
	return &attachment{ifi: ifi, at: at, began: time.Now(), hook: packets + ", " + at.How}, nil
}

// Interface returns the interface as it was at Open.
func (a *attachment) Interface() xdp.Interface { return a.ifi }

// Began returns when counting began, by the clocks of time.Now.
func (a *attachment) Began() time.Time { return a.began }

// Program returns the program that is counted now: the traced one, or our own at the XDP hook.
func (a *attachment) Program() xdp.Program {
	switch {
	case a.traced != nil:
		return a.traced.Program()
	case a.at != nil:
		return a.at.Own
	}
	return a.program
}

// isOwn reports whether a program of ours counts that traces no other program.
func (a *attachment) isOwn() bool {
	return a.traced == nil && (a.at != nil || a.program == xdp.Program{})
}

// Follow checks whether our programs still count the packets of the interface. Its contract is that
// of followed.Follow: if another program has replaced the traced one, the new one is counted from
// now on. A program of ours that the driver has lost is attached again; an error of that is final.
func (a *attachment) Follow() (notice string, err error) {
	switch {
	case a.traced != nil:
		return a.traced.Follow()
	case a.at == nil:
		return "", nil
	}
	err = a.at.Check()
	switch {
	case errors.Is(err, xdp.ErrGone):
		return "", goneError(a.ifi)
	case err != nil && a.at.How == "":
		return "", fmt.Errorf("somebody has detached %v from %s: start again", a.at.Own, a.ifi.Name)
	case err != nil:
		return "", fmt.Errorf("%w: start again", err)
	case a.isLost():
		notice = attach.Lost(a.ifi.Name, a.sight.Missed)
		if err := a.at.Again(); err != nil {
			return "", fmt.Errorf("%s: attach it again: %w", notice, err)
		}
		return notice + ": it is attached again", nil
	}
	return "", nil
}

// isLost reports whether a card's driver has lost our program.
func (a *attachment) isLost() bool {
	if a.seen == nil || a.at.Mode != packet.Native || !a.ifi.IsHardware() {
		return false
	}
	seen, err := a.seen()
	if err != nil {
		return false
	}
	counts, err := a.at.Counts()
	return err == nil && a.sight.Note(counts, seen)
}

// Capabilities returns the capabilities, by number (capabilities(7)), that Follow and Close need
// after Open: those to trace another program, found by its id, or CAP_NET_ADMIN if detaching needs
// it.
func (a *attachment) Capabilities() []int {
	switch {
	case !a.isOwn():
		return []int{unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_ADMIN}
	case a.at != nil && a.at.NeedsNetAdmin:
		return []int{unix.CAP_NET_ADMIN}
	}
	return nil
}

// String describes where and how it counts: "eth0, XDP native", "eth0, sent, tcx", or "eth0,
// tracing lb (id 7)".
func (a *attachment) String() string {
	switch {
	case a.traced != nil:
		return fmt.Sprintf("%s, tracing %v", a.ifi.Name, a.Program())
	case a.at != nil:
		return a.ifi.Name + ", " + a.hook
	}
	return a.ifi.Name
}

func (a *attachment) close() error {
	if a == nil {
		return nil
	}
	errs := []error{a.at.Close()}
	if a.traced != nil {
		a.traced.watch.Close()
	}
	for _, m := range a.constants {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
