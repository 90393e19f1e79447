package xdp

import "github.com/cilium/ebpf"

// This file exports what the tests in package xdp_test need. They are in a package of their own,
// because they import internal/testnet, which imports this one.

func (h *HookMap) Map() *ebpf.Map { return h.m }

var EachLink = eachLink
