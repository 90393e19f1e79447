package capture

import (
	"fmt"
	"maps"
	"sync/atomic"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// maxOutlets is the most names of outlets that are cached: interfaces may come and go for weeks,
// and adding a name copies the cache.
const maxOutlets = 1024

// outlets is a cache of outlets' names. A name is looked up for the first packet to the outlet, and
// again if maxOutlets others were looked up since.
type outlets struct {
	interfaces *xdp.Names // nil if no source has outlets
	// The map is never changed, only replaced by a larger one, because the outputs read it
	// concurrently.
	known atomic.Pointer[map[Outlet]string]
	last  Outlet // the last one learned
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
	if known := o.known.Load(); known != nil && len(*known) < maxOutlets {
		maps.Copy(larger, *known)
	}
	o.known.Store(&larger)
}

// name returns the name of an outlet, if it is known. Any goroutine may call it.
func (o *outlets) name(to Outlet) (name string, ok bool) {
	if known := o.known.Load(); known != nil {
		name, ok = (*known)[to]
	}
	return name, ok
}

// resolveRedirectInfo puts the BTF id of the kernel's per-CPU variable bpf_redirect_info into the
// instruction of bpf/include/outlet.h that names it, and sets the constant that says the variable
// exists. Newer kernels do not have it.
func resolveRedirectInfo(spec *ebpf.CollectionSpec, program string, types *btf.Cache) error {
	const name, pseudoBTFID = "bpf_redirect_info", asm.R3 // BPF_PSEUDO_BTF_ID of linux/bpf.h
	instructions := spec.Programs[program].Instructions
	for i := range instructions {
		ins := &instructions[i]
		if ins.Reference() != name {
			continue
		}
		all, err := types.Kernel()
		if err != nil {
			return fmt.Errorf("read the kernel's types: %w", err)
		}
		var variable *btf.Var
		if all.TypeByName(name, &variable) != nil {
			return nil
		}
		id, err := all.TypeID(variable)
		if err != nil {
			return fmt.Errorf("find %s among the kernel's types: %w", name, err)
		}
		ins.Src, ins.Constant = pseudoBTFID, int64(id)
		return spec.Variables[kernel.SamplerVarRedirectInfoInCpu].Set(true)
	}
	return nil
}
