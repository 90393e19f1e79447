package capture

import (
	"fmt"
	"io"
	"strings"

	"github.com/xdpcap/xdpcap/capture"
	"github.com/xdpcap/xdpcap/internal/cli/frame"
	"github.com/xdpcap/xdpcap/internal/message"
)

// checkCard reads and checks the flags about time stamps and VLAN tags of the card.
func (o *Options) checkCard(given func(flag string) bool) (err error) {
	if o.session.Stamp, err = capture.ParseStamp(o.stampName); err != nil {
		return fmt.Errorf("-j: %w", err)
	}
	if o.session.Stamp.IsCards() {
		if o.session.GiveWay {
			return fmt.Errorf("--give-way and -j %s: at tc there are no stamps of the card: omit one of them", o.stampName)
		}
		if err := frame.ForOwnRights("-j " + o.stampName); err != nil {
			return err
		}
	}
	switch {
	case !o.vlanRestore:
		o.session.VLANRestore = capture.VLANRestoreOff
	case given("vlan-restore"):
		o.session.VLANRestore = capture.VLANRestoreOn
	}
	return nil
}

// stampTypes are tcpdump's descriptions of the types.
var stampTypes = map[capture.Stamp]string{
	capture.HostStamp:            "Host",
	capture.HostLowprecStamp:     "Host, low precision",
	capture.AdapterStamp:         "Adapter",
	capture.AdapterUnsyncedStamp: "Adapter, not synced with system time",
}

// printStampTypes prints the types of time stamps for -J.
func printStampTypes(out io.Writer, interfaces []string) error {
	if len(interfaces) == 0 {
		return fmt.Errorf("-J: which interface? -i %s; xdpcap interfaces lists them", frame.SomeInterface())
	}
	var b strings.Builder
	for _, name := range interfaces {
		if frame.IsPattern(name) {
			return fmt.Errorf("-J and -i %s: each card has its own: name the interfaces, each with its own -i", name)
		}
		types, err := capture.StampTypes(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "Time stamp types for %s (use option -j to set):\n", message.Escape(name))
		for _, t := range types {
			fmt.Fprintf(&b, "  %v (%s)\n", t, stampTypes[t])
		}
	}
	_, err := io.WriteString(out, b.String())
	return frame.ExplainPrint(err)
}

// announceCards prints the metadata that is requested from each card, and the clocks of the cards.
func announceCards(out io.Writer, session *capture.Session) {
	for _, src := range session.Sources() {
		switch {
		case src.Hook != capture.XDP:
		case src.CardMetadata == nil:
			frame.Say(out, "%s: the card is asked for nothing: xdpcap probe -i %s shows what its driver has", src.Name, message.ShellWord(src.Name))
		default:
			frame.Say(out, "%s: the card is asked for %s", src.Name, strings.Join(src.CardMetadata, ", "))
		}
	}
	writeClocks(out, session)
}

// writeClocks prints the difference between each card's clock and the system's.
func writeClocks(out io.Writer, session *capture.Session) {
	sources := session.Sources()
	for i, clock := range session.CardClocks() {
		if clock != nil {
			frame.Say(out, "%s: %v", sources[i].Name, clock)
		}
	}
}

// writeStamps prints at the end how many packets have no stamp from the card, and the clocks.
func writeStamps(out io.Writer, session *capture.Session, accounts capture.Accounts) {
	for i, src := range session.Sources() { // with stamps of cards, the sources do not change
		if n := accounts.Of(i).Unstamped; n > 0 {
			frame.Say(out, "%s: the card gave no time stamp for %s, which have the host's", src.Name, frame.Packets(n))
		}
	}
	writeClocks(out, session)
}

// clockKeys is a card's clock as --json prints it.
type clockKeys struct {
	Name   string  `json:"name"`
	Ahead  int64   `json:"ahead_ns"`
	Within int64   `json:"within_ns"`
	Gains  float64 `json:"gains_ns_per_s"`
}

func newClockKeys(c *capture.CardClock) *clockKeys {
	if c == nil {
		return nil
	}
	return &clockKeys{Name: c.Name, Ahead: c.Ahead.Nanoseconds(), Within: c.Within.Nanoseconds(), Gains: c.Faster * 1e9}
}
