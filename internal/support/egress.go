package support

import (
	"errors"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// checkEgress checks whether the kernel runs programs on the packets that an interface sends. The
// reason of a yes is the kind of attachment.
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

// egressOnce returns the result of checkEgress, which runs once.
var egressOnce = sync.OnceValue(checkEgress)

// AtTC checks whether programs can run at tc on the packets that an interface receives or sends.
func AtTC(ifi xdp.Interface) Check {
	return withQdisc(egressOnce(), func() Check { return checkQdisc(ifi) })
}

// PrefersTC reports whether received packets are better captured at tc ingress than at XDP: no XDP
// program runs on the interface, and it is not a card whose driver has native XDP. On a veth, a
// program at XDP would disable offloads of the other end.
func PrefersTC(ifi xdp.Interface) bool {
	if len(ifi.Programs) > 0 {
		return false
	}
	isCard := ifi.IsHardware() && NativeXDP(ifi).Answer != No
	return !isCard && AtTC(ifi).Answer != No
}

// withQdisc adds a no of the interface's check to the kernel's check, if programs run by clsact:
// this qdisc needs room at the interface.
func withQdisc(kernel Check, ofInterface func() Check) Check {
	if kernel.Answer == Yes && kernel.Reason == "by "+tc.Clsact.String() {
		if c := ofInterface(); c.Answer == No {
			return c
		}
	}
	return kernel
}

// checkQdisc checks whether an interface has room for the qdisc clsact.
func checkQdisc(ifi xdp.Interface) Check {
	if err := tc.CheckQdisc(ifi.Index); err != nil {
		return Check{Answer: No, Reason: err.Error()}
	}
	return yes("")
}

// egress checks whether programs can run on the packets that the report's interface sends or, if it
// has none, on those of any interface.
func (r *Report) egress() Check {
	c := r.Kernel.Checks.Get("egress")
	if r.Interface == nil {
		return c
	}
	return withQdisc(c, func() Check { return r.Interface.qdisc })
}
