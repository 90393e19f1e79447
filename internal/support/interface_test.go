package support

import (
	"testing"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

func reported(bits uint64) netdevFeatures { return netdevFeatures{xdp: &bits} }

func TestNativeXDP(t *testing.T) {
	t.Parallel()
	const key = "native_xdp"
	runs := []xdp.Program{{ID: 7}}
	for _, test := range []struct {
		name     string
		ifi      xdp.Interface
		reported netdevFeatures
		want     Check
	}{
		{"runs", xdp.Interface{Programs: runs, Mode: packet.Native}, netdevFeatures{},
			Check{Key: key, Answer: Yes, Reason: "a program runs in native mode now"}},
		{"runs in another mode", xdp.Interface{Programs: runs, Mode: packet.Generic}, reported(0),
			Check{Key: key, Answer: No, Reason: "the driver reports none", Kind: errNoNative}},
		{"an old kernel", xdp.Interface{}, netdevFeatures{},
			unknown(key, "the kernel tells since 6.3; a capture takes it if the driver has it")},
		{"reported", xdp.Interface{Driver: "tun"}, reported(netdevXDPActBasic), Check{Key: key, Answer: Yes, Reason: "the driver reports it"}},
		{"of a pair", xdp.Interface{Driver: "veth"}, reported(netdevXDPActBasic), Check{Key: key, Answer: Yes,
			Reason: "the driver reports it; while a program runs here, the other end of the pair sends TCP much slower; --at tc avoids that"}},
		{"of a card", xdp.Interface{Driver: "ice"}, reported(netdevXDPActBasic), Check{Key: key, Answer: Yes,
			Reason: "the driver reports it; to attach a program may reset the card's queues, and let the link go down for a second; --at tc attaches nothing in the driver"}},
		{"veth", xdp.Interface{Name: "veth0", Driver: "veth"}, reported(netdevXDPActRxSG),
			Check{Key: key, Answer: No, Reason: "the peer has more tx queues than this has rx queues, or it has no peer", Remedy: "ethtool -L veth0 rx N", Kind: errNoNative}},
	} {
		expect(t, test.name, test.want, nativeXDP(test.ifi, test.reported))
	}
}

func TestFragments(t *testing.T) {
	t.Parallel()
	const key = "xdp_frags"
	for _, test := range []struct {
		name     string
		mtu      int
		reported netdevFeatures
		want     Check
	}{
		{"an old kernel", 3000, netdevFeatures{}, unknown(key, "the kernel tells since 6.3")},
		{"an old kernel, and needed", 9000, netdevFeatures{}, Check{key, Unknown,
			"the kernel tells since 6.3; the driver may refuse native mode with an MTU of 9000", "ip link set dev eth0 mtu 1500", ErrLargeMTU}},
		{"reported", 9000, reported(netdevXDPActRxSG), Check{Key: key, Answer: Yes, Reason: "packets in several buffers reach XDP"}},
		{"needed", 3001, reported(netdevXDPActBasic), Check{key, No, "the driver may refuse native mode with an MTU of 3001",
			"ip link set dev eth0 mtu 1500", ErrLargeMTU}},
		{"not needed", 3000, reported(netdevXDPActBasic), no(key, "not needed with this MTU", "")},
	} {
		expect(t, test.name, test.want, checkFragments(xdp.Interface{Name: "eth0", MTU: test.mtu}, test.reported))
	}
}

func TestKfuncs(t *testing.T) {
	t.Parallel()
	some, none := uint64(5), uint64(0)
	for _, test := range []struct {
		name string
		bits *uint64
		want []string
	}{
		{"unknown", nil, nil},
		{"none", &none, []string{}},
		{"some", &some, []string{"timestamp", "vlan_tag"}},
	} {
		expect(t, test.name, test.want, netdevFeatures{metadata: test.bits}.kfuncs())
	}
}

func TestTraceableOffload(t *testing.T) {
	t.Parallel()
	want := no("traceable", "it runs on the network card, out of the kernel's sight", "")
	expect(t, "offload", want, checkTraceable(xdp.Program{ID: 7}, packet.Offload))
}
