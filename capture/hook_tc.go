package capture

import (
	"github.com/xdpcap/xdpcap/internal/attach"
	"github.com/xdpcap/xdpcap/internal/tc"
)

// A tcHook is a program where an interface hands packets to the stack, or gets them from it. It
// runs before the other programs there and does not affect packets.
type tcHook struct {
	interfaceHook
	name string // of the program
	at   tc.Direction
}

func newEgressHook(p point) *tcHook {
	return &tcHook{newInterfaceHook(p.ifi, p.sent, Egress), samplerProgSampleEgress, tc.Egress}
}

func (h *tcHook) load(k *sampler, first, index uint32) error {
	with, err := k.companions(&h.source)
	if err != nil {
		return err
	}
	return h.add(k, "load the sampling program", loading{name: h.name, first: first, index: index, with: with})
}

func (h *tcHook) attach() (err error) {
	if h.attached, err = attach.TC(h.ifi, h.programs[0], h.at); err != nil {
		return err
	}
	h.source.Attached, h.source.NetAdmin = h.attached.How, h.attached.NeedsNetAdmin
	return nil
}
