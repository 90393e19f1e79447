package probe

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A DropHook is a program at the tracepoint that the kernel calls for each packet that it throws
// away. It is attached to no interface.
type DropHook struct {
	interfaceHook
	reasons []lost.Reason // the chosen ones; nil = all
	types   *btf.Cache    // the kernel's; nil once the program is loaded, because they are large
	Words   *lost.Words   // the names of reasons and of kernel functions
	notice  func(error)
}

// maxReasons bounds Options.Reasons, because each packet's reason is compared with all of them.
const maxReasons = int(kernel.SamplerLostLimitMAX_REASONS)

// newDropHooks returns the hook at an interface for packets that the stack throws away. If an XDP
// program runs there and can be traced, it also returns a hook for the packets that this program
// drops, and one for packets that the kernel fails to redirect; it then sets o.Verdicts, for the
// program at the exit. A program that is attached later is not traced, and no program is traced if
// Options.Reasons is set, because packets lost at XDP have none of these reasons.
func newDropHooks(p Point, o *Options) (hooks []Hook, err error) {
	h, err := newDropHook(p, o)
	hooks = []Hook{h}
	runsNone := len(p.Interface.Programs) == 0
	onlyStack := len(o.Reasons) > 0 || runsNone && o.ReasonMap == ""
	if err != nil || onlyStack {
		return hooks, err
	}
	if runsNone {
		return hooks, message.Errorf(xdp.ErrNoReason, "%s runs no XDP program, and only a program gives reasons", p.Interface.Name)
	}
	program, err := xdp.OneProgram(p.Interface, "")
	if err != nil {
		return hooks, err
	}
	if err := support.TryProgram(program.ID); err != nil && o.ReasonMap != "" {
		return hooks, fmt.Errorf("read why XDP program %v of %s drops: %w", program, p.Interface.Name, err)
	} else if err != nil {
		o.Notice(fmt.Errorf("what XDP program %v of %s drops is not captured: %w", program, p.Interface.Name, err))
		return hooks, nil
	}
	exits := *o
	exits.Hooks, exits.Targets = []packet.Hook{packet.Exit}, []string{strconv.FormatUint(uint64(program.ID), 10)}
	traced, err := newTraceHooks(p, &exits)
	if err != nil {
		return append(hooks, traced...), err
	}
	o.Verdicts = []packet.Verdict{packet.Aborted, packet.Drop} // only programs at an exit use these
	return slices.Concat(traced, []Hook{newRedirectHook(p)}, hooks), nil
}

func newDropHook(p Point, o *Options) (h *DropHook, err error) {
	h = &DropHook{interfaceHook: newInterfaceHook(p.Interface, p.Filter, packet.StackDrop), notice: o.Notice, types: xdp.KernelTypes()}
	if h.Words, err = lost.OpenWords(h.types); err != nil {
		return h, support.ExplainBTF(findReasons, err)
	}
	if h.reasons, err = h.Words.Reasons.ParseAll(o.Reasons); err != nil {
		return h, err
	}
	return h, checkReasonCount(len(h.reasons))
}

const findReasons = "find the kernel's reasons for throwing packets away in its BTF"

// ParseReasons returns the numbers that this kernel's reasons of these names have.
func ParseReasons(names ...string) ([]packet.Reason, error) {
	known, err := lost.KernelReasons(xdp.KernelTypes())
	if err != nil {
		return nil, support.ExplainBTF(findReasons, err)
	}
	parsed, err := known.ParseAll(names)
	numbers := make([]packet.Reason, len(parsed))
	for i, r := range parsed {
		numbers[i] = packet.Reason(r)
	}
	return numbers, err
}

// Reasons returns the names of all reasons for which this kernel throws packets away.
func Reasons() ([]string, error) {
	reasons, err := lost.KernelReasons(xdp.KernelTypes())
	return reasons.Names(), err
}

// dropPrograms has the program for each list of arguments that the tracepoint has had since the
// kernel gives reasons. The lists are as support.TracepointArguments returns them.
var dropPrograms = map[string]string{
	"*sk_buff, *void, skb_drop_reason":        kernel.SamplerProgXdpcapLost,
	"*sk_buff, *void, skb_drop_reason, *sock": kernel.SamplerProgXdpcapLostRx, // since 6.11
}

func (h *DropHook) Load(k *Sampler, slot, number uint32) (err error) {
	defer func() { h.types = nil }()
	types, err := h.types.Kernel()
	if err != nil {
		return err
	}
	args, err := support.TracepointArguments(types, "kfree_skb")
	if err != nil {
		return fmt.Errorf("find the tracepoint skb:kfree_skb in the kernel's BTF: %w", err)
	}
	name, ok := dropPrograms[args]
	if !ok {
		return fmt.Errorf("this kernel gives no reasons for what it throws away, which Linux does since 5.17: the tracepoint skb:kfree_skb has the arguments %s", args)
	}
	own, err := xdp.Traced(h.ifi)
	if err != nil {
		return err
	}
	// The causes that are no losses, with those of packets that are freed for the XDP hook.
	const withHook = true
	all, err := lost.Constants(h.Words.Reasons, h.Words.Symbols, withHook)
	if err != nil {
		return err
	}
	maps.Copy(own, all)
	maps.Copy(own, reasonConstants(h.reasons))
	return h.loadProgram(k, "load the program for the tracepoint skb:kfree_skb", Loading{Name: name, Slot: slot, Number: number, Own: own})
}

func (h *DropHook) Attach() (err error) {
	h.attached, err = attach.Kernel(h.ifi, "attach to the tracepoint skb:kfree_skb", h.Programs...)
	return err
}

// Detach gives a notice of packets for which the program did not run: an interrupt may throw
// packets away on a CPU on which the program is running, and the kernel does not run it twice
// there.
func (h *DropHook) Detach() error {
	if h.attached == nil {
		return nil
	}
	err := h.interfaceHook.Detach()
	h.attached = nil
	stats, failed := h.Programs[0].Stats()
	if failed == nil && stats.RecursionMisses > 0 {
		h.notice(fmt.Errorf("%d packets that the machine threw away were not looked at, because they interrupted the program that looks at them", stats.RecursionMisses))
	}
	return errors.Join(err, failed)
}

func (h *DropHook) Close() error {
	if h.Words == nil {
		return nil
	}
	return errors.Join(h.Words.Close(), h.interfaceHook.Close())
}
