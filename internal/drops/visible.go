package drops

import (
	"github.com/vishvananda/netlink"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/lost"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Visible checks for each stage whether a Meter can count its losses here. The reason of a yes is
// the means, or a part that is missing. The keys are card, xdp, stack (with sockets), af_xdp and
// egress. r is of the interface, or of the whole machine. It attaches no program.
func Visible(r *support.Report) support.Checks {
	var queues map[uint32]lost.QueueDrops
	if r.Interface != nil {
		queues = lost.ReadQueues(r.Interface.Index)
	}
	stack, egress := visibleStack()
	checks := support.Checks{
		visibleCard(r.Interface, queues),
		visibleHook(r.Interface, r.Tracing()),
		stack,
		visibleSockets(),
		egress,
	}
	// A Meter cannot be opened without the xdp tracepoints, so without them no stage is visible.
	tracepoints := r.Features.Get(support.FeatureMonitor)
	for i, key := range []string{"card", "xdp", "stack", "af_xdp", "egress"} {
		if tracepoints.Answer != support.Yes {
			checks[i] = tracepoints
		}
		checks[i].Key = key
	}
	return checks
}

func visibleCard(iface *support.Interface, queues map[uint32]lost.QueueDrops) support.Check {
	switch {
	case iface == nil:
		return support.Check{Reason: "depends on the interface and its driver"}
	case len(queues) > 0:
		return support.Check{Answer: support.Yes, Reason: "by the interface's statistics, and per queue by the card's"}
	case driverKinds[iface.Driver] != driverKind{}:
		return support.Check{Answer: support.Yes, Reason: "by the interface's statistics and the driver's own"}
	}
	return support.Check{Answer: support.Yes, Reason: "by the interface's statistics; ethtool -S " + message.ShellWord(iface.Name) + " may have more"}
}

func visibleHook(iface *support.Interface, tracing support.Check) support.Check {
	switch {
	case tracing.Answer == support.Yes:
		return support.Check{Answer: support.Yes, Reason: "at the program's exit"}
	case iface != nil && iface.Program != nil && iface.Program.Mode == packet.Generic.String():
		return support.Check{Answer: support.Yes, Reason: "by what the stack throws away after the program"}
	case iface != nil && driverKinds[iface.Driver].xdpDrops != "":
		return support.Check{Answer: support.Yes, Reason: "by the driver's counters"}
	}
	tracing.Reason = "failures only, since no program can be traced: " + tracing.Reason
	return tracing
}

// visibleSockets checks the losses of AF_XDP sockets.
func visibleSockets() support.Check {
	c := support.Check{Answer: support.Yes, Reason: "by their statistics, per queue"}
	if _, err := netlink.SocketDiagXDP(); err != nil {
		c.Reason = "by failed redirects; the kernel lacks CONFIG_XDP_SOCKETS_DIAG, which tells queues"
	}
	return c
}

// visibleStack checks the losses in the stack and in the queues on the way out.
func visibleStack() (stack, egress support.Check) {
	types := xdp.KernelTypes()
	kernel, err := types.Kernel()
	if err == nil {
		_, err = programFor(kernel, programOf)
	}
	var names lost.Reasons
	if err == nil {
		names, err = lost.KernelReasons(types)
	}
	if err != nil {
		c := support.Check{Answer: support.No, Reason: err.Error()}
		return c, c
	}
	return seenBy(names, lost.SymbolsHidden())
}

// seenBy is visibleStack for a kernel with these reasons. hidden means that it hides the names of
// its functions.
func seenBy(names lost.Reasons, hidden bool) (stack, egress support.Check) {
	stack = support.Check{Answer: support.Yes, Reason: "by reason and function"}
	switch {
	case len(names) == 0:
		stack.Reason = "by function; the kernel gives reasons since 5.17"
	case hidden:
		stack.Reason = "by reason; the kernel hides the names of functions"
		stack.Remedy = namesRemedy
	}
	egress = support.Check{Answer: support.No, Reason: "counted with the stack's: the kernel tells queues apart since 5.18"}
	for _, name := range names {
		if stageOf(name, unknownKind) == Egress {
			return stack, stack
		}
	}
	return stack, egress
}

// namesRemedy is the remedy if the kernel hides the names of functions.
const namesRemedy = "it takes CAP_SYSLOG, and kernel.kptr_restrict of at most 1"

// Notice returns a notice about the table of losses; "" = no notice.
func Notice() string {
	if lost.SymbolsHidden() {
		return "the kernel hides the names of its functions, so WHERE has addresses: " + namesRemedy
	}
	return ""
}
