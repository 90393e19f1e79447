package probe

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/capture/internal/kernel"
	"github.com/xdpcap/xdpcap/capture/packet"
	"github.com/xdpcap/xdpcap/internal/message"
	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// A cardRequest is the metadata about each packet that the sampling program requests from the card.
type cardRequest struct{ time, hash, tag bool }

func (q cardRequest) isNone() bool { return q == cardRequest{} }

// names returns the requested metadata, as package support names it.
func (q cardRequest) names() (names []string) {
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
func (q cardRequest) constants() Constants {
	return Constants{
		kernel.SamplerVarAskingTime: q.time,
		kernel.SamplerVarAskingHash: q.hash,
		kernel.SamplerVarAskingTag:  q.tag,
	}
}

// bind binds a program to its device, because only a bound program may call the device's driver. A
// bound program runs nowhere else, not even by BPF_PROG_RUN.
func bind(spec *ebpf.ProgramSpec, ifindex int) {
	spec.Ifindex = uint32(ifindex)
	spec.Flags |= unix.BPF_F_XDP_DEV_BOUND_ONLY
}

// cardRequest chooses the metadata that the program at the XDP hook of an interface requests from
// the card. If the card cannot give the requested time stamps, that is an error; if it cannot give
// VLAN tags, a notice. The hash is included whenever the program is bound, because reading a card's
// hash costs next to nothing.
func (o *Options) cardRequest(p Point) (q cardRequest, err error) {
	if q.time = o.Stamp.IsCards(); q.time {
		if err := o.whyNoStamps(p); err != nil {
			return cardRequest{}, err
		}
	}
	if o.VLANRestore != VLANRestoreOff {
		err := o.whyNoMetadata(p, support.MetadataVLAN)
		if q.tag = err == nil; err != nil && o.VLANRestore == VLANRestoreOn {
			o.Notice(fmt.Errorf("VLAN tags that the card of %s has stripped are not put back: %w", p.Interface.Name, err))
		}
	}
	if o.Hash || !q.isNone() && p.Interface.IsHardware() {
		q.hash = o.whyNoMetadata(p, support.MetadataHash) == nil
	}
	return q, nil
}

// whyNoMetadata returns why the program cannot request metadata there, or nil.
func (o *Options) whyNoMetadata(p Point, metadata string) error {
	switch {
	case o.HookMap != "":
		return fmt.Errorf("programs in a hook map cannot ask the card: only xdpcap's own program at the interface's XDP hook may")
	case o.isTraced(p):
		return fmt.Errorf("packets of %s are captured by tracing a program: only xdpcap's own program may ask the card", p.Interface.Name)
	case o.Mode == packet.Generic:
		return fmt.Errorf("programs in generic mode cannot ask the driver of %s: only programs in native mode can", p.Interface.Name)
	}
	if err := support.CheckBTF(); err != nil {
		return err
	}
	offered := support.Metadata(p.Interface.Index)
	switch {
	case offered == nil:
		return fmt.Errorf("this kernel does not say what the driver of %s gives XDP programs: Linux 6.7 does, and 6.8 for VLAN tags", p.Interface.Name)
	case slices.Contains(offered, metadata):
		return nil
	case len(offered) == 0:
		return fmt.Errorf("driver %s of %s gives XDP programs no metadata from the card", p.Interface.Driver, p.Interface.Name)
	}
	return fmt.Errorf("driver %s of %s gives XDP programs no %s, only %s", p.Interface.Driver, p.Interface.Name, metadata, strings.Join(offered, ", "))
}

// whyNoStamps returns why packets cannot have the requested stamps.
func (o *Options) whyNoStamps(p Point) error {
	if err := o.whyNoMetadata(p, support.MetadataTimestamp); err != nil {
		return message.Errorf(ErrNoStamp, "time stamps of the type %v: %w", o.Stamp, err)
	}
	if _, ok := p.Interface.PTPClock(); o.Stamp == AdapterStamp && !ok {
		return message.Errorf(ErrNoClock, "time stamps of the type %v: driver %s of %s has no PTP clock to compare with the system's", o.Stamp, p.Interface.Driver, p.Interface.Name)
	}
	return nil
}

// hashKind returns the kind of an interface's hashes.
func hashKind(ifi *xdp.Interface) packet.HashKind {
	switch {
	case !ifi.IsHardware():
		return packet.SoftwareHash
	case ifi.HasToeplitz():
		return packet.ToeplitzHash
	}
	return packet.CardHash
}

// A Card is the data about a source's card that a session needs. The zero value is for sources
// without metadata from their card.
type Card struct {
	Stamps *CardStamps
	Hashes packet.HashKind // the kind of the packets' hashes, if there are any
}

// Finish turns the card's raw time and hash of a packet into Facts.CardTime and Facts.HashKind. The
// caller has already set Time; offset is the difference of Time's clock to CLOCK_MONOTONIC. It
// returns false for a packet that should have the card's stamp and has none.
func (c *Card) Finish(f *packet.Facts, offset int64) bool {
	if f.HashKind != packet.NoHash {
		f.HashKind = c.Hashes
	}
	if c.Stamps == nil {
		f.CardTime = 0
		return true
	}
	f.CardTime = c.Stamps.convert(uint64(f.CardTime), f.Time, offset)
	return f.CardTime != 0
}
