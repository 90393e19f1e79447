package support

import (
	"errors"

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
	if c.Answer == Yes && c.Reason == "by "+tc.Clsact.String() && r.Interface != nil && r.Interface.qdisc.Answer == No {
		return r.Interface.qdisc
	}
	return c
}
