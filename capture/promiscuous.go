package capture

import (
	"errors"
	"fmt"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// Promiscuity says whether an interface is set to promiscuous mode while a session captures there.
// In that mode it also accepts packets for other MAC addresses.
type Promiscuity int

const (
	PromiscuousAuto Promiscuity = iota // with Sink, if this process has the right
	PromiscuousOn                      // always; an error if this process has no right
	PromiscuousOff                     // never
)

// setPromiscuous sets the session's interfaces to promiscuous mode if the options ask for it.
func (s *Session) setPromiscuous() error {
	o := &s.options
	if o.Promiscuous == PromiscuousOff || o.Promiscuous == PromiscuousAuto && !o.Sink {
		return nil
	}
	set := make(map[int]bool)
	for _, src := range s.roster.sources() {
		if set[src.Index] {
			continue
		}
		set[src.Index] = true
		p, err := xdp.SetPromiscuous(src.Index)
		switch {
		case err == nil:
			s.promiscuous = append(s.promiscuous, p)
		case o.Promiscuous == PromiscuousOn:
			return support.ExplainPromiscuous("set "+src.Name+" to promiscuous mode", err)
		default:
			s.notice(support.ExplainPromiscuous(src.Name+" may ignore packets for other MAC addresses: set it to promiscuous mode", err))
			return nil // the others have the same error
		}
	}
	return nil
}

// unsetPromiscuous undoes setPromiscuous.
func (s *Session) unsetPromiscuous() error {
	var errs []error
	for _, p := range s.promiscuous {
		errs = append(errs, p.Close())
	}
	s.promiscuous = nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("leave promiscuous mode: %w", err)
	}
	return nil
}
