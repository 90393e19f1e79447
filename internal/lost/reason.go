// Package lost has the kernel's data about the packets that it drops: the names of its reasons and
// functions, which of them mean a loss, and the counters of losses that it has without programs.
// These are of protocols and conntrack in /proc/net, of the queues before the stack, of interfaces
// and their receive queues.
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
// that declares it, 0 for the core. The numbers differ between kernels; the names hardly do.
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

// vocabularies are the enums of include/net/dropreason.h in Linux 6.4 to 7.0. Queues have one of
// their own since 7.0, whose names keep their prefix, as they had it among the core's.
var vocabularies = []vocabulary{
	{"MAC80211_UNUSABLE", "mac80211", "mac80211_drop_reason", "RX_DROP_U_"},
	{"MAC80211_MONITOR", "mac80211", "mac80211_drop_reason", "RX_DROP_M_"},
	{"OPENVSWITCH", "openvswitch", "ovs_drop_reason", "OVS_DROP_"},
	{"QDISC", "", "qdisc_drop_reason", ""},
}

// KernelReasons reads the names from the kernel's BTF and that of its modules. Kernels before 5.17
// do not have reasons.
func KernelReasons(types *btf.Cache) (Reasons, error) {
	spec, err := types.Kernel()
	if err != nil {
		return nil, err
	}
	return reasonsOf(spec, types.Module)
}

// reasonsOf reads the names from the kernel's BTF, and that of a module with a function.
func reasonsOf(spec *btf.Spec, moduleOf func(name string) (*btf.Spec, error)) (Reasons, error) {
	names := make(Reasons)
	if err := names.add(spec, "skb_drop_reason", reasonPrefix); err != nil {
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
				names.addOf(module, v, uint32(s.Value))
			}
		}
	}
	return names, nil
}

// add adds the values of an enum of the core. It is not an error if there is no such enum.
func (n Reasons) add(spec *btf.Spec, enum, prefix string) error {
	var declared *btf.Enum
	if err := spec.TypeByName(enum, &declared); errors.Is(err, btf.ErrNotFound) {
		return nil
	} else if err != nil {
		return fmt.Errorf("read enum %s: %w", enum, err)
	}
	for _, v := range declared.Values {
		n[Reason(v.Value)] = strings.TrimPrefix(v.Name, prefix)
	}
	return nil
}

// addOf adds the values of an enum that belong to this subsystem.
func (n Reasons) addOf(spec *btf.Spec, v vocabulary, subsystem uint32) {
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

// Name returns the kernel's name of a reason, without the common prefix: NO_SOCKET. A reason
// without a name becomes its number and its subsystem's.
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
