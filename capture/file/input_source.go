package file

import (
	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/capfile"
	"github.com/xdpcap/xdpcap/internal/headers"
	"github.com/xdpcap/xdpcap/internal/pcapng"
)

// describe adds a source for an interface.
func (in *Input) describe(i *capfile.Interface) {
	s := capture.ParseLabel(i.Name)
	s.File, s.Position, s.SnapLen, s.Netmask, s.Filter = i.File.Name, i.Index, i.SnapLen, i.Netmask, i.Filter
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

// directionIn returns the flag for the direction in a packet's own header, or 0.
func directionIn(s *capture.Source, packet []byte) uint32 {
	switch sent, known := headers.LinkOf(s.LinkType()).Sent(packet); {
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

// A nameTable numbers the outlets, reasons or locations in capture files, which have names but no
// numbers.
type nameTable[N ~uint32 | ~uint64] struct {
	names []string
	known map[string]N
	first N // one less than the number of the first name
}

// maxNames limits how many names a nameTable keeps, because a file may have any number.
const maxNames = 4 * groupSize

// shrink drops the names if there are too many. Call it when no packet refers to them. Their
// numbers are not used again, because an output may keep a number's name.
func (t *nameTable[N]) shrink() {
	if len(t.names) > maxNames {
		t.first += N(len(t.names))
		t.names, t.known = nil, nil
	}
}

// number returns the number of a name, and adds the name if it is new. nil, no name, is 0.
func (t *nameTable[N]) number(name []byte) N {
	if name == nil {
		return 0
	}
	if n := t.known[string(name)]; n != 0 {
		return n
	}
	if t.known == nil {
		t.known = make(map[string]N)
	}
	t.names = append(t.names, string(name))
	n := t.first + N(len(t.names))
	t.known[t.names[len(t.names)-1]] = n
	return n
}

func (t *nameTable[N]) name(n N) string {
	if i := int(n) - int(t.first); i > 0 && i <= len(t.names) {
		return t.names[i-1]
	}
	return ""
}
