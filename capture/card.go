package capture

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/xdpcap/xdpcap/internal/support"
	"github.com/xdpcap/xdpcap/internal/xdp"
)

// VLANRestore says whether VLAN tags that a card has taken off are put back into packets at XDP.
// Only the card knows such a tag: its driver must tell it to XDP programs (Linux 6.8).
type VLANRestore int

const (
	VLANRestoreAuto VLANRestore = iota // where the driver tells them
	VLANRestoreOn                      // the same, with a Notice where it does not
	VLANRestoreOff
)

// HashKind says what a packet's hash is.
type HashKind uint32

const (
	NoHash       HashKind = iota // it has none, or was not asked for
	SoftwareHash                 // the kernel's
	CardHash                     // the card's, of a function that its driver does not tell
	ToeplitzHash                 // the card's, as for receive side scaling
)

var hashKindNames = [...]string{"", "software", "card", "toeplitz"}

// String is who makes such hashes; "" where there is none.
func (k HashKind) String() string {
	if int(k) >= len(hashKindNames) {
		return fmt.Sprintf("hash kind %d", uint32(k))
	}
	return hashKindNames[k]
}

// A question is what the sampling program asks the card about each packet.
type question struct{ time, hash, tag bool }

func (q question) isNone() bool { return q == question{} }

// names are what is asked for, as package support names it.
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

// constants are those of sample_card.
func (q question) constants() constants {
	return constants{
		samplerVarAskingTime: q.time,
		samplerVarAskingHash: q.hash,
		samplerVarAskingTag:  q.tag,
	}
}

// bind binds a program to its device. Only such a program may ask the device's driver. It runs
// nowhere else, and not by BPF_PROG_RUN either.
func bind(spec *ebpf.ProgramSpec, ifindex int) {
	spec.Ifindex = uint32(ifindex)
	spec.Flags |= unix.BPF_F_XDP_DEV_BOUND_ONLY
}

// question chooses what the program at the XDP hook of an interface asks the card for. Time stamps
// that were asked for and cannot be had are an error, and VLAN tags a notice. The hash comes along
// where the program is bound anyway, since to read a card's hash costs next to nothing.
func (o *Options) question(p place) (q question, err error) {
	if q.time = o.Stamp.IsCards(); q.time {
		if err := o.lacksStamps(p); err != nil {
			return question{}, err
		}
	}
	if o.VLANRestore != VLANRestoreOff {
		err := o.lacks(p, support.MetadataVLAN)
		if q.tag = err == nil; err != nil && o.VLANRestore == VLANRestoreOn {
			o.notice(fmt.Errorf("VLAN tags that the card of %s has taken off are not put back: %w", p.ifi.Name, err))
		}
	}
	if o.Hash || !q.isNone() && p.ifi.IsHardware() {
		q.hash = o.lacks(p, support.MetadataHash) == nil
	}
	return q, nil
}

// lacks says why the packets at a place cannot be asked about, or returns nil.
func (o *Options) lacks(p place, metadata string) error {
	switch {
	case o.HookMap != "":
		return fmt.Errorf("packets of a hook map are seen by programs that their device does not know: only a program of xdpcap's own at its XDP hook may ask")
	case o.isTraced(p):
		return fmt.Errorf("%s runs an XDP program, which is traced: only a program of xdpcap's own may ask the card", p.ifi.Name)
	case o.Mode == Generic:
		return fmt.Errorf("in generic mode programs do not reach the driver of %s: only in native mode may they ask the card", p.ifi.Name)
	}
	if err := support.CheckBTF(); err != nil {
		return err
	}
	told := support.Metadata(p.ifi.Index)
	switch {
	case told == nil:
		return fmt.Errorf("this kernel does not say what the driver of %s tells XDP programs: Linux 6.7 does, and has VLAN tags since 6.8", p.ifi.Name)
	case slices.Contains(told, metadata):
		return nil
	case len(told) == 0:
		return fmt.Errorf("driver %s of %s tells XDP programs nothing of what the card knows", p.ifi.Driver, p.ifi.Name)
	}
	return fmt.Errorf("driver %s of %s tells XDP programs no %s, only %s", p.ifi.Driver, p.ifi.Name, metadata, strings.Join(told, ", "))
}

// lacksStamps says why packets cannot have the stamps that are asked for.
func (o *Options) lacksStamps(p place) error {
	if err := o.lacks(p, support.MetadataTimestamp); err != nil {
		return xdp.Kind(ErrNoStamp, "time stamps of the type %v: %w", o.Stamp, err)
	}
	if _, ok := p.ifi.PTPClock(); o.Stamp == AdapterStamp && !ok {
		return xdp.Kind(ErrNoClock, "time stamps of the type %v: driver %s of %s has no PTP clock that could be compared with the system's", o.Stamp, p.ifi.Driver, p.ifi.Name)
	}
	return nil
}

// hashKind is what the hashes of an interface are.
func hashKind(ifi *xdp.Interface) HashKind {
	switch {
	case !ifi.IsHardware():
		return SoftwareHash
	case ifi.HasToeplitz():
		return ToeplitzHash
	}
	return CardHash
}

// A card is what a session has to know of the card behind a source. The zero value is for sources
// that do not ask theirs.
type card struct {
	stamps *cardStamps
	hashes HashKind // what they are, where there are any
}

// cardsOf are the cards behind the sources, in the order of the session; nil where none is asked.
func cardsOf(hooks []hook) (cards []card) {
	isAsked := false
	for _, h := range hooks {
		own := make([]card, len(h.sources()))
		if asking, ok := h.(interface{ card() card }); ok {
			own[0] = asking.card()
			isAsked = isAsked || own[0] != card{}
		}
		cards = append(cards, own...)
	}
	if !isAsked {
		return nil
	}
	return cards
}

// finish turns what the card has told of a packet into what the packet's users are told. The packet
// has its Time already. offset is what is to be added to CLOCK_MONOTONIC for that. It returns false
// for a packet that was to have a stamp of the card and has none.
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
