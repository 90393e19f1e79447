package drops

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// A Reason is a number of the kernel's enum skb_drop_reason. The upper 16 bits name the subsystem
// that declares it, 0 for the core. The numbers differ between kernels; the names hardly do.
type Reason uint32

// subsystem is the number of what declares the reason.
func (r Reason) subsystem() uint32 { return uint32(r) >> 16 }

// reasons are the names of the running kernel's reasons.
type reasons map[Reason]string

const (
	reasonPrefix    = "SKB_DROP_REASON_"
	subsystemPrefix = "SKB_DROP_REASON_SUBSYS_"
)

// A vocabulary is the enum in which a subsystem declares its reasons, and the module that has it.
type vocabulary struct {
	subsystem, module, enum, prefix string
}

// vocabularies are those of include/net/dropreason.h in Linux 6.4 to 6.18.
var vocabularies = []vocabulary{
	{"MAC80211_UNUSABLE", "mac80211", "mac80211_drop_reason", "RX_DROP_U_"},
	{"MAC80211_MONITOR", "mac80211", "mac80211_drop_reason", "RX_DROP_M_"},
	{"OPENVSWITCH", "openvswitch", "ovs_drop_reason", "OVS_DROP_"},
}

// kernelReasons reads the names from the kernel's BTF and that of its modules. A kernel before 5.17
// has none.
func kernelReasons(types *btf.Cache) (reasons, error) {
	spec, err := types.Kernel()
	if err != nil {
		return nil, err
	}
	names := make(reasons)
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
		module, err := types.Module(v.module)
		if err != nil {
			continue // it is not loaded, so it drops nothing
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
func (n reasons) add(spec *btf.Spec, enum, prefix string) error {
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

// addOf adds the values of a module's enum that belong to this subsystem.
func (n reasons) addOf(spec *btf.Spec, v vocabulary, subsystem uint32) {
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

// name returns a reason as the kernel declares it, without the common prefix: NO_SOCKET. Reasons
// that have no name are numbers with their subsystem's.
func (n reasons) name(r Reason) string {
	if name, ok := n[r]; ok {
		return name
	}
	if s := r.subsystem(); s != 0 {
		return fmt.Sprintf("reason %d of subsystem %d", uint32(r)&0xffff, s)
	}
	return fmt.Sprintf("reason %d", uint32(r))
}
