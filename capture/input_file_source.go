package capture

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// describe adds a source for an interface.
func (in *FileInput) describe(i *capfile.Interface) {
	s := Source{
		Name: i.Name, Hook: UnknownHook, SnapLen: i.SnapLen, link: i.LinkType ^ pcapng.Ethernet,
		File: i.File.Name, position: i.Index,
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

// An interfaceName is a name within one file: the same name in another file may be another host's
// interface.
type interfaceName struct {
	file *capfile.File
	name string
}

// parseLabel is the reverse of Label: it splits eth0, eth0@egress or eth0:program@fentry into name,
// hook and target.
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

// hasManyFiles tells whether packets of several files come together. Their interfaces are then
// written with the snapshot length 0, no limit: libpcap refuses a file whose interfaces differ in
// it, and those of an interface that is described later are not known when the first is written.
func (in *FileInput) hasManyFiles() bool { return in != nil && len(in.files) > 1 }

// fileLabel is the label of an interface without a name.
func (s *Source) fileLabel() string {
	if s.position > 0 {
		return fmt.Sprintf("%s#%d", filepath.Base(s.File), s.position)
	}
	return filepath.Base(s.File)
}

// LinkType is the LINKTYPE_ number of the source's packets. For a live source it is always 1,
// Ethernet.
func (s *Source) LinkType() uint16 { return s.link ^ pcapng.Ethernet }

// IsEthernet tells whether the source's packets are Ethernet frames.
func (s *Source) IsEthernet() bool { return s.link == 0 }

// VerdictOf returns the verdict of one of the source's packets, if it is known. For a live packet
// HasVerdict decides that; for one from a capture file, the file's packet block.
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

// knows tells whether a field of a packet is known. For a live packet the answer is live.
func (s *Source) knows(p *Packet, what pcapng.Fields, live bool) bool {
	if p.file != nil {
		return p.file.known&what != 0
	}
	return live
}

// DirectionOf returns whether one of the source's packets was received or sent, if that is known.
func (s *Source) DirectionOf(p *Packet) (d Direction, known bool) {
	if p.file == nil {
		return s.Direction(), s.HasDirection()
	}
	switch p.file.flags & pcapng.DirectionMask {
	case pcapng.Inbound:
		return In, true
	case pcapng.Outbound:
		return Out, true
	}
	return In, false
}

// HasTime tells whether the packet has a time: simple packet blocks have none.
func (p *Packet) HasTime() bool {
	return p.file == nil || p.file.raw.Raw == nil || p.file.raw.Type != pcapng.TypeSimple
}

// Comments returns the packet's comments in a capture file; nil for a live packet.
func (p *Packet) Comments() []string {
	if p.file == nil || p.file.raw.Raw == nil {
		return nil
	}
	return p.file.raw.Comments()
}

// learnedNames numbers the outlets, reasons or locations in capture files, which have names but no
// numbers.
type learnedNames[N ~uint32 | ~uint64] struct {
	names []string
	known map[string]N
	first N // one less than the number of the first name
}

// maxLearned limits how many names are remembered: a file may have any number.
const maxLearned = 4 * groupSize

// shrink forgets the names if they are too many. The caller calls it when no packet refers to them.
// Their numbers are not used again, because an output may remember a number's name.
func (l *learnedNames[N]) shrink() {
	if len(l.names) > maxLearned {
		l.first += N(len(l.names))
		l.names, l.known = nil, nil
	}
}

// learn returns the number of a name, and adds it if it is new.
func (l *learnedNames[N]) learn(name []byte) N {
	if n := l.known[string(name)]; n != 0 {
		return n
	}
	if l.known == nil {
		l.known = make(map[string]N)
	}
	l.names = append(l.names, string(name))
	n := l.first + N(len(l.names))
	l.known[l.names[len(l.names)-1]] = n
	return n
}

func (l *learnedNames[N]) name(n N) string {
	if i := int(n) - int(l.first); i > 0 && i <= len(l.names) {
		return l.names[i-1]
	}
	return ""
}
