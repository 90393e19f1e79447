package capture

import (
	"fmt"
	"strings"
	"time"

	"github.com/xdpcap/xdpcap/internal/machine"
)

// An Output is where [Session.Run] puts packets: a file, a terminal, another process. Run calls it
// from one goroutine: Begin first, then Write for all packets with a Flush whenever it has time,
// and End last, also after any of them has returned an error, which ends the session. While no
// packets come, Flush is called about four times a second, so that an output can find out that it
// has failed. An output that was not begun, because another one failed, is not ended either.
type Output interface {
	Begin(Description) error
	// Write takes packets in their order. It must keep nothing of them: they and their bytes are
	// overwritten afterwards.
	Write([]Packet) error
	// Flush hands on what was held back. It need not wait until that has arrived.
	Flush() error
	// End takes the session's final accounts and returns the output's own, in which packets that it
	// could not take are lost instead of captured, as [Accounts.Delivered] has it.
	End(Accounts) (Accounts, error)
}

// A Description is what a session's files say about it besides its packets.
type Description struct {
	Sources  []Source     // that there are at Begin
	Options  Options      // with the defaults filled in
	Started  time.Time    // when the session began to attach
	Hardware string       // the CPU's model
	OS       string       // as `uname -srm` prints it
	Clocks   []*CardClock // as Session.CardClocks has them, at Begin; nil = there are none
	Stamps   string       // what HostLowprecStamp's stamps are worth, in words; "" = it is another Stamp
	Recorded string       // why and when a [Recorder] wrote the file; "" = it is no recorder's

	// More returns the sources from an index on. Those of capture files are described one by one:
	// one that is not in Sources is there when its first packet comes. It is called by the
	// goroutine of Begin and Write; nil = Sources has all.
	More func(from int) []Source

	// OutletName is the session's; nil = no packet has a To.
	OutletName func(Outlet) string

	// Accounts returns the accounts so far, as Session.Accounts does; nil = they are not known.
	Accounts func() (Accounts, error)

	// Settled returns up to which stamp all packets were handed over; nil = up to now, always. Any
	// goroutine may call it.
	Settled func() time.Time

	files *FileInput // that is read; nil = the session is live
}

// IsLive tells whether the packets are captured while they come, or else come from capture files.
func (d *Description) IsLive() bool { return d.files == nil }

// more returns the sources from an index on, if there are more by now.
func (d *Description) more(from int) []Source {
	if d.More == nil {
		return nil
	}
	return d.More(from)
}

// Description describes the session.
func (s *Session) Description() Description {
	options := s.options
	options.Notice = s.notice // one at a time, whoever has something to say
	return Description{
		Sources:    s.Sources(),
		Options:    options,
		Started:    s.started,
		Hardware:   machine.CPU(),
		OS:         machine.Kernel(),
		Clocks:     s.CardClocks(),
		Stamps:     s.sampler.worth,
		Accounts:   s.Accounts,
		OutletName: s.OutletName,
		Settled:    func() time.Time { return time.Unix(0, s.reader.settled.Load()) },
	}
}

// comment names the programs, the sampling and the command line.
func (d *Description) comment(commandLine string) string {
	var b strings.Builder
	for _, src := range d.Sources {
		fmt.Fprintf(&b, "%s: %s\n", src.Label(), src.Hook.kind().sentence(&src))
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
		fmt.Fprintf(&b, "at the exit only packets with the verdict %v\n", d.Options.Verdicts)
	}
	if d.Options.Sink {
		b.WriteString("every packet was dropped after sampling\n")
	}
	fmt.Fprintf(&b, "snapshot length: %d\n", d.Options.SnapLen)
	fmt.Fprintf(&b, "transport: %v, %s for each CPU", d.Options.Transport, kibibytes(d.Options.Buffer))
	if commandLine != "" {
		fmt.Fprintf(&b, "\ncommand line: %s", commandLine)
	}
	return b.String()
}

// commentCards says what the cards were asked for, and what that means for the time stamps.
func (d *Description) commentCards(b *strings.Builder) {
	for _, src := range d.Sources {
		if src.Asked != nil {
			fmt.Fprintf(b, "%s: the card was asked for %s\n", src.Name, strings.Join(src.Asked, ", "))
		}
	}
	if !d.Options.Stamp.IsCards() {
		return
	}
	fmt.Fprintf(b, "time stamps: %v; packets that the card gave none have the host's; packets are in the order of the host's, so stamps may step back\n", d.Options.Stamp)
	for i, clock := range d.Clocks {
		if clock != nil {
			fmt.Fprintf(b, "%s: at the start %v\n", d.Sources[i].Name, clock)
		}
	}
}
