package xdp

import "github.com/cilium/ebpf"

// This file exports what the tests in package xdp_test need. They are in a package of their own,
// because they import internal/testnet, which imports this one.

var DriverMessage = driverMessage

// NewHookMap returns a hook map that no process has locked.
func NewHookMap(path string, m *ebpf.Map) *HookMap { return &HookMap{path: path, m: m, lock: -1} }

func (h *HookMap) Take(leftover string) error { return h.take(leftover) }

func (h *HookMap) Map() *ebpf.Map { return h.m }
