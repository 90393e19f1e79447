// Package lost has the kernel's data about the packets that it drops: the names of drop reasons and
// functions, which of these mean a loss, and the kernel's own counters of losses, which need no
// program: those of protocols and conntrack in /proc/net, of interfaces and of their queues.
package lost

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf/btf"

	"github.com/xdpcap/xdpcap/internal/message"
)

// A Reason is a number of the kernel's enum skb_drop_reason. The upper 16 bits are the subsystem
// that declares it, 0 for the core. Kernel versions have different numbers for the same name.
type Reason uint32

// subsystem returns the number of the subsystem that declares the reason.
func (r Reason) subsystem() uint32 { return uint32(r) >> 16 }

// Reasons are the names of the running kernel's reasons.
type Reasons map[Reason]string

const (
	reasonPrefix    = "SKB_DROP_REASON_"
	subsystemPrefix = "SKB_DROP_REASON_SUBSYS_"
)

// A vocabulary is the enum in which a subsystem declares its reasons, and the module that contains
// it, "" for the kernel itself.
type vocabulary struct {
	subsystem, module, enum, prefix string
}

// vocabularies are the enums of include/net/dropreason.h in Linux 6.4 to 7.0. Before 7.0 the core's
// enum had the reasons of queues. Their names keep the prefix QDISC_ that they have there.
var vocabularies = []vocabulary{
	{"MAC80211_UNUSABLE", "mac80211", "mac80211_drop_reason", "RX_DROP_U_"},
	{"MAC80211_MONITOR", "mac80211", "mac80211_drop_reason", "RX_DROP_M_"},
	{"OPENVSWITCH", "openvswitch", "ovs_drop_reason", "OVS_DROP_"},
	{"QDISC", "", "qdisc_drop_reason", ""},
}

// KernelReasons reads the names from the BTF of the kernel and of its modules. The result is empty
// on kernels before 5.17.
func KernelReasons(types *btf.Cache) (Reasons, error) {
	spec, err := types.Kernel()
	if err != nil {
		return nil, err
	}
	return reasonsOf(spec, types.Module)
}

// reasonsOf reads the names from the kernel's BTF, and from that of modules, which moduleOf opens.
func reasonsOf(spec *btf.Spec, moduleOf func(name string) (*btf.Spec, error)) (Reasons, error) {
	names := make(Reasons)
	if err := names.addCore(spec); err != nil {
		return nil, err
	}
	var subsystems *btf.Enum
	if err := spec.TypeByName("skb_drop_reason_subsys", &subsystems); errors.Is(err, btf.ErrNotFound) {
		return names, nil // before 6.4
	} else if err != nil {
		return nil, fmt.Errorf("read the subsystems of drop reasons: %w", err)
	}
	for _, v := range vocabularies {
		module := spec
		if v.module != "" {
			var err error
			if module, err = moduleOf(v.module); err != nil {
				continue // it is not loaded, so it drops no packets
			}
		}
		for _, s := range subsystems.Values {
			if s.Name == subsystemPrefix+v.subsystem {
				names.addSubsystem(module, v, uint32(s.Value))
			}
		}
	}
	return names, nil
}

// addCore adds the core's reasons, if the kernel has any.
func (n Reasons) addCore(spec *btf.Spec) error {
	var declared *btf.Enum
	if err := spec.TypeByName("skb_drop_reason", &declared); errors.Is(err, btf.ErrNotFound) {
		return nil
	} else if err != nil {
		return fmt.Errorf("read enum skb_drop_reason: %w", err)
	}
	for _, v := range declared.Values {
		n[Reason(v.Value)] = strings.TrimPrefix(v.Name, reasonPrefix)
	}
	return nil
}

// addSubsystem adds the values of an enum that belong to a subsystem.
func (n Reasons) addSubsystem(spec *btf.Spec, v vocabulary, subsystem uint32) {
	var declared *btf.Enum
	if spec.TypeByName(v.enum, &declared) != nil {
		return
	}
	for _, value := range declared.Values {
		if r := Reason(value.Value); r.subsystem() == subsystem {
			n[r] = strings.TrimPrefix(strings.TrimLeft(value.Name, "_"), v.prefix)
		}
	}
}

// Name returns the kernel's name of a reason, without the common prefix: NO_SOCKET. For a reason
// without a name it returns "reason 5", or "reason 5 of subsystem 2".
func (n Reasons) Name(r Reason) string {
	if name, ok := n[r]; ok {
		return name
	}
	if s := r.subsystem(); s != 0 {
		return fmt.Sprintf("reason %d of subsystem %d", uint32(r)&0xffff, s)
	}
	return fmt.Sprintf("reason %d", uint32(r))
}

// Names returns the names of the core's reasons in alphabetical order, without those of subsystems.
func (n Reasons) Names() (names []string) {
	for r, name := range n {
		if r.subsystem() == 0 && r != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// ParseAll returns the reasons of several names.
func (n Reasons) ParseAll(names []string) (all []Reason, err error) {
	for _, name := range names {
		numbers, err := n.Parse(name)
		if err != nil {
			return nil, err
		}
		all = append(all, numbers...)
	}
	return all, nil
}

// Parse returns the reasons of a name, with or without the kernel's prefix, in lower or upper case.
// These can be several, because subsystems may have reasons of the same name.
func (n Reasons) Parse(name string) (all []Reason, err error) {
	wanted := strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(name)), reasonPrefix)
	for r, known := range n {
		if known == wanted {
			all = append(all, r)
		}
	}
	if len(all) > 0 {
		slices.Sort(all)
		return all, nil
	}
	if near := message.DidYouMean("", wanted, n.Names()); near != "" {
		return nil, fmt.Errorf("reason %q: this kernel has none of that name%s", name, near)
	}
	return nil, fmt.Errorf("reason %q: this kernel has none of that name; the kernel's include/net/dropreason-core.h has them, without SKB_DROP_REASON_", name)
}
