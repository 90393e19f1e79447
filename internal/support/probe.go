// Package support checks which features this kernel, this network driver and this user allow, and
// explains refusals.
package support

import "github.com/xdpcap/xdpcap/internal/xdp"

// A Report lists the features that kernel, driver and user allow: see [Probe].
type Report struct {
	// CanCapture means that a capture would work: on the given interface if there is one, possibly
	// by tracing the program that runs there.
	CanCapture bool       `json:"can_capture"`
	Kernel     Kernel     `json:"kernel"`
	Privileges Privileges `json:"privileges"`
	Interface  *Interface `json:"interface"` // nil = no interface was given
	Features   Checks     `json:"features"`  // of xdpcap; the keys are the Feature constants
}

// ProbeOptions are the options of Probe.
type ProbeOptions struct {
	Interface string // "" = only kernel and user
	Ring      int    // bytes per CPU that a capture locks in memory by default
	LeastRing int    // bytes per CPU that are enough
}

// Probe finds the features that work here, with trials that do not disturb traffic or other
// programs: it loads programs, but does not attach them to interfaces, and attaches tracers only to
// a program of its own. It removes everything that it created. It also works without privileges:
// features that it cannot try are Unknown. The process must not change its capabilities while Probe
// runs or between two runs, because results are cached.
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
	r.decide(findLimits(o.Ring, o.LeastRing))
	return r, nil
}

// decide derives the features from the checks.
func (r *Report) decide(l limits) {
	r.Features = r.features(l)
	yes := func(key string) bool { return r.Features.Get(key).Answer == Yes }
	r.CanCapture = yes(FeatureNative) || yes(FeatureGeneric) || yes(FeatureBeside) && r.occupied()
}

// occupied reports whether the interface runs an XDP program.
func (r *Report) occupied() bool { return r.Interface != nil && r.Interface.Program != nil }
