// Package attach attaches our programs where they get the packets of an interface: at its XDP hook,
// at tc, at sockets, as tracers of another XDP program, and at functions of the kernel. It never
// replaces or changes programs of others.
//
// All functions work in the network namespace of the calling thread. Methods keep using that
// namespace on any thread.
package attach

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An Attachment is a group of programs that get the packets of an interface until it is closed, or
// until the process ends. Its caller may close the programs themselves at any time. Check may be
// called concurrently, Close only after all other calls.
type Attachment struct {
	Own           xdp.Program  // the program, or the first of them
	Mode          packet.Mode  // at the XDP hook: where the kernel runs it
	How           string       // the kind of attachment at ingress or egress: see tc.Attachment.String
	SwitchedOff   *xdp.Joining // the features that attaching has switched off until Close; nil = none
	NeedsNetAdmin bool         // Close needs CAP_NET_ADMIN

	watch *xdp.HookWatch // nil = closed
	links []io.Closer    // in the order in which they are closed
	check func() error

	again   func() error              // implements Again; nil = not at an XDP hook
	replace func(*ebpf.Program) error // implements Replace; nil = neither at an XDP hook nor at tc
	tracers int                       // the first links of this number hold tracers
}

// Replace exchanges the program at the XDP hook or at tc for another one: each packet is passed to
// one of them. After an error the former one still runs. Its caller calls no other method at the
// same time.
func (a *Attachment) Replace(prog *ebpf.Program) error {
	own, err := xdp.Identify(prog)
	if err != nil {
		return fmt.Errorf("ask for a program's id: %w", err)
	}
	if err := a.replace(prog); err != nil {
		return err
	}
	a.Own = own
	return nil
}

// ReplaceTracers attaches new tracers, calls between, and then detaches the former tracers. The
// kernel runs the new tracers before the former ones. After an error only the former ones run. Its
// caller calls no other method at the same time.
func (a *Attachment) ReplaceTracers(target xdp.Target, between func() error, tracers ...*ebpf.Program) error {
	links, err := attachTracers(target, tracers)
	if err == nil {
		err = between()
	}
	if err != nil {
		return errors.Join(err, closeAll(links))
	}
	former := slices.Clone(a.links[:a.tracers])
	a.links, a.tracers = slices.Concat(links, a.links[a.tracers:]), len(links)
	return closeAll(former)
}

// open makes an Attachment, to which add attaches programs for the packets of an interface; first
// is the first program. After an error of add it detaches them.
func open(ifi xdp.Interface, first *ebpf.Program, add func(*Attachment) error) (a *Attachment, err error) {
	a = new(Attachment)
	if a.Own, err = xdp.Identify(first); err != nil {
		return nil, fmt.Errorf("ask for a program's id: %w", err)
	}
	if a.watch, err = xdp.WatchHook(ifi.Index); err != nil {
		return nil, err
	}
	a.check = a.watch.CheckExists
	if err := add(a); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

// Check returns nil, or why the programs no longer get the interface's packets: an xdp.ErrGone if
// it has left the namespace, an xdp.ErrHidden if this process has no right to check that. If the
// query fails, Check returns nil.
func (a *Attachment) Check() error { return a.check() }

// Counts returns the interface's counters.
func (a *Attachment) Counts() (xdp.Counts, error) { return a.watch.Counts() }

// Again attaches a program at the XDP hook again, after its driver has lost it: see Sight. It needs
// no privilege. Its caller is in the interface's network namespace, and calls no other method at
// the same time. After an error the program may be detached.
func (a *Attachment) Again() error {
	if err := a.check(); err != nil {
		return err
	}
	return a.again()
}

// Close detaches the programs in the order in which they were given. A second call does nothing. A
// nil Attachment may be closed.
func (a *Attachment) Close() error {
	if a == nil || a.watch == nil {
		return nil
	}
	err := closeAll(a.links)
	a.watch.Close()
	a.watch = nil
	return err
}

func closeAll(links []io.Closer) error {
	var errs []error
	for _, l := range links {
		errs = append(errs, l.Close())
	}
	return errors.Join(errs...)
}

// Trace runs tracers, which are loaded for the target, until the Attachment is closed. They are
// attached and detached in the order in which they are given. If the target was found at the
// interface, Check returns an error when the target has left it.
func Trace(ifi xdp.Interface, target xdp.Target, tracers ...*ebpf.Program) (*Attachment, error) {
	return open(ifi, tracers[0], func(a *Attachment) (err error) {
		if target.At != (xdp.Program{}) {
			a.check = func() error { return a.watch.CheckRuns(target.At, target.Program) }
		}
		a.links, err = attachTracers(target, tracers)
		a.tracers = len(a.links)
		return err
	})
}

// attachTracers attaches tracers. After an error, links has those that were attached before.
func attachTracers(target xdp.Target, tracers []*ebpf.Program) (links []io.Closer, err error) {
	for _, p := range tracers {
		l, err := xdp.AttachTracer(p)
		if err != nil {
			return links, support.ExplainTracer(err, target.Program)
		}
		links = append(links, l)
	}
	return links, nil
}

// TraceAtTC is Trace for a program at tc of the interface, which Check watches at these places. If
// there are none, Check only reports whether the interface exists.
func TraceAtTC(ifi xdp.Interface, target xdp.Target, places []tc.Running, tracers ...*ebpf.Program) (*Attachment, error) {
	a, err := Trace(ifi, target, tracers...)
	if err != nil || len(places) == 0 {
		return a, err
	}
	w, err := tc.WatchProgram(ifi, target.Program, places)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	a.links = append(a.links, w)
	a.check = func() error { return cmp.Or(a.watch.CheckExists(), w.Check()) }
	return a, nil
}

// Kernel runs programs at the tracepoints or functions of the kernel for which they are loaded. The
// programs select the interface's packets, so Check only reports whether the interface exists. An
// interface without an index stands for all. Errors begin with tried.
func Kernel(ifi xdp.Interface, tried string, programs ...*ebpf.Program) (*Attachment, error) {
	return open(ifi, programs[0], func(a *Attachment) error {
		if ifi.Index == 0 {
			a.check = func() error { return nil }
		}
		for _, p := range programs {
			l, err := link.AttachTracing(link.TracingOptions{Program: p})
			if err != nil {
				return support.ExplainLoad(tried, err)
			}
			a.links = append(a.links, l)
		}
		return nil
	})
}

// TC runs a program of the type SchedCLS for the packets that the interface receives or sends: see
// tc.Attach.
func TC(ifi xdp.Interface, prog *ebpf.Program, at tc.Direction) (*Attachment, error) {
	return open(ifi, prog, func(a *Attachment) error {
		t, err := tc.Attach(prog, ifi, at)
		if err != nil {
			return err
		}
		a.links, a.How, a.NeedsNetAdmin = []io.Closer{t}, t.String(), t.Kind().NeedsNetAdmin()
		a.check = func() error { return cmp.Or(a.watch.CheckExists(), t.Check()) }
		a.replace = t.Replace
		return nil
	})
}
