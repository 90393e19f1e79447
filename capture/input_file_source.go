package capture

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// describe makes a source of an interface.
func (in *FileInput) describe(i *capfile.Interface) {
	s := Source{
		Name: i.Name, Hook: UnknownHook, SnapLen: i.SnapLen, link: i.LinkType ^ pcapng.Ethernet,
		File: i.File.Name, place: i.Index,
	}
	s.parseLabel()
	name := interfaceName{i.File, s.Name}
	if s.Name == "" {
		name.name = s.Label()
	}
	if s.Index = in.indexes[name]; s.Index == 0 {
		s.Index = len(in.indexes) + 1
		in.indexes[name] = s.Index
	}
	in.sources, in.counts = append(in.sources, s), append(in.counts, Account{})
}

// An interfaceName is one in a file: that of another file may be another host's.
type interfaceName struct {
	file *capfile.File
	name string
}

// parseLabel takes the name of an interface apart, which Label has put together: eth0, eth0@egress,
// or eth0:program@fentry.
func (s *Source) parseLabel() {
	for hook, kind := range hookKinds {
		rest, ok := strings.CutSuffix(s.Name, kind.suffix)
		colon := strings.LastIndexByte(rest, ':')
		switch {
		case kind.suffix == "" || !ok || kind.traces && colon < 0:
			continue
		case kind.traces:
			rest, s.Target.Name = rest[:colon], rest[colon+1:]
		}
		s.Name, s.Hook = rest, Hook(hook)
		return
	}
}

// fileLabel is the label of an interface without a name.
func (s *Source) fileLabel() string {
	if s.place > 0 {
		return fmt.Sprintf("%s#%d", filepath.Base(s.File), s.place)
	}
	return filepath.Base(s.File)
}

// LinkType is the LINKTYPE_ number of what the source's packets begin with. It is 1, Ethernet, but
// for sources of capture files.
func (s *Source) LinkType() uint16 { return s.link ^ pcapng.Ethernet }

// IsEthernet tells whether the source's packets are Ethernet frames.
func (s *Source) IsEthernet() bool { return s.link == 0 }

// VerdictOf returns the verdict of one of the source's packets, if it is known: where HasVerdict
// tells so, and of a capture file where it says so of the packet.
func (s *Source) VerdictOf(p *Packet) (v Verdict, known bool) {
	return p.Verdict, s.knows(p, pcapng.HasVerdict, s.HasVerdict())
}

// QueueOf returns the receive queue of one of the source's packets, if it is known.
func (s *Source) QueueOf(p *Packet) (queue uint32, known bool) {
	return p.Queue, s.knows(p, pcapng.HasQueue, s.HasQueue())
}

// IDOf returns the ID of one of the source's packets, if it has one.
func (s *Source) IDOf(p *Packet) (id uint64, known bool) {
	return p.ID, s.knows(p, pcapng.HasID, true)
}

// knows tells whether something is known of a packet; of live ones, their source says it.
func (s *Source) knows(p *Packet, what pcapng.Fields, live bool) bool {
	if p.file != nil {
		return p.file.known&what != 0
	}
	return live
}

// DirectionOf returns whether one of the source's packets was received or sent, if that is known.
func (s *Source) DirectionOf(p *Packet) (d Direction, known bool) {
	if p.file == nil {
		return s.Direction(), true
	}
	switch p.file.flags & pcapng.DirectionMask {
	case pcapng.Inbound:
		return In, true
	case pcapng.Outbound:
		return Out, true
	}
	return In, false
}

// HasTime tells whether the packet has a time: those of simple packet blocks have none.
func (p *Packet) HasTime() bool {
	return p.file == nil || p.file.raw.Raw == nil || p.file.raw.Type != pcapng.TypeSimple
}

// Comments returns the comments that a capture file has of the packet; of a live one, nil.
func (p *Packet) Comments() []string {
	if p.file == nil || p.file.raw.Raw == nil {
		return nil
	}
	return p.file.raw.Comments()
}

// outletNames are those of the outlets in capture files, which have no indexes.
type outletNames struct {
	names []string
	known map[string]Outlet
	first Outlet // the number before that of the first name
}

// maxOutletNames is how many names are remembered: a file may have any number.
const maxOutletNames = 4 * groupSize

// shrink forgets the names where they are many. No packet has one of their outlets any more. Their
// numbers do not come again, since an output may remember which name one of them had.
func (o *outletNames) shrink() {
	if len(o.names) > maxOutletNames {
		o.first += Outlet(len(o.names))
		o.names, o.known = nil, nil
	}
}

// learn returns the outlet of a name.
func (o *outletNames) learn(name []byte) Outlet {
	if to := o.known[string(name)]; to != 0 {
		return to
	}
	if o.known == nil {
		o.known = make(map[string]Outlet)
	}
	o.names = append(o.names, string(name))
	to := o.first + Outlet(len(o.names))
	o.known[o.names[len(o.names)-1]] = to
	return to
}

func (o *outletNames) name(to Outlet) string {
	if n := int(to) - int(o.first); n > 0 && n <= len(o.names) {
		return o.names[n-1]
	}
	return ""
}
