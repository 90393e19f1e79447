package probe

import (
	"errors"
	"fmt"
	"io"

	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Promiscuous has one closer for each interface that was set to promiscuous mode.
type Promiscuous []io.Closer

// SetPromiscuous sets the interfaces of sources to promiscuous mode. A refusal is an error if the
// mode is needed, and otherwise a notice. The caller closes the returned value, even after an
// error.
func SetPromiscuous(sources []packet.Source, needed bool, notice func(error)) (all Promiscuous, err error) {
	set := make(map[int]bool)
	for _, src := range sources {
		if set[src.Index] {
			continue
		}
		set[src.Index] = true
		p, err := xdp.SetPromiscuous(src.Index)
		switch {
		case err == nil:
			all = append(all, p)
		case needed:
			return all, support.ExplainPromiscuous("set "+src.Name+" to promiscuous mode", err)
		default:
			notice(support.ExplainPromiscuous(src.Name+" may ignore packets for other MAC addresses: set it to promiscuous mode", err))
			return all, nil // the others have the same error
		}
	}
	return all, nil
}

// Close undoes SetPromiscuous. It may be called again.
func (p *Promiscuous) Close() error {
	var errs []error
	for _, c := range *p {
		errs = append(errs, c.Close())
	}
	*p = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("leave promiscuous mode: %w", err)
	}
	return nil
}
