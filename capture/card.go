package capture

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/internal/errkind"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A question is what the sampling program asks the card about each packet.
type question struct{ time, hash, tag bool }

func (q question) isNone() bool { return q == question{} }

// names returns what is asked for, as package support names it.
func (q question) names() (names []string) {
	for _, m := range []struct {
		asked bool
		name  string
	}{{q.time, support.MetadataTimestamp}, {q.hash, support.MetadataHash}, {q.tag, support.MetadataVLAN}} {
		if m.asked {
			names = append(names, m.name)
		}
	}
	return names
}

// constants returns the constants of the program xdpcap_card.
func (q question) constants() constants {
	return constants{
		kernel.SamplerVarAskingTime: q.time,
		kernel.SamplerVarAskingHash: q.hash,
		kernel.SamplerVarAskingTag:  q.tag,
	}
}

// bind binds a program to its device. Only a bound program may ask the device's driver. It runs
// nowhere else, not even by BPF_PROG_RUN.
func bind(spec *ebpf.ProgramSpec, ifindex int) {
	spec.Ifindex = uint32(ifindex)
	spec.Flags |= unix.BPF_F_XDP_DEV_BOUND_ONLY
}

// question chooses what the program at the XDP hook of an interface asks the card for. Requested
// time stamps that the card cannot give are an error; VLAN tags that it cannot give are a notice.
// The hash is included where the program is bound anyway, since reading a card's hash costs next to
// nothing.
func (o *Options) question(p point) (q question, err error) {
	if q.time = o.Stamp.IsCards(); q.time {
		if err := o.lacksStamps(p); err != nil {
			return question{}, err
		}
	}
	if o.VLANRestore != VLANRestoreOff {
		err := o.lacks(p, support.MetadataVLAN)
		if q.tag = err == nil; err != nil && o.VLANRestore == VLANRestoreOn {
			o.notice(fmt.Errorf("VLAN tags that the card of %s has stripped are not put back: %w", p.ifi.Name, err))
		}
	}
	if o.Hash || !q.isNone() && p.ifi.IsHardware() {
		q.hash = o.lacks(p, support.MetadataHash) == nil
	}
	return q, nil
}

// lacks says why the card cannot be asked about packets there, or returns nil.
func (o *Options) lacks(p point, metadata string) error {
	switch {
	case o.HookMap != "":
		return fmt.Errorf("programs in a hook map cannot ask the card: only xdpcap's own program at the interface's XDP hook may")
	case o.isTraced(p):
		return fmt.Errorf("packets of %s are captured by tracing a program: only xdpcap's own program may ask the card", p.ifi.Name)
	case o.Mode == Generic:
		return fmt.Errorf("programs in generic mode cannot ask the driver of %s: only programs in native mode can", p.ifi.Name)
	}
	if err := support.CheckBTF(); err != nil {
		return err
	}
	told := support.Metadata(p.ifi.Index)
	switch {
	case told == nil:
		return fmt.Errorf("this kernel does not say what the driver of %s gives XDP programs: Linux 6.7 does, and 6.8 for VLAN tags", p.ifi.Name)
	case slices.Contains(told, metadata):
		return nil
	case len(told) == 0:
		return fmt.Errorf("driver %s of %s gives XDP programs no metadata from the card", p.ifi.Driver, p.ifi.Name)
	}
	return fmt.Errorf("driver %s of %s gives XDP programs no %s, only %s", p.ifi.Driver, p.ifi.Name, metadata, strings.Join(told, ", "))
}

// lacksStamps says why packets cannot have the requested stamps.
func (o *Options) lacksStamps(p point) error {
	if err := o.lacks(p, support.MetadataTimestamp); err != nil {
		return errkind.Errorf(ErrNoStamp, "time stamps of the type %v: %w", o.Stamp, err)
	}
	if _, ok := p.ifi.PTPClock(); o.Stamp == AdapterStamp && !ok {
		return errkind.Errorf(ErrNoClock, "time stamps of the type %v: driver %s of %s has no PTP clock to compare with the system's", o.Stamp, p.ifi.Driver, p.ifi.Name)
	}
	return nil
}

// hashKind returns the kind of an interface's hashes.
func hashKind(ifi *xdp.Interface) HashKind {
	switch {
	case !ifi.IsHardware():
		return SoftwareHash
	case ifi.HasToeplitz():
		return ToeplitzHash
	}
	return CardHash
}

// A card is what a session needs to know about a source's card. The zero value is for sources that
// do not ask their card.
type card struct {
	stamps *cardStamps
	hashes HashKind // what they are, where there are any
}

// finish turns the card's raw time and hash of a packet into Facts.CardTime and Facts.HashKind. The
// caller has already set Time; offset is the difference of Time's clock to CLOCK_MONOTONIC. It
// returns false for a packet that should have the card's stamp and has none.
func (c *card) finish(f *Facts, offset int64) bool {
	if f.HashKind != NoHash {
		f.HashKind = c.hashes
	}
	if c.stamps == nil {
		f.CardTime = 0
		return true
	}
	f.CardTime = c.stamps.at(uint64(f.CardTime), f.Time, offset)
	return f.CardTime != 0
}

// promiscuous has one closer for each interface that was set to promiscuous mode.
type promiscuous []io.Closer

// setPromiscuous sets the interfaces of sources to promiscuous mode if the options ask for it. The
// caller closes what it returns, even after an error.
func setPromiscuous(o *Options, sources []Source) (all promiscuous, err error) {
	if o.Promiscuous == PromiscuousOff || o.Promiscuous == PromiscuousAuto && !o.Sink {
		return nil, nil
	}
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
		case o.Promiscuous == PromiscuousOn:
			return all, support.ExplainPromiscuous("set "+src.Name+" to promiscuous mode", err)
		default:
			o.notice(support.ExplainPromiscuous(src.Name+" may ignore packets for other MAC addresses: set it to promiscuous mode", err))
			return all, nil // the others have the same error
		}
	}
	return all, nil
}

// close undoes setPromiscuous. It may be called again.
func (p *promiscuous) close() error {
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
