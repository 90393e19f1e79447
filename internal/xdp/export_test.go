package xdp

import "github.com/cilium/ebpf"

// What tests of this package that need internal/testnet, which imports it, look at.

var DriverMessage = driverMessage

// NewHookMap is a hook map that nobody has taken hold of.
func NewHookMap(path string, m *ebpf.Map) *HookMap { return &HookMap{path: path, m: m, lock: -1} }

func (h *HookMap) Take(leftover string) error { return h.take(leftover) }

func (h *HookMap) Map() *ebpf.Map { return h.m }
