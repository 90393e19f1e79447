package capture

import (
	"cmp"
	"slices"
)

// An Output is where [Session.Run] writes packets: a file, a terminal, another process. Run calls
// it from one goroutine: Begin first, then Write for all packets and Flush whenever it has time,
// and End last. An error from any of them ends the session; End is still called. While no packets
// come, Flush is called about four times a second, so that an output can detect that it has failed.
// An output that was not begun, because another one failed, is not ended either.
type Output interface {
	Begin(Description) error
	// Write takes packets in their order. It must not keep references to them: they and their bytes
	// are overwritten after it returns.
	Write([]Packet) error
	// Flush hands on buffered packets. It need not wait until they have arrived.
	Flush() error
	// End takes the session's final accounts and returns the output's own. In these, packets that
	// it could not take are lost instead of captured, as by [Accounts.Delivered].
	End(Accounts) (Accounts, error)
}

// Files are the capture files that an Input reads, for an [Encoder].
type Files interface {
	// AppendHeader appends the pcapng section for packets of all files, which application writes.
	AppendHeader(b []byte, application string) []byte

	// IsUnlimited tells whether interfaces are written with the snapshot length 0, no limit. That
	// is so where packets of several files come together: libpcap refuses a file whose interfaces
	// differ in it, and those of an interface that is described later are not known when the first
	// is written. It is also so for a pcap file, which may have packets that are longer than its
	// header says, and libpcap refuses those in pcapng.
	IsUnlimited() bool
}

// A SourceList has the sources of an input by the index that packets have in Facts.Source. It
// belongs to one goroutine.
type SourceList struct {
	all  []Source
	come int // how many sources have come
	more func(come int) []Source
}

// NewSourceList returns the list of the sources that a description has by now.
func NewSourceList(d *Description) *SourceList {
	l := &SourceList{all: slices.Clone(d.Sources), come: len(d.Sources), more: d.More}
	for i := range d.Sources {
		l.come = max(l.come, d.Sources[i].Came)
	}
	return l
}

// Look adds the sources that have come since the last call, and returns their indexes in the order
// in which they came. A source may take the place of one that has gone, and of which no more
// packets come. Call it before each use of packets.
func (l *SourceList) Look() (come []int) {
	if l.more == nil {
		return nil
	}
	for _, src := range l.more(l.come) {
		if src.Came == 0 {
			src.Place = l.come
		}
		l.come = max(l.come+1, src.Came)
		for len(l.all) <= src.Place {
			l.all = append(l.all, Source{})
		}
		l.all[src.Place] = src
		come = append(come, src.Place)
	}
	return come
}

// All returns the sources by their indexes. Look may change them.
func (l *SourceList) All() []Source { return l.all }

// Of returns a source.
func (l *SourceList) Of(source int) *Source { return &l.all[source] }

// SourcesSince returns those of all sources, which are by index, that have come after so many
// others, in that order, as [Description].More does.
func SourcesSince(all []Source, come int) (later []Source) {
	for i, src := range all {
		if max(src.Came, i+1) > come {
			later = append(later, src)
		}
	}
	return inOrder(later)
}

// inOrder sorts sources by when they came.
func inOrder(sources []Source) []Source {
	slices.SortStableFunc(sources, func(a, b Source) int { return cmp.Compare(a.Came, b.Came) })
	return sources
}
