package drops

import (
	"maps"

	"github.com/xdpcap/xdpcap/internal/culprit"
	"github.com/xdpcap/xdpcap/internal/lost"
)

// Evidence is what speaks against one culprit.
type Evidence = culprit.Evidence

// addEvidence adds who has lost packets. program is that of the interface's XDP hook, "" = unknown.
func (r *reading) addEvidence(m *Meter, program string) {
	rose := m.ipsec.Rose()
	maps.Copy(rose, r.tracked)
	type direction struct {
		reason, function string
		egress           bool
	}
	of, nftApart := func(l Loss) direction { return direction{l.Reason, l.Where, l.Stage == Egress} }, false
	all := make(map[direction]uint64)
	for l, tally := range r.Losses {
		nftApart = nftApart || l.Where == culprit.NFTFunction
		if l.Netns == 0 {
			all[of(l)] += tally.Packets
		}
	}
	for l, tally := range r.Losses {
		if l.Netns != 0 && l.Stage != XDP { // rules and sockets of other namespaces cannot be read, maps of XDP programs can
			continue
		}
		known := culprit.Loss{
			Reason: l.Reason, Function: l.Where, Device: l.Device, Egress: l.Stage == Egress, Example: r.examples[l],
			Packets: tally.Packets, All: all[of(l)], NFTApart: nftApart,
		}
		switch l.Device {
		case "":
			known.Device = m.Interface()
		case "?":
			known.Device = ""
		}
		if l.Stage == XDP {
			known.Program = program
		}
		if evidence := m.culprits.Find(known, rose); evidence != nil {
			r.Evidence[l] = evidence
		}
	}
}

// Conntrack is what the table of connections of this network namespace has dropped since Open. It
// is in no sum, because these packets are counted elsewhere: they are lost for the reason
// NETFILTER_DROP. It is zero if the kernel lacks CONFIG_NF_CONNTRACK_PROCFS.
type Conntrack struct {
	Drop         uint64 `json:"drop"`          // packets
	InsertFailed uint64 `json:"insert_failed"` // those of them whose connection clashed with another one: NAT has no free port
}

func conntrackOf(rose lost.Counters) Conntrack {
	return Conntrack{Drop: rose["conntrack drop"], InsertFailed: rose["conntrack insert_failed"]}
}
