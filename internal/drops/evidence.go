package drops

import (
	"maps"

	"github.com/xdpcap/xdpcap/internal/culprit"
)

// Evidence names one culprit of a loss.
type Evidence = culprit.Evidence

// A causeKey is the part of a Loss that the packets at all devices have in common.
type causeKey struct {
	reason, function string
	egress           bool
}

func causeKeyOf(l Loss) causeKey { return causeKey{l.Reason, l.Where, l.Stage == Egress} }

// addEvidence adds the culprits of losses. program runs at the interface's XDP hook, "" = unknown.
func (r *reading) addEvidence(m *Meter, program string) {
	rose := m.ipsec.Rose()
	maps.Copy(rose, r.conntrack)
	nftApart := false // see culprit.Loss.NFTApart
	atAllDevices := make(map[causeKey]uint64)
	for l, tally := range r.Losses {
		nftApart = nftApart || l.Where == culprit.NFTFunction
		if l.Netns == 0 {
			atAllDevices[causeKeyOf(l)] += tally.Packets
		}
	}
	for l, tally := range r.Losses {
		if l.Netns != 0 && l.Stage != XDP { // of other namespaces only the maps of XDP programs can be read
			continue
		}
		known := culprit.Loss{
			Reason: l.Reason, Function: l.Where, Device: l.Device, Egress: l.Stage == Egress, Example: r.examples[l],
			Packets: tally.Packets, All: atAllDevices[causeKeyOf(l)], NFTApart: nftApart,
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
