package replay

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

//go:generate go tool bpf2go -target bpfel replay ../../bpf/replay.c

// outlets finds out to which interfaces a program redirects packets, by a program at its exit.
type outlets struct {
	tracer link.Link
	seen   *ebpf.Variable // the outlet of the last packet
	names  *xdp.Names
	known  map[capture.Outlet]string
}

// openOutlets traces a program, on a kernel with fexit.
func openOutlets(program *ebpf.Program) (*outlets, error) {
	spec, err := loadReplay()
	if err != nil {
		return nil, err
	}
	named, err := xdp.Identify(program)
	if err != nil {
		return nil, err
	}
	target, err := xdp.OpenTarget(named.ID)
	if err != nil {
		return nil, err
	}
	defer target.Prog.Close() // the loaded tracer keeps it alive
	types := xdp.KernelTypes()
	if err := xdp.FindRedirects(spec, replayProgXdpcapReplayed, types); err != nil {
		return nil, err
	}
	exit := spec.Programs[replayProgXdpcapReplayed]
	spec.Programs = map[string]*ebpf.ProgramSpec{replayProgXdpcapReplayed: exit}
	exit.AttachTarget, exit.AttachTo = target.Prog, target.Function
	coll, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{Cache: types})
	if err != nil {
		return nil, support.ExplainTracer(err, target.Program)
	}
	defer coll.Close() // the kernel keeps an attached program, and the variable keeps its memory
	o := &outlets{seen: coll.Variables[replayVarLastOutlet], known: make(map[capture.Outlet]string)}
	if o.names, err = xdp.OpenNames(); err != nil {
		return nil, err
	}
	if o.tracer, err = xdp.AttachTracer(coll.Programs[replayProgXdpcapReplayed]); err != nil {
		o.names.Close()
		return nil, support.ExplainTracer(err, target.Program)
	}
	return o, nil
}

// last returns the outlet of the packet on which the program ran last; 0 if o is nil.
func (o *outlets) last() (to capture.Outlet, err error) {
	if o == nil {
		return 0, nil
	}
	if err := o.seen.Get(&to); err != nil || to == 0 {
		return 0, err
	}
	if _, ok := o.known[to]; !ok {
		o.known[to] = to.String()
		if name, err := o.names.Name(to.Index()); err == nil && !to.IsElsewhere() {
			o.known[to] = name
		}
	}
	return to, nil
}

// name returns the name of an outlet of a packet.
func (o *outlets) name(to capture.Outlet) string { return o.known[to] }

func (o *outlets) close() {
	if o != nil {
		o.tracer.Close()
		o.names.Close()
	}
}
