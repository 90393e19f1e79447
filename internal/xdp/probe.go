package xdp

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// A Report is what kernel, driver and user allow: see [Probe].
type Report struct {
	// CanCapture: capture would work, on the interface if one was asked for, be it beside the program
	// that runs there.
	CanCapture bool         `json:"can_capture"`
	Kernel     Kernel       `json:"kernel"`
	Privileges Privileges   `json:"privileges"`
	Interface  *NetworkCard `json:"interface"` // nil = none was asked for
	Features   Checks       `json:"features"`  // of xdpcap; keys: see features.go
}

// ProbeOptions say what to look at.
type ProbeOptions struct {
	Interface string // "" = only kernel and user
	Ring      int    // bytes that a capture locks in memory per CPU
}

// Probe finds out what can be had here, by trying where that disturbs nobody: it loads programs, but
// attaches nothing to an interface, and to no program but its own. Nothing stays behind. It works
// without privileges, too: what it cannot try is Unknown then. It must not run concurrently with a
// change of the process's capabilities: results are cached.
func Probe(o ProbeOptions) (*Report, error) {
	r := &Report{}
	if o.Interface != "" {
		ifi, err := InterfaceByName(o.Interface)
		if err != nil {
			return nil, err
		}
		r.Interface = inspect(ifi)
	}
	var err error
	if r.Kernel, err = probeKernel(); err != nil {
		return nil, err
	}
	if r.Privileges, err = privileges(); err != nil {
		return nil, err
	}
	r.Features = r.features(o.Ring)
	for _, key := range []string{FeatureNative, FeatureGeneric, FeatureBeside} {
		r.CanCapture = r.CanCapture || r.Features.Get(key).Answer == Yes && (key != FeatureBeside || r.occupied())
	}
	return r, nil
}

func (r *Report) occupied() bool { return r.Interface != nil && r.Interface.Program != nil }

// A NetworkCard is what matters of an interface to XDP.
type NetworkCard struct {
	Name    string           `json:"name"`
	Driver  string           `json:"driver"` // "" = it has none to name
	Type    string           `json:"type"`   // link-layer type: "ether", ...
	Up      bool             `json:"up"`
	MTU     int              `json:"mtu"`       // bytes
	Queues  int              `json:"rx_queues"` // 0 = unknown
	Native  Check            `json:"native_xdp"`
	Frags   Check            `json:"xdp_frags"`
	LRO     *bool            `json:"lro"`             // nil = unknown
	VLAN    *bool            `json:"rx_vlan_offload"` // nil = unknown
	Kfuncs  []string         `json:"metadata_kfuncs"` // nil = unknown
	Program *AttachedProgram `json:"program"`         // nil = none
}

// An AttachedProgram is the XDP program of an interface.
type AttachedProgram struct {
	ID        uint32 `json:"id"`
	Name      string `json:"name"` // "" = we may not ask
	Mode      string `json:"mode"` // native, generic or offload
	Traceable Check  `json:"traceable"`
}

func inspect(ifi Interface) *NetworkCard {
	c := &NetworkCard{Name: ifi.Name, Driver: ifi.Driver, Type: ifi.Type, Up: ifi.Up, MTU: ifi.MTU}
	if e, err := openEthtool(ifi.Name); err == nil {
		c.LRO, c.VLAN = e.offloads()
		c.Queues = e.rxQueues()
		e.close()
	}
	if c.Queues == 0 {
		c.Queues = queueDirs(ifi.Name)
	}
	told := askNetdev(ifi.Index)
	c.Kfuncs = told.kfuncs()
	c.Native = nativeXDP(ifi, told)
	c.Frags = fragments(ifi, told)
	if len(ifi.Programs) > 0 {
		p := ifi.Programs[0]
		c.Program = &AttachedProgram{ID: p.ID, Name: p.Name, Mode: ifi.Mode.String()}
		c.Program.Traceable = c.traceable(ifi.Mode)
	}
	return c
}

func (c *NetworkCard) traceable(mode Mode) Check {
	if mode == Offload {
		return Check{"traceable", No, "it runs on the network card, out of the kernel's sight", ""}
	}
	return tracingCheck("traceable", CheckTarget(c.Program.ID))
}

const tellsSince = "the kernel tells since 6.3"

// nativeXDP does not try: to attach a program resets the queues of many drivers.
func nativeXDP(ifi Interface, told netdevFeatures) Check {
	const key = "native_xdp"
	switch {
	case len(ifi.Programs) > 0 && ifi.Mode == Native:
		return Check{key, Yes, "a program runs in native mode now", ""}
	case told.xdp == nil:
		return Check{key, Unknown, tellsSince + "; a capture tries native mode first, then generic", ""}
	case *told.xdp&netdevXDPActBasic != 0:
		return Check{key, Yes, "the driver reports it", ""}
	case ifi.Driver == "veth":
		return Check{key, No, "the peer has more tx queues than this has rx queues, or it has no peer",
			"ethtool -L " + ifi.Name + " rx N"}
	}
	return Check{key, No, "the driver reports none", "generic mode works with every driver, at a lower rate"}
}

// oneBuffer is an MTU that fits every driver's buffer beside what XDP needs there, of one page.
const oneBuffer = 3000

func fragments(ifi Interface, told netdevFeatures) Check {
	const key = "xdp_frags"
	switch {
	case told.xdp == nil:
		return Check{key, Unknown, tellsSince, ""}
	case *told.xdp&netdevXDPActRxSG != 0:
		return Check{key, Yes, "packets in several buffers reach XDP", ""}
	case ifi.MTU > oneBuffer:
		return Check{key, No, fmt.Sprintf("the driver may refuse native mode with an MTU of %d", ifi.MTU),
			"ip link set dev " + ifi.Name + " mtu 1500, or --xdp-mode generic"}
	}
	return Check{key, No, "of no matter with this MTU", ""}
}

// queueDirs counts what sysfs shows: of the namespace that /sys was mounted in, which may be another.
func queueDirs(name string) (n int) {
	entries, err := os.ReadDir("/sys/class/net/" + name + "/queues")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "rx-") {
			n++
		}
	}
	return n
}

// unaccounted is what perf lets every user lock per CPU beyond its limit, in bytes.
func unaccounted() uint64 {
	set, err := os.ReadFile("/proc/sys/kernel/perf_event_mlock_kb")
	if err != nil {
		return 0
	}
	kib, err := strconv.ParseUint(strings.TrimSpace(string(set)), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10 * uint64(runtime.NumCPU())
}
