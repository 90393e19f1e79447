package xdp

import "fmt"

// A Verdict is what an XDP program returns: enum xdp_action of include/uapi/linux/bpf.h.
type Verdict uint32

const (
	Aborted Verdict = iota
	Drop
	Pass
	Tx
	Redirect
)

var verdictNames = [...]string{"aborted", "drop", "pass", "tx", "redirect"}

// String is the verdict's name in lower case, or its number where the kernel has no such verdict.
func (v Verdict) String() string {
	if int(v) < len(verdictNames) {
		return verdictNames[v]
	}
	return fmt.Sprintf("%d", uint32(v))
}
