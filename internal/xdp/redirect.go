package xdp

import (
	"fmt"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// FindRedirects prepares a program that includes bpf/include/outlet.h for this kernel, before it is
// loaded. Older kernels have the target of a redirect in the per-CPU variable bpf_redirect_info;
// FindRedirects puts the variable's BTF id into each instruction that refers to it. types are
// [KernelTypes].
func FindRedirects(spec *ebpf.CollectionSpec, program string, types *btf.Cache) error {
	const name, pseudoBTFID = "bpf_redirect_info", asm.R3 // BPF_PSEUDO_BTF_ID of linux/bpf.h
	instructions := spec.Programs[program].Instructions
	isNamed := func(ins asm.Instruction) bool { return ins.Reference() == name }
	if !slices.ContainsFunc(instructions, isNamed) {
		return nil
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
	for i := range instructions {
		if ins := &instructions[i]; isNamed(*ins) {
			ins.Src, ins.Constant = pseudoBTFID, int64(id)
		}
	}
	return spec.Variables["redirect_info_in_cpu"].Set(true)
}
