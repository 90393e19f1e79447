package support

import (
	"errors"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// checkEgress checks whether programs can see the packets that an interface sends. The reason of a
// yes is the kind of attachment.
func checkEgress() Check {
	const key = "egress"
	missing := missingCapabilities(heldOrNone())
	if len(missing) > 0 {
		return notTried(key, missing)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name:         trialName,
		Type:         ebpf.SchedCLS,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, -1), asm.Return()},
		License:      "Dual BSD/GPL",
	})
	if err != nil {
		return loadCheck(key, "programs at egress", err, "CONFIG_NET_CLS_ACT=y", missing)
	}
	defer prog.Close()
	kind, err := tc.Find(prog)
	switch {
	case errors.Is(err, tc.ErrNoKind):
		return no(key, err.Error(), "it takes Linux 6.6 or newer, or the modules sch_ingress and cls_bpf")
	case err != nil:
		return unknown(key, err.Error())
	}
	return Check{Key: key, Answer: Yes, Reason: "by " + kind.String()}
}

// egressOnce is the result of checkEgress, which runs once.
var egressOnce = sync.OnceValue(checkEgress)

// AtTC checks whether programs can see at tc the packets that an interface receives or sends.
func AtTC(ifi xdp.Interface) Check {
	return atInterface(egressOnce(), func() Check { return qdisc(ifi) })
}

// PrefersTC reports whether the packets that an interface receives are better seen at tc ingress
// than at XDP: no XDP program runs there, and it is no card whose driver has native XDP. A program
// at XDP would take offloads away from a veth's other end.
func PrefersTC(ifi xdp.Interface) bool {
	if len(ifi.Programs) > 0 {
		return false
	}
	isCard := ifi.IsHardware() && NativeXDP(ifi).Answer != No
	return !isCard && AtTC(ifi).Answer != No
}

// atInterface returns the meaning of the kernel's check for an interface: clsact needs room there.
func atInterface(kernel Check, qdisc func() Check) Check {
	if kernel.Answer == Yes && kernel.Reason == "by "+tc.Clsact.String() {
		if c := qdisc(); c.Answer == No {
			return c
		}
	}
	return kernel
}

// qdisc checks whether an interface has room for the qdisc clsact.
func qdisc(ifi xdp.Interface) Check {
	if err := tc.CheckQdisc(ifi.Index); err != nil {
		return Check{Answer: No, Reason: err.Error()}
	}
	return yes("")
}

// egress checks whether programs can see the packets that this interface sends; without an
// interface, whether they can on any.
func (r *Report) egress() Check {
	c := r.Kernel.Checks.Get("egress")
	if r.Interface == nil {
		return c
	}
	return atInterface(c, func() Check { return r.Interface.qdisc })
}
