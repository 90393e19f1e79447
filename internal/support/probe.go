// Package support finds out what this kernel, this network driver and this user allow, and says why
// not where something is refused.
package support

import "github.com/xdpcap/xdpcap/internal/xdp"

// A Report is what kernel, driver and user allow: see [Probe].
type Report struct {
	// CanCapture says that a capture would work; if an interface was asked for, on that one,
	// possibly by tracing the program that runs there.
	CanCapture bool       `json:"can_capture"`
	Kernel     Kernel     `json:"kernel"`
	Privileges Privileges `json:"privileges"`
	Interface  *Interface `json:"interface"` // nil = none was asked for
	Features   Checks     `json:"features"`  // of xdpcap; the keys are the Feature constants
}

// ProbeOptions say what to look at.
type ProbeOptions struct {
	Interface string // "" = only kernel and user
	Ring      int    // bytes that a capture locks in memory per CPU, if it may
	LeastRing int    // bytes with which it does, too
}

// Probe finds out what works here by trying what disturbs nobody: it loads programs, but attaches
// none to an interface, and tracers only to a program of its own. Nothing stays behind. Without
// privileges it works, too: what it cannot try is Unknown then. The process must not change its
// capabilities while Probe runs or between two runs, because results are cached.
func Probe(o ProbeOptions) (*Report, error) {
	if err := checkFileSystems(); err != nil {
		return nil, err
	}
	r := &Report{}
	if o.Interface != "" {
		ifi, err := xdp.InterfaceByName(o.Interface)
		if err != nil {
			return nil, err
		}
		r.Interface = probeInterface(ifi)
	}
	var err error
	if r.Kernel, err = probeKernel(); err != nil {
		return nil, err
	}
	if r.Privileges, err = privileges(); err != nil {
		return nil, err
	}
	l := findLimits(o.Ring)
	l.least = o.LeastRing
	r.decide(l)
	return r, nil
}

// decide says which features work, from what was found.
func (r *Report) decide(l limits) {
	r.Features = r.features(l)
	yes := func(key string) bool { return r.Features.Get(key).Answer == Yes }
	r.CanCapture = yes(FeatureNative) || yes(FeatureGeneric) || yes(FeatureBeside) && r.occupied()
}

// occupied is whether the interface runs an XDP program.
func (r *Report) occupied() bool { return r.Interface != nil && r.Interface.Program != nil }
