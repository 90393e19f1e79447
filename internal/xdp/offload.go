package xdp

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The kernel's names of features, netdev_features_strings of net/ethtool/common.c. `ethtool -k`
// prints other names for them.
const (
	featureLRO        = "rx-lro"
	featureGRO        = "rx-gro-hw"
	featureVLANFilter = "rx-vlan-filter"
)

// joining are the features by which a card or its driver joins packets before the XDP hook.
// Attaching a program switches them off, and detaching it does not switch them on again.
var joining = []string{featureLRO, featureGRO}

// ethtoolFeatures is ETH_SS_FEATURES of include/uapi/linux/ethtool.h.
const ethtoolFeatures = 4

// features returns whether each feature of the interface is on, by its name; nil = unknown.
func (e ethtool) features() map[string]bool {
	names, err := e.featureNames()
	// struct ethtool_gfeatures: a head of two words, then four words for every 32 features. Their
	// bits are the features that are available, requested, active, and never changed.
	blocks := (len(names) + 31) / 32
	answer := make([]uint32, 2+4*blocks)
	answer[0], answer[1] = unix.ETHTOOL_GFEATURES, uint32(blocks)
	if err != nil || !e.fill(unsafe.Pointer(&answer[0])) {
		return nil
	}
	on := make(map[string]bool, len(names))
	for i, name := range names {
		on[name] = answer[2+4*(i/32)+2]>>(i%32)&1 != 0
	}
	return on
}

// set switches a feature on or off.
func (e ethtool) set(feature string, on bool) error {
	names, err := e.featureNames()
	if err != nil {
		return err
	}
	blocks := (len(names) + 31) / 32
	for i, name := range names {
		if name != feature {
			continue
		}
		// struct ethtool_sfeatures: a head of two words, then two words for every 32 features: a
		// mask of the features to change, and their new values.
		request := make([]uint32, 2+2*blocks)
		request[0], request[1] = unix.ETHTOOL_SFEATURES, uint32(blocks)
		request[2+2*(i/32)] = 1 << (i % 32)
		if on {
			request[2+2*(i/32)+1] = 1 << (i % 32)
		}
		if err := e.request(unsafe.Pointer(&request[0])); err != nil {
			return err
		}
		if e.features()[feature] != on { // the kernel returns no error for that
			return errors.New("the driver leaves it as it is")
		}
		return nil
	}
	return unix.EOPNOTSUPP
}

// featureNames returns the names of the kernel's features, in the order of their numbers.
func (e ethtool) featureNames() ([]string, error) {
	count := struct { // ethtool_sset_info
		cmd, _ uint32
		mask   uint64
		n      uint32
		_      uint32
	}{cmd: unix.ETHTOOL_GSSET_INFO, mask: 1 << ethtoolFeatures}
	if err := e.request(unsafe.Pointer(&count)); err != nil {
		return nil, err
	}
	if count.n == 0 || count.n > ethtoolMaxCounters {
		return nil, unix.EOPNOTSUPP
	}
	return e.names(ethtoolFeatures, count.n)
}

// FiltersVLANs reports whether the network card drops frames of VLANs that have no interface on
// this machine, before XDP, except in promiscuous mode; nil = the driver does not report it.
func (ifi *Interface) FiltersVLANs() *bool {
	e, err := openEthtool(ifi.Name)
	if err != nil {
		return nil
	}
	defer e.close()
	features := e.features()
	if features == nil {
		return nil
	}
	on := features[featureVLANFilter]
	return &on
}

// A Joining is the joining features that were on before a program was attached. Close switches them
// on again. Any thread may call its methods.
type Joining struct {
	socket  ethtool         // in the interface's network namespace
	devices []joiningDevice // the interface, and those below it
}

// A joiningDevice is an interface with some of its features.
type joiningDevice struct {
	name     string
	features []string
}

// NoteJoining records the joining features that are on, before a program is attached: at the
// interface and at the devices below it, where the kernel also switches LRO off. nil = none is on.
func NoteJoining(ifi Interface) *Joining { return noteFeatures(ifi, joining...) }

// noteFeatures is NoteJoining for any features.
func noteFeatures(ifi Interface, features ...string) *Joining {
	socket, err := openEthtool(ifi.Name)
	if err != nil {
		return nil
	}
	j := &Joining{socket: socket}
	for _, d := range append([]device{{name: ifi.Name}}, ifi.below()...) {
		on := ethtool{socket.fd, d.name}.features()
		areOn := slices.DeleteFunc(slices.Clone(features), func(feature string) bool { return !on[feature] })
		if len(areOn) > 0 {
			j.devices = append(j.devices, joiningDevice{d.name, areOn})
		}
	}
	if j.devices == nil {
		socket.close()
		return nil
	}
	return j
}

// Lost keeps only the features that are off now. It returns nil if none is.
func (j *Joining) Lost() *Joining {
	if j == nil {
		return nil
	}
	var lost []joiningDevice
	for _, d := range j.devices {
		on := ethtool{j.socket.fd, d.name}.features()
		off := slices.DeleteFunc(d.features, func(feature string) bool { return on == nil || on[feature] })
		if len(off) > 0 {
			lost = append(lost, joiningDevice{d.name, off})
		}
	}
	if j.devices = lost; lost == nil {
		j.socket.close()
		return nil
	}
	return j
}

// Close switches the features on again. It needs CAP_NET_ADMIN, and ignores interfaces that are
// gone. A nil Joining may be closed.
func (j *Joining) Close() error {
	if j == nil {
		return nil
	}
	defer j.socket.close()
	var errs []error
	for _, d := range j.devices {
		for _, feature := range d.features {
			err := ethtool{j.socket.fd, d.name}.set(feature, true)
			if err != nil && !errors.Is(err, unix.ENODEV) {
				errs = append(errs, fmt.Errorf("switch %s of %s on again, which attaching an XDP program has switched off: %w: ethtool -K %[2]s %[1]s on", feature, d.name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// String lists the features that were switched off: "rx-lro of eth0".
func (j *Joining) String() string {
	var all []string
	for _, d := range j.devices {
		all = append(all, strings.Join(d.features, " and ")+" of "+d.name)
	}
	return strings.Join(all, ", ")
}

// below returns the devices of this namespace from which the interface gets packets: the ports of a
// bond, the card of a VLAN, and the devices below these.
func (ifi *Interface) below() (below []device) {
	if ifi.IsHardware() || ifi.Driver == "veth" || ifi.Driver == "tun" {
		return nil // there is no device below these, and listing takes time
	}
	all, err := devicesHere()
	if err != nil {
		return nil
	}
	for _, d := range all {
		lower := Interface{Index: d.index}
		if slices.ContainsFunc(lower.above(all), func(u device) bool { return u.index == ifi.Index }) {
			below = append(below, d)
		}
	}
	return below
}
