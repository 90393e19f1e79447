package capture

import (
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/tc"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// An egressHook is a program at the egress of an interface. It runs before the other programs there
// and does not affect packets.
type egressHook struct {
	ifi    xdp.Interface
	filter packetFilter

	source   Source
	program  program
	attached *tc.Attachment // nil = not attached
}

func newEgressHook(p point) (*egressHook, error) {
	h := &egressHook{ifi: p.ifi, source: newSource(p.ifi, Egress)}
	var err error
	h.filter, err = p.sent.copied()
	return h, err
}

func (h *egressHook) sources() []Source { return []Source{h.source} }

func (h *egressHook) load(k *sampler, first, index uint32) (err error) {
	with, err := k.companions(&h.source)
	if err != nil {
		return err
	}
	h.program, err = k.load(loading{
		name:   samplerProgSampleEgress,
		filter: h.filter, with: with,
		own: constants{
			samplerVarSource: first,
			samplerVarHook:   index,
		},
	})
	if err != nil {
		return support.ExplainLoad("load the sampling program", err)
	}
	h.source.Sampler, err = h.program.info()
	return err
}

func (h *egressHook) attach() (err error) {
	if h.attached, err = tc.AttachEgress(h.program.Program, h.ifi); err != nil {
		return err
	}
	h.program.link = h.attached
	h.source.Attached, h.source.NetAdmin = h.attached.String(), h.attached.Kind().NeedsNetAdmin()
	return nil
}

func (h *egressHook) check() error { return h.attached.Check() }

func (h *egressHook) detach() error { return h.program.detach() }

func (h *egressHook) close() error { return h.program.close() }
