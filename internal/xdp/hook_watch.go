package xdp

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/message"
)

// A HookWatch reports which XDP program an interface runs. It identifies the interface by its index
// in the network namespace of the thread that called WatchHook, so that any thread may call it, and
// the interface may be renamed. It needs no privilege, and costs the driver as much as an `ip
// link`. Look may be called concurrently. Close is called once, after all other calls.
type HookWatch struct {
	index  int
	socket *nl.NetlinkSocket
}

// A HookState is the result of HookWatch.Look.
type HookState struct {
	Name    string      // of the interface
	Program uint32      // the id of the attached program; 0 = none
	Mode    packet.Mode // the mode that the program runs in
}

// Of returns a copy of the interface in this state, with the program's name.
func (s HookState) Of(ifi Interface) Interface {
	ifi.Name, ifi.Mode, ifi.Programs = s.Name, s.Mode, nil
	if s.Program != 0 {
		ifi.Programs = []Program{{ID: s.Program, Name: ProgramName(s.Program)}}
	}
	return ifi
}

// HasGone reports whether an interface has left the namespace, which the kernel's error for an
// attempt to attach does not show.
func HasGone(index int) bool {
	w, err := WatchHook(index)
	if err != nil {
		return false
	}
	defer w.Close()
	return errors.Is(w.CheckExists(), ErrGone)
}

// WatchHook watches the interface with an index. The kernel does not notify of programs that are
// attached, replaced or detached, so the caller must call Look repeatedly.
func WatchHook(index int) (*HookWatch, error) {
	s, err := openRouteSocket()
	if err != nil {
		return nil, err
	}
	return &HookWatch{index: index, socket: s}, nil
}

// Look returns the state of the hook now. The error is an ErrGone once the interface was deleted or
// moved to another network namespace.
func (w *HookWatch) Look() (HookState, error) {
	l, err := linkByIndex(w.socket, w.index)
	if errors.Is(err, unix.ENODEV) {
		return HookState{}, message.Errorf(ErrGone, "interface number %d was deleted or moved to another network namespace", w.index)
	}
	if err != nil {
		return HookState{}, fmt.Errorf("look up interface number %d: %w", w.index, err)
	}
	a := l.Attrs()
	s := HookState{Name: a.Name}
	if a.Xdp != nil && a.Xdp.Attached {
		s.Program, s.Mode = a.Xdp.ProgId, attachedModes[a.Xdp.AttachMode]
	}
	return s, nil
}

// Counts returns the interface's counters.
func (w *HookWatch) Counts() (Counts, error) { return countsOf(w.socket, w.index) }

// CheckRuns returns nil as long as a program runs for packets of the interface: attached to it, or
// as a component of a libxdp dispatcher. `at` is the program that was attached when p was found: p
// itself, or its dispatcher. The error is an ErrGone if the interface has left the namespace, or an
// ErrHidden if this process may not see whether the program runs. Any other error means that the
// program has left the interface, and names the program that runs there now.
func (w *HookWatch) CheckRuns(at, p Program) error {
	for {
		now, err := w.Look()
		if err != nil || now.Program == p.ID {
			return onlyGone(err)
		}
		behind, err := isBehind(now.Program, p)
		// Only CAP_SYS_ADMIN may look inside a dispatcher. Without it the program is assumed to run
		// as long as the dispatcher is the same.
		hidden := err != nil
		if behind || hidden && now.Program == at.ID {
			return nil
		}
		// libxdp adds the program to a new dispatcher, exchanges the dispatchers, and then removes
		// the program from the old one. If the dispatcher has changed since Look, isBehind may have
		// missed the program: then all is repeated.
		again, err := w.Look()
		if err != nil {
			return onlyGone(err)
		}
		switch {
		case now.Program != again.Program:
		case hidden && at.ID != p.ID:
			return message.Errorf(ErrHidden, "%s runs %s now; only CAP_SYS_ADMIN may see whether that still calls XDP program %s",
				now.Name, nameOrNone(now.Program), p)
		default:
			return fmt.Errorf("XDP program %s has left %s, which runs %s now", p, now.Name, nameOrNone(now.Program))
		}
	}
}

// CheckExists returns an ErrGone if the interface has left the namespace, otherwise nil.
func (w *HookWatch) CheckExists() error {
	_, err := w.Look()
	return onlyGone(err)
}

// onlyGone drops every other error, because a failed query does not mean that the hook is gone.
func onlyGone(err error) error {
	if errors.Is(err, ErrGone) {
		return err
	}
	return nil
}

// isBehind reports whether p is a component of the attached program; id 0 means no program.
func isBehind(attached uint32, p Program) (bool, error) {
	if attached == 0 {
		return false, nil
	}
	found, err := components(Program{ID: attached})
	return slices.ContainsFunc(found, func(c component) bool { return c.ID == p.ID }), err
}

func nameOrNone(id uint32) string {
	if id == 0 {
		return "none"
	}
	return "program " + Program{ID: id, Name: ProgramName(id)}.String()
}

// Close releases the socket.
func (w *HookWatch) Close() { w.socket.Close() }
