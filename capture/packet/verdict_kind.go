package packet

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A VerdictKind is the meaning of a Facts.Verdict: enum verdict_kind of bpf/include/record.h.
type VerdictKind uint16

const (
	XDPVerdict  VerdictKind = iota // of an XDP program
	TCVerdict                      // of a program at tc: TC_ACT_OK and the like, as a signed number
	PlainNumber                    // signed, of a function whose type is not that of a verdict
)

// tcVerdicts are the kernel's verdicts at tc, from TC_ACT_UNSPEC, which is -1.
var tcVerdicts = [...]string{"unspec", "ok", "reclassify", "shot", "pipe", "stolen", "queued", "repeat", "redirect", "trap"}

const tcShot Verdict = 2

// tcAliases are other names of verdicts at tc, as tcx has them and iproute2 prints them.
var tcAliases = map[string]string{"next": "unspec", "continue": "unspec", "pass": "ok", "drop": "shot"}

// TCVerdictNames are the names of the kernel's verdicts at tc: those of TC_ACT_OK and the like, in
// lower case.
func TCVerdictNames() []string { return slices.Clone(tcVerdicts[:]) }

// NameOf is the name of a verdict of this kind in lower case, or its number.
func (k VerdictKind) NameOf(v Verdict) string {
	switch {
	case k == XDPVerdict:
		return v.String()
	case k == TCVerdict && v+1 < Verdict(len(tcVerdicts)):
		return tcVerdicts[v+1]
	}
	return strconv.Itoa(int(int32(v)))
}

// Discards reports whether the kernel throws a packet away for which a program has returned this
// verdict.
func (k VerdictKind) Discards(v Verdict) bool {
	switch k {
	case XDPVerdict:
		return v.Discards()
	case TCVerdict:
		return v == tcShot
	}
	return false
}

// ParseTCVerdict reads the name of a verdict at tc, with or without the kernel's TC_ACT_ or TCX_,
// or its number.
func ParseTCVerdict(s string) (Verdict, error) {
	name := strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(s), "tc_act_"), "tcx_")
	if other, ok := tcAliases[name]; ok {
		name = other
	}
	if i := slices.Index(tcVerdicts[:], name); i >= 0 {
		return Verdict(i - 1), nil
	}
	n, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("verdict %q: must be %s, or a number", s, strings.Join(tcVerdicts[:], ", "))
	}
	return Verdict(n), nil
}

// ReturnOf returns the value that a program or function has returned for one of the source's
// packets, and the kind of the value, if it is known.
func (s *Source) ReturnOf(p *Packet) (v Verdict, kind VerdictKind, known bool) {
	if p.Stored != nil {
		return p.Verdict, p.VerdictKind, p.Stored.HasVerdict
	}
	return p.Verdict, p.VerdictKind, s.HasVerdict()
}
