package file

import (
	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/link"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// describe adds a source for an interface.
func (in *Input) describe(i *capfile.Interface) {
	s := capture.ParseLabel(i.Name)
	s.File, s.Position, s.SnapLen, s.Netmask = i.File.Name, i.Index, i.SnapLen, i.Netmask
	s.SetLinkType(i.LinkType)
	s.Pod = capture.ParsePod(i.About)
	name := interfaceName{i.File, s.Name}
	if s.Name == "" {
		name.name = s.Label()
	}
	if s.Index = in.indexes[name]; s.Index == 0 {
		s.Index = len(in.indexes) + 1
		in.indexes[name] = s.Index
	}
	in.sources, in.counts = append(in.sources, s), append(in.counts, capture.Account{})
}

// directionIn is the flag for the direction that a packet's own header has, or 0.
func directionIn(s *capture.Source, packet []byte) uint32 {
	switch sent, known := link.Of(s.LinkType()).Sent(packet); {
	case !known:
		return 0
	case sent:
		return pcapng.Outbound
	}
	return pcapng.Inbound
}

// An interfaceName is a name within one file: the same name in another file may be another host's
// interface.
type interfaceName struct {
	file *capfile.File
	name string
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

// learn returns the number of a name, and adds it if it is new. No name, nil, is 0.
func (l *learnedNames[N]) learn(name []byte) N {
	if name == nil {
		return 0
	}
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
