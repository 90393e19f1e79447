package capture

import (
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An Outlet is the interface that an XDP program sends a packet out of, by Tx or Redirect. The zero
// value means that it is not known, or that the packet goes to no interface, or to several.
type Outlet uint32

// Index is the interface's index, as the kernel numbers them in a network namespace; 0 = not known.
func (o Outlet) Index() int { return int(o &^ otherNamespace) }

// IsElsewhere tells whether the interface is in another network namespace than the packet's source.
func (o Outlet) IsElsewhere() bool { return o&otherNamespace != 0 }

const otherNamespace = Outlet(samplerLimitTO_OTHER_NETNS)

func (o Outlet) String() string {
	if o.IsElsewhere() {
		return fmt.Sprintf("interface %d of another network namespace", o.Index())
	}
	return fmt.Sprintf("interface %d", o.Index())
}

// outlets has the names of outlets. Each is looked up once, when its first packet comes.
type outlets struct {
	interfaces *xdp.Names // nil where no source knows outlets
	// known is never changed, but replaced by a larger one: the outputs read it meanwhile.
	known atomic.Pointer[map[Outlet]string]
	last  Outlet // learned last
}

// learn looks up the name of an outlet. It belongs to the reader's goroutine.
func (o *outlets) learn(to Outlet) {
	if to == o.last || o.interfaces == nil {
		return
	}
	o.last = to
	if _, ok := o.name(to); ok {
		return
	}
	name := to.String()
	if !to.IsElsewhere() {
		if found, err := o.interfaces.Name(to.Index()); err == nil {
			name = found
		}
	}
	larger := map[Outlet]string{to: name}
	if known := o.known.Load(); known != nil {
		maps.Copy(larger, *known)
	}
	o.known.Store(&larger)
}

// name returns what is known, from any goroutine.
func (o *outlets) name(to Outlet) (name string, ok bool) {
	if known := o.known.Load(); known != nil {
		name, ok = (*known)[to]
	}
	return name, ok
}

// OutletName returns the name of the interface that a packet is sent out of. One that had gone
// when its first packet came, or is in another network namespace, has a number in its place. Any
// goroutine may call it, also after the session has ended.
func (s *Session) OutletName(to Outlet) string {
	if name, ok := s.reader.outlets.name(to); ok {
		return name
	}
	return to.String()
}

// resolveRedirectInfo puts the BTF id of the kernel's per-CPU variable into the instruction of
// bpf/include/outlet.h that names it, and tells the program so. Newer kernels have no such
// variable.
func resolveRedirectInfo(spec *ebpf.CollectionSpec, program string) error {
	const name, pseudoBTFID = "bpf_redirect_info", asm.R3 // BPF_PSEUDO_BTF_ID of linux/bpf.h
	instructions := spec.Programs[program].Instructions
	for i := range instructions {
		ins := &instructions[i]
		if ins.Reference() != name {
			continue
		}
		kernel, err := btf.LoadKernelSpec()
		if err != nil {
			return fmt.Errorf("read the kernel's types: %w", err)
		}
		var variable *btf.Var
		if kernel.TypeByName(name, &variable) != nil {
			return nil
		}
		id, err := kernel.TypeID(variable)
		if err != nil {
			return fmt.Errorf("find %s among the kernel's types: %w", name, err)
		}
		ins.Src, ins.Constant = pseudoBTFID, int64(id)
		return spec.Variables[samplerVarRedirectInfoInCpu].Set(true)
	}
	return nil
}
