// Package tc runs our programs for the packets that an interface receives or sends: at its ingress
// or egress, by tcx (Linux 6.6 and later) or by a filter of the clsact qdisc. It does not change
// the verdict of other programs: our program returns -1, which is TCX_NEXT for tcx and
// TC_ACT_UNSPEC for clsact, so that the next program decides.
//
// All functions work in the network namespace of the calling thread. Methods keep using that
// namespace on any thread.
package tc

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A Kind is a way to attach a program.
type Kind int

const (
	TCX    Kind = iota // a bpf_link, before all other programs; it ends with the process
	Clsact             // a filter of the qdisc clsact; a killed process leaves one that does nothing
)

var kindNames = [...]string{TCX: "tcx", Clsact: "clsact"}

func (k Kind) String() string { return kindNames[k] }

// NeedsNetAdmin reports whether the process that detaches needs CAP_NET_ADMIN.
func (k Kind) NeedsNetAdmin() bool { return k == Clsact }

// A Direction is the side of an interface where a program is attached.
type Direction int

const (
	Egress  Direction = iota // packets from the stack
	Ingress                  // received packets, after XDP
)

// directions has the constants of each Direction for tcx and clsact.
var directions = [...]struct {
	name   string
	tcx    ebpf.AttachType
	parent uint32 // of filters
}{
	Egress:  {"egress", ebpf.AttachTCXEgress, netlink.HANDLE_MIN_EGRESS},
	Ingress: {"ingress", ebpf.AttachTCXIngress, netlink.HANDLE_MIN_INGRESS},
}

func (d Direction) String() string { return directions[d].name }

// ErrNoKind is the kind of error if this kernel has neither tcx nor clsact.
var ErrNoKind = errors.New("no program can be attached at ingress or egress of an interface")

// An Attachment is a program at the ingress or egress of an interface. Check may be called
// concurrently. Close is called once, after all other calls.
type Attachment struct {
	kind  Kind
	name  string // of the interface
	at    Direction
	place place
}

// A place is the position of an attached program; there is an implementation for each kind.
type place interface {
	// check returns nil, or why the program no longer runs there.
	check() error
	// behind returns the number of filters of others before the program when it was attached.
	behind() int
	// replace lets another program run in its place.
	replace(*ebpf.Program) error
	// detach ends it. It does nothing if another process has already done so.
	detach() error
}

// Attach runs prog, of the type SchedCLS, for every packet that the interface receives or sends,
// until the Attachment is closed. It uses tcx if the kernel has it, and clsact otherwise. The
// program gets a packet before all others, except filters of clsact that have the first priority
// and are not BPF programs for all protocols: see String. After an error the program is not
// attached. The error is an ErrNoKind if the kernel has neither tcx nor clsact. It needs
// CAP_NET_ADMIN.
//
// If a process with a clsact filter is killed, the filter no longer calls the program. The next
// process that attaches one to the same interface, in the same network namespace, removes it.
func Attach(prog *ebpf.Program, ifi xdp.Interface, at Direction) (*Attachment, error) {
	a, err := attachAs(TCX, prog, ifi, at)
	if errors.Is(err, ebpf.ErrNotSupported) {
		a, err = attachAs(Clsact, prog, ifi, at)
	}
	return a, err
}

func attachAs(kind Kind, prog *ebpf.Program, ifi xdp.Interface, at Direction) (*Attachment, error) {
	a := &Attachment{kind: kind, name: ifi.Name, at: at}
	var err error
	if kind == TCX {
		a.place, err = attachTCX(prog, ifi.Index, at)
	} else {
		a.place, err = attachClsact(prog, ifi.Index, at)
	}
	if err != nil {
		return nil, fmt.Errorf("attach a program at the %v of %s by %v: %w", at, ifi.Name, kind, err)
	}
	return a, nil
}

// Kind is the way in which the program is attached.
func (a *Attachment) Kind() Kind { return a.kind }

// String returns the kind, and the number of filters of others before the program when it was
// attached. The program does not get packets that those filters drop.
func (a *Attachment) String() string {
	switch n := a.place.behind(); n {
	case 0:
		return a.kind.String()
	case 1:
		return a.kind.String() + ", after a filter of somebody else"
	default:
		return fmt.Sprintf("%v, after %d filters of others", a.kind, n)
	}
}

// Check returns nil, or why the program no longer runs where it was attached. It needs no
// privilege.
func (a *Attachment) Check() error {
	if err := a.place.check(); err != nil {
		return fmt.Errorf("at the %v of %s: %w", a.at, a.name, err)
	}
	return nil
}

// Replace exchanges the attached program for another one: each packet is passed to one of them.
// After an error the former one still runs.
func (a *Attachment) Replace(prog *ebpf.Program) error {
	if err := a.place.replace(prog); err != nil {
		return fmt.Errorf("replace the program at the %v of %s: %w", a.at, a.name, err)
	}
	return nil
}

// Close detaches the program. With clsact it needs CAP_NET_ADMIN: see [Kind.NeedsNetAdmin].
func (a *Attachment) Close() error {
	if err := a.place.detach(); err != nil {
		return fmt.Errorf("detach the program from the %v of %s: %w", a.at, a.name, err)
	}
	return nil
}

// explainRefusal adds the cause to an error of the kernel whose text is not clear.
func explainRefusal(tried string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s: %w: missing privileges: CAP_NET_ADMIN; run it as root (sudo)", tried, unix.EPERM)
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EOPNOTSUPP):
		return message.Errorf(ErrNoKind, "%s: %w: this kernel has neither tcx, which came with Linux 6.6, nor the modules for clsact: "+
			"modprobe -a sch_ingress cls_bpf", tried, err)
	}
	return fmt.Errorf("%s: %w", tried, err)
}
