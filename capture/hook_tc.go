package capture

import (
	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/tc"
)

// A tcHook is a program where an interface hands packets to the stack, or gets them from it. It
// runs before the other programs there and does not affect packets.
type tcHook struct {
	interfaceHook
	name string // of the program
	at   tc.Direction
	own  constants // set in this program only; nil unless hashes are asked for
}

func newEgressHook(p point) *tcHook {
	return &tcHook{newInterfaceHook(p.ifi, p.sent, Egress), kernel.SamplerProgXdpcapEgress, tc.Egress, nil}
}

// newIngressHook returns a hook for what an interface has received, also of what tc has redirected
// to it. The kernel has merged these packets into larger ones (GRO), and removed VLAN tags, which
// the program puts into its records.
func newIngressHook(p point, o *Options) *tcHook {
	h := &tcHook{newInterfaceHook(p.ifi, p.filter, Ingress), kernel.SamplerProgXdpcapIngress, tc.Ingress, nil}
	if o.Hash {
		h.own = question{hash: true}.constants()
	}
	return h
}

// card returns the kind of the packets' hashes, if they are asked for.
func (h *tcHook) card() card {
	if h.own == nil {
		return card{}
	}
	return card{hashes: hashKind(&h.ifi)}
}

func (h *tcHook) load(k *sampler, first, index uint32) error {
	with, err := k.companions(&h.source)
	if err != nil {
		return err
	}
	return h.add(k, "load the sampling program", loading{name: h.name, first: first, index: index, with: with, own: h.own})
}

func (h *tcHook) attach() (err error) {
	if h.attached, err = attach.TC(h.ifi, h.programs[0], h.at); err != nil {
		return err
	}
	h.source.Attached, h.source.NetAdmin = h.attached.How, h.attached.NeedsNetAdmin
	return nil
}
