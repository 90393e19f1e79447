package packet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Verdict is the return value of an XDP program: enum xdp_action of include/uapi/linux/bpf.h, or
// any other number.
type Verdict uint32

// The kernel's verdicts, and UnknownVerdict for all other numbers in counters, as in
// bpf/include/verdict.h.
const (
	Aborted Verdict = iota
	Drop
	Pass
	Tx
	Redirect
	UnknownVerdict
)

const (
	// Verdicts is how many verdicts the kernel has.
	Verdicts = int(UnknownVerdict)
	// VerdictSlots is the number of entries in a table of counters by verdict: one for each verdict
	// and one for UnknownVerdict.
	VerdictSlots = Verdicts + 1
)

var verdictNames = [VerdictSlots]string{
	Aborted:        "aborted",
	Drop:           "drop",
	Pass:           "pass",
	Tx:             "tx",
	Redirect:       "redirect",
	UnknownVerdict: "unknown",
}

// VerdictNames are the names of the kernel's verdicts, in the order of their numbers.
func VerdictNames() []string { return slices.Clone(verdictNames[:Verdicts]) }

// String is the verdict's name in lower case, or its number if the kernel has no such verdict.
func (v Verdict) String() string {
	if v < UnknownVerdict {
		return verdictNames[v]
	}
	return fmt.Sprintf("%d", uint32(v))
}

// Slot is the verdict's index in a table of counters with VerdictSlots entries.
func (v Verdict) Slot() int { return int(min(v, UnknownVerdict)) }

// SlotName is the verdict's name in a table of counters; "unknown" if the kernel has no such
// verdict.
func (v Verdict) SlotName() string { return verdictNames[v.Slot()] }

// ParseVerdict reads a verdict's name, with or without the kernel's XDP_, or its number.
func ParseVerdict(s string) (Verdict, error) {
	name := strings.TrimPrefix(strings.ToLower(s), "xdp_")
	names := VerdictNames()
	if i := slices.Index(names, name); i >= 0 {
		return Verdict(i), nil
	}
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("verdict %q: must be %s, or a number", s, strings.Join(names, ", "))
	}
	return Verdict(n), nil
}

// Discards reports whether a program with this verdict throws the packet away.
func (v Verdict) Discards() bool { return v == Drop || v == Aborted }
