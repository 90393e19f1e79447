package capture

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/internal/machine"
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

// A Description is what a session's files say about the session besides its packets.
type Description struct {
	Sources  []Source     // the sources at Begin
	Options  Options      // with the defaults filled in
	Started  time.Time    // when the session began to attach
	Hardware string       // the CPU's model
	OS       string       // as `uname -srm` prints it
	Clocks   []*CardClock // Session.CardClocks at Begin; nil = none
	Stamps   string       // the accuracy of HostLowprecStamp's stamps, in words; "" = another Stamp
	Recorded string       // why and when a recorder wrote the file; "" = none did

	// Anonymized says how addresses were replaced in packets and Sources, and what was omitted;
	// "" = nothing was. An Encoder writes it into the header, and then neither the command line nor
	// comments of capture files.
	Anonymized string

	// More returns the sources that have come after so many others. Capture files describe their
	// sources one by one, and interfaces may come during a session: one that is not in Sources is
	// in More when its first packet comes. It may have the index of one that has gone: a
	// [SourceList] puts them where they belong. Only the goroutine of Begin and Write may call it;
	// nil = Sources has all.
	More func(come int) []Source

	// OutletName is Session.OutletName; nil = no packet has a To.
	OutletName func(Outlet) string

	// ReasonName and LocationName are those of Session; nil = no packet has a Reason.
	ReasonName   func(source uint16, f *Facts) string
	LocationName func(Location) string

	// Accounts returns the accounts so far, as Session.Accounts does; nil = not known.
	Accounts func() (Accounts, error)

	// Settled returns the stamp up to which all packets were handed over; nil = always up to now.
	// Any goroutine may call it.
	Settled func() time.Time

	// Stopped is closed when the reading of complete capture files is stopped. Until then an output
	// may wait in Write, because packets that wait in a file are not lost; nil = they are.
	Stopped <-chan struct{}

	Files Files // the capture files that the input reads; nil = packets are captured live
}

// IsLive tells whether packets are captured live rather than read from capture files.
func (d *Description) IsLive() bool { return d.Files == nil }

// Notice calls Options.Notice, if it is not nil.
func (d *Description) Notice(err error) { d.Options.notice(err) }

// CauseNames returns the names of why and where a packet of a source was thrown away; "" for other
// packets. One that a traced program dropped has no location.
func (d *Description) CauseNames(source uint16, f *Facts) (reason, location string) {
	if f.Location == 0 && f.Reason == 0 || d.ReasonName == nil || d.LocationName == nil {
		return "", ""
	}
	if f.Location != 0 {
		location = d.LocationName(f.Location)
	}
	return d.ReasonName(source, f), location
}

// Description describes the session.
func (s *Session) Description() Description {
	d := Description{
		Sources:      s.Sources(),
		Options:      s.options,
		Started:      s.started,
		Hardware:     machine.CPU(),
		OS:           machine.Kernel(),
		Clocks:       s.CardClocks(),
		Stamps:       s.sampler.worth,
		Accounts:     s.Accounts,
		OutletName:   s.OutletName,
		ReasonName:   s.ReasonName,
		LocationName: s.LocationName,
		Settled:      func() time.Time { return time.Unix(0, s.reader.settled.Load()) },
	}
	if s.options.follows() {
		d.More = s.roster.since
	}
	return d
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

// AnonymizedComment begins the line of a file's comment that says how addresses were replaced.
const AnonymizedComment = "anonymized: "

// comment names the programs, the sampling and the command line.
func (d *Description) comment(commandLine string) string {
	var b strings.Builder
	if d.Anonymized != "" {
		fmt.Fprintf(&b, "%s%s\n", AnonymizedComment, d.Anonymized)
		commandLine = ""
	}
	if !d.IsLive() {
		return strings.TrimSuffix(b.String(), "\n")
	}
	for _, src := range d.Sources {
		fmt.Fprintf(&b, "%s: %s\n", src.Label(), src.Sentence())
	}
	if d.Options.follows() && d.Anonymized == "" { // names of interfaces may have a MAC address
		fmt.Fprintf(&b, "interfaces as they come and go: %s\n", d.Options.followed())
	}
	d.commentCards(&b)
	if d.Stamps != "" {
		fmt.Fprintf(&b, "time stamps: %v; %s\n", d.Options.Stamp, d.Stamps)
	}
	if d.Recorded != "" {
		fmt.Fprintf(&b, "recorded because of: %s\n", d.Recorded)
	}
	b.WriteString(SamplingComment + d.Options.sampling() + "\n")
	if len(d.Options.Verdicts) > 0 {
		fmt.Fprintf(&b, "only packets with the verdict %v at the exit\n", d.Options.Verdicts)
	}
	if d.Options.SlowerThan > 0 {
		fmt.Fprintf(&b, "only packets for which the program ran at least %d ns at the exit\n", d.Options.SlowerThan.Nanoseconds())
	}
	if d.Options.ReasonMap != "" {
		fmt.Fprintf(&b, "reasons of dropped packets: as the XDP program writes them into the map %s\n", d.Options.ReasonMap)
	}
	if len(d.Options.Reasons) > 0 {
		fmt.Fprintf(&b, "only packets that were thrown away for %s\n", strings.Join(d.Options.Reasons, ", "))
	}
	if d.Options.Sink {
		b.WriteString("every packet was dropped after sampling\n")
	}
	fmt.Fprintf(&b, "snapshot length: %d\n", d.Options.SnapLen)
	if d.Options.HeadersOnly {
		fmt.Fprintf(&b, "packets were cut in the kernel, %d bytes after the end of their headers\n", d.Options.Payload)
	}
	fmt.Fprintf(&b, "transport: %v, %s for each CPU", d.Options.Transport, kibibytes(d.Options.Buffer))
	if commandLine != "" {
		fmt.Fprintf(&b, "\ncommand line: %s", commandLine)
	}
	return b.String()
}

// commentCards writes what the cards were asked for, and what that means for the time stamps.
func (d *Description) commentCards(b *strings.Builder) {
	for _, src := range d.Sources {
		if src.Asked != nil {
			fmt.Fprintf(b, "%s: the card was asked for %s\n", src.Name, strings.Join(src.Asked, ", "))
		}
	}
	if !d.Options.Stamp.IsCards() {
		return
	}
	fmt.Fprintf(b, "time stamps: %v; packets without a stamp from the card have the host's; packets are in the order of the host's stamps, so stamps may step back\n", d.Options.Stamp)
	for i, clock := range d.Clocks {
		if clock != nil {
			fmt.Fprintf(b, "%s: at the start %v\n", d.Sources[i].Name, clock)
		}
	}
}
