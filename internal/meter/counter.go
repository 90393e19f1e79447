package meter

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A counter is the common part of Actions, Protocols and Latency: the programs of one C file, the
// maps that these share, and where they run. The programs are loaded one at a time, because tracers
// are loaded again for each program that they trace.
type counter struct {
	*attachment // nil until something is attached
	spec        *ebpf.CollectionSpec
	maps        map[string]*ebpf.Map // by their names in C; created before the first program is loaded

	tracers    []string                      // names of programs, in the order of attaching and detaching
	refused    error                         // the kind of error if a program cannot be traced
	prepare    func(target xdp.Target) error // called before tracers are loaded for a target; nil = not needed
	ready      func() error                  // called after the maps were created; nil = not needed
	targetMaps map[string]*ebpf.Map          // maps of the target that replace those of the C file, by their names there
}

// countable returns an interface on which this process can count.
func countable(name string) (xdp.Interface, error) {
	if err := support.CheckProcess(); err != nil {
		return xdp.Interface{}, err
	}
	return xdp.EthernetInterface(name)
}

// open begins to count on an interface by trace, attachXDP or attachTC. The caller closes the
// counter also after an error.
func (c *counter) open(iface string, begin func(xdp.Interface) error) error {
	defer runtime.KeepAlive(xdp.KernelTypes()) // a cache, which all loads share
	ifi, err := countable(iface)
	if err != nil {
		return err
	}
	return begin(ifi)
}

// trace attaches the tracers to the program that xdp.OneProgram selects. They count the packets
// that came in on ifi.
func (c *counter) trace(ifi xdp.Interface, selector string) error {
	program, err := xdp.OneProgram(ifi, selector)
	if err != nil {
		return err
	}
	a := &attachment{ifi: ifi}
	switchTo := func(ifi xdp.Interface, to xdp.Program) error {
		at, err := c.attachTracers(to, ifi)
		if reason := (*xdp.TracingError)(nil); errors.As(err, &reason) {
			return message.Errorf(c.refused, "%s: %w", a.ifi.Name, err)
		}
		if err != nil {
			return err
		}
		before := a.at
		a.at = at
		return before.Close() // a nil Attachment may be closed
	}
	if a.traced, err = newFollowed(ifi, selector, program, switchTo); err != nil {
		return err
	}
	if err := switchTo(ifi, program); err != nil {
		a.traced.watch.Close()
		return err
	}
	a.began = time.Now()
	c.attachment = a
	return nil
}

// attachTracers attaches all tracers to a program, or none after an error.
func (c *counter) attachTracers(to xdp.Program, ifi xdp.Interface) (*attach.Attachment, error) {
	target, err := xdp.OpenTarget(to.ID)
	if err != nil {
		return nil, err
	}
	defer target.Prog.Close() // the loaded tracers keep their target alive
	return c.attachTo(target, ifi)
}

func (c *counter) attachTo(target xdp.Target, ifi xdp.Interface) (*attach.Attachment, error) {
	if err := RestrictTo(ifi, c.spec); err != nil {
		return nil, err
	}
	if c.prepare != nil {
		if err := c.prepare(target); err != nil {
			return nil, err
		}
	}
	var programs []*ebpf.Program
	for _, name := range c.tracers {
		c.spec.Programs[name].AttachTarget, c.spec.Programs[name].AttachTo = target.Prog, target.Function
		p, err := c.load(name)
		if err != nil {
			return nil, support.ExplainTracer(err, target.Program)
		}
		defer p.Close() // the kernel keeps it
		programs = append(programs, p)
	}
	return attach.Trace(ifi, target, programs...)
}

// RestrictTo restricts the tracing programs of spec, which include bpf/include/traced.h, to the
// packets of an interface. If its index is 0, they count those of all interfaces in the calling
// thread's namespace.
func RestrictTo(ifi xdp.Interface, spec *ebpf.CollectionSpec) error {
	constants, err := xdp.Traced(ifi)
	if err != nil {
		return err
	}
	return attach.Set(spec, constants)
}

// loadOwn loads a program of ours that is to run on an interface.
func (c *counter) loadOwn(name string) (*ebpf.Program, error) {
	prog, err := c.load(name)
	if err != nil {
		return nil, support.ExplainLoad("load the counting program", err)
	}
	return prog, nil
}

// attachXDP runs a program of ours at the XDP hook of the interface. seen returns how many packets
// it has counted; nil = unknown.
func (c *counter) attachXDP(ifi xdp.Interface, name string, mode packet.Mode, seen func() (uint64, error)) error {
	prog, err := c.loadOwn(name)
	if err != nil {
		return err
	}
	if c.attachment, err = attachXDP(ifi, prog, mode); err == nil {
		c.seen = seen
	}
	return err
}

// attachTC runs a program of ours for the packets that the interface receives or sends.
func (c *counter) attachTC(ifi xdp.Interface, name string, at tc.Direction) error {
	prog, err := c.loadOwn(name)
	if err != nil {
		return err
	}
	c.attachment, err = attachTC(ifi, prog, at)
	return err
}

// load loads one program, and creates the maps if it is the first. The caller closes the program.
func (c *counter) load(name string) (*ebpf.Program, error) {
	if err := c.makeMaps(); err != nil {
		return nil, err
	}
	shared := maps.Clone(c.maps)
	maps.Copy(shared, c.targetMaps)
	return LoadProgram(c.spec, name, shared)
}

// LoadProgram loads one program of spec, with existing maps in place of those of the same names.
// The caller closes the program.
func LoadProgram(spec *ebpf.CollectionSpec, name string, maps map[string]*ebpf.Map) (*ebpf.Program, error) {
	only := spec.Copy()
	only.Programs = map[string]*ebpf.ProgramSpec{name: only.Programs[name]}
	if err := xdp.Alone(only.Programs[name]); err != nil {
		return nil, err
	}
	coll, err := ebpf.NewCollectionWithOptions(only, ebpf.CollectionOptions{MapReplacements: maps, Cache: xdp.KernelTypes()})
	if err != nil {
		return nil, err
	}
	defer coll.Close()
	return coll.DetachProgram(name), nil
}

// makeMaps creates the maps unless they exist. Maps whose names begin with a dot hold the constants
// of a program, and each program has its own.
func (c *counter) makeMaps() error {
	if c.maps != nil {
		return nil
	}
	c.maps = make(map[string]*ebpf.Map)
	for name, spec := range c.spec.Maps {
		if strings.HasPrefix(name, ".") || c.targetMaps[name] != nil {
			continue
		}
		m, err := ebpf.NewMap(spec)
		if err != nil {
			return fmt.Errorf("create map %s: %w", name, err)
		}
		c.maps[name] = m
	}
	if c.ready == nil {
		return nil
	}
	return c.ready()
}

// Close detaches everything and releases the counters. It is called once, after all other methods.
func (c *counter) Close() error {
	errs := []error{c.attachment.close()}
	for _, m := range slices.AppendSeq(slices.Collect(maps.Values(c.maps)), maps.Values(c.targetMaps)) {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}
