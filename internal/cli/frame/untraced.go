package frame

import (
	"cmp"
	"errors"
	"strconv"
	"strings"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An untraced is the error of a command whose question tracing would have answered.
type untraced struct {
	error
	instead string // what answers it without
}

func (e *untraced) Unwrap() error { return e.error }

// WhichPackets answers which packets have these verdicts; nil = which are dropped.
func WhichPackets(verdicts []string) string {
	which, names := "which packets it drops", "drop"
	if verdicts != nil {
		which, names = "which packets", strings.Join(verdicts, ",")
	}
	return which + ": capture at the sender (-Q out -w FILE), then xdpcap replay --program PROGRAM --sent --yes -w v.pcapng FILE, then xdpcap read --verdict " +
		names + " v.pcapng; how many are dropped: xdpcap drops -i IF"
}

// PassedAndDropped answers how many packets a program gets.
const PassedAndDropped = "--at tc counts what it passes, xdpcap drops -i IF what it drops"

// HowLong answers how long a program runs.
const HowLong = "the mean: xdpcap latency -i IF --kernel-stats; the distribution over packets captured at the sender (-Q out -w FILE): xdpcap replay --program PROGRAM --sent --yes FILE"

// Untraced gives an error of a kernel that refuses tracing what answers the command's question
// without, in place of what remedies say; IF stands for the interface, PROGRAM for the program. ""
// has none, and all other errors stay as they are.
func Untraced(err error, iface, instead string) error {
	refused := (*xdp.TracingError)(nil)
	if instead == "" || !errors.As(err, &refused) || !errors.Is(err, support.ErrTracingRefused) {
		return err
	}
	program := cmp.Or(refused.Program.Name, strconv.Itoa(int(refused.Program.ID)))
	instead = strings.NewReplacer("PROGRAM", program, "IF", cmp.Or(iface, AnyInterface)).Replace(instead)
	if errors.Is(err, support.ErrKernelRefuses) {
		instead += "; " + otherKernel
	}
	return &untraced{err, instead}
}
