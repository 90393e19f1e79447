package capture

import (
	"cmp"
	"slices"
	"time"
)

// An Input is where [Run] reads packets: a live [Session], or capture files (package file). An
// Input that wraps another one, to change its packets, returns the other one by Unwrap() Input. Run
// calls it from one goroutine. Any goroutine may call Stop and Accounts; Close is called last.
type Input interface {
	// Description describes the input to the outputs. Run calls it before the first Read.
	Description() Description

	// Read waits for packets, fills the slice with the available ones, and returns how many there
	// are. They are valid until the next call. idle, if not nil, is called whenever all available
	// packets have been handed over, before Read waits for others, and about four times a second
	// while it waits. The error is io.EOF at the end, or the cause of an early end.
	Read(packets []Packet, idle func()) (int, error)

	// Accounts returns the current accounts of the sources; after Read has returned an error, the
	// final ones.
	Accounts() (Accounts, error)

	// Stop ends the input: Read then returns the packets that are still in the rings, and after
	// those an error.
	Stop()

	// Close ends the input and releases its resources. It may be called again.
	Close() error
}

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

	// IsUnlimited reports whether interfaces are written with the snapshot length 0, no limit. It
	// is true for several files together: libpcap refuses a file whose interfaces have different
	// snapshot lengths, and the lengths of interfaces that are described later are not known when
	// the first one is written. It is also true for a pcap file: its packets may be longer than its
	// header declares, and libpcap refuses such packets in pcapng.
	IsUnlimited() bool
}

// A SourceList has the sources of an input by the index that packets have in Facts.Source. It
// belongs to one goroutine.
type SourceList struct {
	all  []Source
	came int // how many sources have come
	more func(come int) []Source
}

// NewSourceList returns the list of the sources in a description.
func NewSourceList(d *Description) *SourceList {
	l := &SourceList{all: slices.Clone(d.Sources), came: len(d.Sources), more: d.More}
	for i := range d.Sources {
		l.came = max(l.came, d.Sources[i].Came)
	}
	return l
}

// Update adds the sources that have come since the last call, and returns their indexes in the
// order in which they came. A source may take the place of another source that has gone, after the
// last packet of that. Call it before each use of packets.
func (l *SourceList) Update() (come []int) {
	if l.more == nil {
		return nil
	}
	for _, src := range l.more(l.came) {
		if src.Came == 0 {
			src.Place = l.came
		}
		l.came = max(l.came+1, src.Came)
		for len(l.all) <= src.Place {
			l.all = append(l.all, Source{})
		}
		l.all[src.Place] = src
		come = append(come, src.Place)
	}
	return come
}

// All returns the sources by their indexes. Update may change them.
func (l *SourceList) All() []Source { return l.all }

// Of returns a source.
func (l *SourceList) Of(source int) *Source { return &l.all[source] }

// SourcesSince returns the sources that have come after the first `come` ones, in the order in
// which they came, as [Description].More does. all has the sources by index.
func SourcesSince(all []Source, come int) (later []Source) {
	for i, src := range all {
		if max(src.Came, i+1) > come {
			later = append(later, src)
		}
	}
	slices.SortStableFunc(later, func(a, b Source) int { return cmp.Compare(a.Came, b.Came) })
	return later
}

// A Backlogged output has a queue of packets that wait to be written. The rate of a session with
// Options.Adaptive follows how the queue fills up. An Output that wraps another one returns it by
// Unwrap() Output.
type Backlogged interface {
	// Backlog returns how many bytes were added to the queue so far, how many of them were written,
	// and how many may wait. Bytes that were dropped from the queue count in neither. Any goroutine
	// may call it between Begin and End.
	Backlog() (added, written, limit int64)
}

// A Batch is memory of an output for blocks and their ends. Neither slice grows beyond its
// capacity.
type Batch struct {
	Blocks []byte
	Ends   []BlockEnd
	Start  int64 // the position in the output at which Blocks begins
}

// A BlockEnd is the end of a packet's block, and the packet's part of the accounts.
type BlockEnd struct {
	End           int64 // the position in the output
	Time          int64 // Facts.Time of the packet
	Bytes, Source uint32
}

// A DirectOutput is an Output that can take packets directly from the rings, in one pass, which
// costs less than half the time of Write. Run uses this if it is a session's only output.
type DirectOutput interface {
	Output

	// WriteDirect calls take with memory for the blocks of e. take fills the memory and returns how
	// many packets it has added; packets that it cannot handle are passed to Write instead. While
	// an output does not write blocks of an Encoder, it does not call take. Run calls WriteDirect
	// from the goroutine of Write, before each Read.
	WriteDirect(take func(e *Encoder, into *Batch) int) error
}

// A Description is the content of a session's files besides packets and statistics.
type Description struct {
	Sources  []Source     // the sources at Begin
	Options  Options      // with the defaults filled in
	Started  time.Time    // when the session began to attach
	Hardware string       // the CPU's model
	OS       string       // as `uname -srm` prints it
	Clocks   []*CardClock // Session.CardClocks at Begin; nil = none
	Stamps   string       // the accuracy of HostLowprecStamp's stamps, in words; "" = another Stamp
	Recorded string       // why and when a recorder wrote the file; "" = no recorder did

	// Anonymized describes how addresses were replaced in packets and Sources, and what was
	// omitted; "" = the packets are unchanged. An Encoder writes it into the header, and then
	// neither the command line nor comments of capture files.
	Anonymized string

	// More returns the sources that have come after the first `come` ones. Capture files describe
	// their sources one by one, and interfaces may come during a session: More has such a source
	// when its first packet is written. Its index may be that of a source that has gone: a
	// [SourceList] keeps the sources by index. Only the goroutine of Begin and Write may call More;
	// nil = Sources has all sources.
	More func(come int) []Source

	// OutletName is Session.OutletName; nil = no packet has a To.
	OutletName func(Outlet) string

	// ReasonName and LocationName are those of Session; nil = no packet has a Reason.
	ReasonName   func(source uint16, f *Facts) string
	LocationName func(Location) string

	// Accounts returns the accounts so far, as Session.Accounts does; nil = not known.
	Accounts func() (Accounts, error)

	// Settled returns the stamp up to which all packets were written to the outputs; nil = it is
	// always the present. Any goroutine may call it.
	Settled func() time.Time

	// Stopped is closed when the reading of complete capture files is stopped. Until then Write may
	// wait, because packets that wait in a file are not lost; nil = waiting packets get lost.
	Stopped <-chan struct{}

	Files Files // the capture files that the input reads; nil = packets are captured live
}

// IsLive reports whether packets are captured live rather than read from capture files.
func (d *Description) IsLive() bool { return d.Files == nil }

// Notice calls Options.Notice, if it is not nil.
func (d *Description) Notice(err error) { d.Options.notice(err) }

// CauseNames returns the names of why and where a packet of a source was thrown away; "" for other
// packets. A packet that a traced program dropped has no location.
func (d *Description) CauseNames(source uint16, f *Facts) (reason, location string) {
	if f.Location == 0 && f.Reason == 0 || d.ReasonName == nil || d.LocationName == nil {
		return "", ""
	}
	if f.Location != 0 {
		location = d.LocationName(f.Location)
	}
	return d.ReasonName(source, f), location
}

// innermost returns the input or output inside all wrappers. A wrapper returns the wrapped one by
// Unwrap.
func innermost[T any](put T) T {
	for {
		w, ok := any(put).(interface{ Unwrap() T })
		if !ok {
			return put
		}
		put = w.Unwrap()
	}
}
