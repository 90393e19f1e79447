package xdp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

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

// ParseVerdict reads a verdict's name, with or without the kernel's XDP_, or its number.
func ParseVerdict(s string) (Verdict, error) {
	name := strings.TrimPrefix(strings.ToLower(s), "xdp_")
	if i := slices.Index(verdictNames[:], name); i >= 0 {
		return Verdict(i), nil
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("verdict %q: must be %s, or a number", s, strings.Join(verdictNames[:], ", "))
	}
	return Verdict(n), nil
}
