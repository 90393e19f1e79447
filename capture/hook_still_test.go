package capture

import (
	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/internal/probe"
)

// A stillHook samples nothing. It writes into the kernel's counters what a program would have
// counted.
type stillHook struct {
	source  Source
	account kernel.SamplerAccount
	blind   error // what check returns
	calls   []string
	counts  *ebpf.Map
	index   uint32
}

// hookWithOne is a stillHook that one packet came to.
func hookWithOne() *stillHook { return &stillHook{account: kernel.SamplerAccount{Seen: 1, Sampled: 1}} }

func (h *stillHook) Sources() []Source { return []Source{h.source} }

func (h *stillHook) Load(k *probe.Sampler, first, _ uint32) error {
	h.calls = append(h.calls, "load")
	h.counts, h.index = k.Maps[kernel.SamplerMapAccounts], first
	return nil
}

func (h *stillHook) Attach() error {
	h.calls = append(h.calls, "attach")
	h.source.Sampler = Program{ID: 7, Name: "still"}
	perCPU := make([]kernel.SamplerAccount, ebpf.MustPossibleCPU())
	perCPU[0] = h.account
	return h.counts.Put(h.index, perCPU)
}

func (h *stillHook) Check() error { return h.blind }

func (h *stillHook) Detach() error {
	h.calls = append(h.calls, "detach")
	return nil
}

func (h *stillHook) Close() error {
	h.calls = append(h.calls, "close")
	return nil
}
