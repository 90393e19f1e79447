package probe

import (
	"github.com/cilium/ebpf"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/tc"
)

// A TCHook has a program at tc, where an interface passes packets to the stack (ingress), or gets
// them from it (egress). The program runs before the others there and does not affect packets.
type TCHook struct {
	ownHook
	name string // of the program
	at   tc.Direction
	own  Constants // of this program alone; nil unless hashes are requested
}

func newEgressHook(p Point) *TCHook {
	return &TCHook{newOwnHook(p.Interface, p.Sent, packet.Egress), kernel.SamplerProgXdpcapEgress, tc.Egress, nil}
}

// newIngressHook returns a hook for the packets that an interface has received, including those
// that tc has redirected to it. The kernel has merged these packets into larger ones (GRO), and
// removed VLAN tags, which the program puts into its records.
func newIngressHook(p Point, o *Options) *TCHook {
	h := &TCHook{newOwnHook(p.Interface, p.Filter, packet.Ingress), kernel.SamplerProgXdpcapIngress, tc.Ingress, nil}
	if o.Hash {
		h.own = cardRequest{hash: true}.constants()
	}
	return h
}

// Card returns the kind of the packets' hashes, if they are requested.
func (h *TCHook) Card() Card {
	if h.own == nil {
		return Card{}
	}
	return Card{Hashes: hashKind(&h.ifi)}
}

func (h *TCHook) Load(k *Sampler, slot, number uint32) (err error) {
	with, err := k.companions(&h.Source)
	if err != nil {
		return err
	}
	p, err := h.load(k, Loading{Slot: slot, Number: number, filter: h.filter, companions: with})
	if err != nil {
		return err
	}
	return h.addProgram(p)
}

func (h *TCHook) load(k *Sampler, l Loading) (*ebpf.Program, error) {
	l.Name, l.Own = h.name, h.own
	p, err := k.Load(l)
	if err != nil {
		return nil, support.ExplainLoad("load the sampling program", err)
	}
	return p, nil
}

// Prepare implements Exchanger. A session that exchanges filters has no companions.
func (h *TCHook) Prepare(k *Sampler, _ *Options, p Point, slot, number uint32) (err error) {
	filter := p.Filter
	if h.at == tc.Egress {
		filter = p.Sent
	}
	h.next, err = h.load(k, Loading{Slot: slot, Number: number, filter: filter})
	return err
}

func (h *TCHook) Attach() (err error) {
	if h.attached, err = attach.TC(h.ifi, h.Programs[0], h.at); err != nil {
		return err
	}
	h.Source.Attached, h.Source.NetAdmin = h.attached.How, h.attached.NeedsNetAdmin
	return nil
}
